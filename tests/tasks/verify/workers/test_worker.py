"""A helper process is killed when it hangs, and its like takes over."""

import time

import pytest

from tasks.verify.workers.worker import Pool, Worker, WorkerDied, WorkerFailed, WorkerTimeout


def test_values_pass_and_errors_are_told() -> None:
    worker = Worker("builtins:abs")
    try:
        assert worker.call(-3, 30) == 3
        with pytest.raises(WorkerFailed, match="TypeError"):
            worker.call("x", 30)
        assert worker.call(-4.5, 30) == 4.5
    finally:
        worker.close()


def test_a_call_that_hangs_is_killed_and_the_next_one_works() -> None:
    worker = Worker("time:sleep")
    try:
        start = time.monotonic()
        with pytest.raises(WorkerTimeout):
            worker.call(60, 0.5)
        assert time.monotonic() - start < 30
        assert worker.call(0, 30) is None
    finally:
        worker.close()


def test_a_process_that_dies_is_told_apart_and_replaced() -> None:
    worker = Worker("os:_exit")
    try:
        with pytest.raises(WorkerDied):
            worker.call(0, 30)
        with pytest.raises(WorkerDied):
            worker.call(3, 30)
    finally:
        worker.close()


def test_what_a_function_prints_is_no_answer() -> None:
    pool = Pool("builtins:print")
    try:
        assert pool.call('{"value": 1}', 30) is None
    finally:
        pool.close()
