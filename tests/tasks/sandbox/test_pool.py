"""Jails prepared ahead: used once, of the right shape, ended when nobody comes."""

import os
import queue
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from tasks.sandbox import bwrap
from tasks.sandbox.engine import Bubblewrap
from tasks.sandbox.jail import Slot
from tasks.sandbox.pool import Pool
from tasks.sandbox.programs import interpreter
from tasks.sandbox.results import Call, Limits, RunKind
from tasks.sandbox.sandbox import Sandbox
from tasks.sandbox.shape import Shape
from tasks.sandbox.state import state_dir
from tests.tasks.sandbox.left import below, wait_for_none

ONE, OTHER = Shape(disk_mb=8), Shape(disk_mb=9)


@pytest.fixture
def slots() -> "queue.SimpleQueue[Slot]":
    found: queue.SimpleQueue[Slot] = queue.SimpleQueue()
    for number in range(3):
        found.put(Slot(number))
    return found


@pytest.fixture
def pool(slots: "queue.SimpleQueue[Slot]") -> Iterator[Pool]:
    engine = Bubblewrap(bwrap.find(state_dir()), interpreter.prepare(state_dir()))
    opened = Pool(2, engine.launch, slots, idle_s=60.0)
    yield opened
    opened.close()


def ready(pool: Pool, count: int) -> None:
    end = time.monotonic() + 20
    while sum(entry.done.is_set() for entry in pool._waiting) < count and time.monotonic() < end:
        time.sleep(0.01)


def test_a_prepared_jail_is_given_to_one_only_and_only_in_its_shape(
    pool: Pool, slots: "queue.SimpleQueue[Slot]"
) -> None:
    assert pool.take(ONE) is None
    pool.want(ONE)
    ready(pool, 1)
    assert pool.take(OTHER) is None
    jail = pool.take(ONE)
    assert jail is not None and jail.alive
    assert pool.take(ONE) is None
    slots.put(jail.slot)
    jail.end()
    assert not jail.alive


def test_no_more_wait_than_allowed_and_another_shape_takes_the_place(
    pool: Pool, slots: "queue.SimpleQueue[Slot]"
) -> None:
    for _ in range(5):
        pool.want(ONE)
    ready(pool, 2)
    assert slots.qsize() == 1
    pool.want(OTHER)
    ready(pool, 2)
    found = [pool.take(OTHER), pool.take(ONE)]
    assert all(found) and pool.take(ONE) is None
    for jail in found:
        if jail is not None:
            slots.put(jail.slot)
            jail.end()
    assert slots.qsize() == 3


def test_one_that_died_is_not_given(pool: Pool, slots: "queue.SimpleQueue[Slot]") -> None:
    mine = {each.pid for each in psutil.Process().children()}
    pool.want(ONE)
    ready(pool, 1)
    for child in psutil.Process().children():
        if child.pid not in mine:
            child.kill()
    time.sleep(0.1)
    assert pool.take(ONE) is None
    assert slots.qsize() == 3


def test_closing_ends_all_that_wait(pool: Pool, slots: "queue.SimpleQueue[Slot]") -> None:
    pool.want(ONE)
    pool.want(OTHER)
    pool.close()
    assert slots.qsize() == 3
    pool.want(ONE)
    assert pool.take(ONE) is None
    assert not [thread for thread in threading.enumerate() if thread is pool._thread]


def test_what_nobody_takes_ends_by_itself() -> None:
    before = below(os.getpid())
    box = Sandbox.start(1, warm=1)
    try:
        box.run_python("print(1)")
        time.sleep(0.3)
        assert below(os.getpid(), before)
        assert not wait_for_none(lambda: below(os.getpid(), before), 15.0)
        assert box.run_python("print(2)").stdout == "2\n"
    finally:
        box.close()


def test_every_candidate_finds_a_fresh_jail() -> None:
    code = (
        "import os\ndef f(x):\n    seen = sorted(os.listdir('/tmp'))\n    open('/tmp/left', 'w').write(x)\n"
        "    return [seen, os.getpid()]"
    )
    box = Sandbox.start(2, warm=2)
    try:
        for _ in range(6):
            time.sleep(0.05)
            assert box.call_functions(code, [Call(entry="f", args=["x"])]).results[0].value == [["work"], 2]
    finally:
        box.close()


def test_threads_and_shapes_mixed_lose_no_slot_and_mix_no_results() -> None:
    box = Sandbox.start(2, warm=2)
    chance = random.Random(3)
    plans = [(number, chance.choice((16, 24, 32)), chance.choice((0, 1, 2))) for number in range(40)]

    def one(plan: tuple[int, int, int]) -> object:
        number, disk, seed = plan
        code = "import time\ntime.sleep(60)" if number % 13 == 0 else f"def f(): return {number}"
        limits = Limits(disk_mb=disk, hash_seed=seed, wall_s=0.5 if number % 13 == 0 else 10)
        found = box.call_functions(code, [Call(entry="f")], limits).results[0]
        return found.value if found.kind is RunKind.OK else found.kind

    try:
        with ThreadPoolExecutor(6) as threads:
            found = list(threads.map(one, plans))
        assert found == [RunKind.TIMEOUT if number % 13 == 0 else number for number, _, _ in plans]
        box._box._pool.close()
        assert box._box._slots.qsize() == 4
    finally:
        box.close()
