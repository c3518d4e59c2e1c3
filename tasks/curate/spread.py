"""Takes a set through a pure function, partition by partition: in this process, or on Ray's workers where Ray is up.

What reads trajectories (signatures, shingles) is a map over partitions; what decides is a reduce over the small
results, in one place. A partition travels as the lake's address and ids; a worker opens the lake itself, and only
what the function gives comes back. The function sees the same trajectories wherever it runs, so that the decisions
are the same. Ray is up in a task of Prefect's RayTaskRunner, and after `ray.init()`.
"""

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from schemas.trajectory import Trajectory
    from warehouse.lake import Lake

Made = TypeVar("Made")
Work = Callable[[Sequence["Trajectory"]], Made]

# Trajectories of a partition: a few MB of text, decoded at a time whatever the size of the set.
PARTITION = 2048
# Partitions handed to Ray before the first result is taken, so that results do not pile up.
_AHEAD = 64


def spread(
    lake: "Lake", refs: Sequence[str], work: "Work[Made]", size: int = PARTITION
) -> Iterator[tuple[Sequence[str], Made]]:
    """Each partition of `refs` with what `work` made of its trajectories, in order.

    LakeError when the lake lacks a trajectory. On Ray, `work` must be picklable by value (closures are).
    """
    partitions = [refs[start : start + size] for start in range(0, len(refs), size)]
    ray: Any = sys.modules.get("ray")
    if len(partitions) > 1 and ray is not None and ray.is_initialized():
        yield from _on_ray(ray, lake, partitions, work)
        return
    for ids in partitions:
        yield ids, work(lake.trajectories(ids))


def _on_ray(
    ray: Any, lake: "Lake", partitions: Sequence[Sequence[str]], work: "Work[Made]"
) -> Iterator[tuple[Sequence[str], Made]]:
    remote, shared = ray.remote(_elsewhere), ray.put(work)
    waiting: list[Any] = []
    for number, ids in enumerate(partitions):
        while len(waiting) < min(number + _AHEAD, len(partitions)):
            waiting.append(remote.remote(lake.address, list(partitions[len(waiting)]), shared))
        yield ids, ray.get(waiting[number])
        waiting[number] = None


def _elsewhere(address: str, ids: Sequence[str], work: "Work[Made]") -> Made:
    return work(_opened(address).trajectories(ids))


@functools.lru_cache(maxsize=4)
def _opened(address: str) -> "Lake":
    """The lake, opened once a worker: new rows are seen, since every query reads the newest snapshot."""
    from warehouse.lake import Lake

    return Lake.open(address, read_only=True)
