"""A process that works on a lake, for the tests with several processes; prints a line per step.

python writer.py append LAKE START COUNT    COUNT appends of 10 tasks and 10 trajectories each
python writer.py lease LAKE TTL             takes one lease, then hangs
python writer.py claim LAKE KEY             claims a request key, then hangs
python writer.py once LAKE                  a batch under a lease, as the stage runner does it
"""

import sys
import time
from functools import partial

from tests.warehouse.filled import STAMP, make_tasks, make_trajectories
from warehouse.lake import Lake
from warehouse.requests import RequestCache

say = partial(print, flush=True)


def main(kind: str, address: str, *rest: str) -> None:
    lake = Lake.open(address)
    say("open")
    if kind == "append":
        start, count = int(rest[0]), int(rest[1])
        for number in range(count):
            first = start + number * 10
            added = lake.append(STAMP, {"tasks": make_tasks(10, first), "trajectories": make_trajectories(10, first)})
            say("appended", first, added["tasks"], added["trajectories"])
    elif kind == "lease":
        lease = lake.leases.acquire("curate", STAMP.fingerprint, "batch", ttl_s=float(rest[0]))
        say("lease", lease is not None)
        time.sleep(600)
    elif kind == "claim":
        cache = RequestCache.for_lake(lake)
        say("claim", type(cache.claim_many([rest[0]])[rest[0]]).__name__)
        time.sleep(600)
    elif kind == "once":
        while not lake.find("tasks", "id", [make_tasks(1)[0].id]).num_rows:
            lease = lake.leases.acquire("curate", STAMP.fingerprint, "batch")
            if lease is None:
                time.sleep(0.05)
                continue
            with lease:
                if lake.find("tasks", "id", [make_tasks(1)[0].id]).num_rows:
                    continue
                say("worked")
                lake.append(STAMP, {"tasks": make_tasks(10)}, lease)
    lake.close()
    say("closed")


if __name__ == "__main__":
    main(*sys.argv[1:])
