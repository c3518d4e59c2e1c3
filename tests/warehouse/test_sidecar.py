"""The small databases beside a lake: any number of processes may open a new one at the same moment."""

import multiprocessing
from pathlib import Path
from typing import Any

from warehouse.sidecar import SQLiteSidecar

PROCESSES, FILES = 4, 80
SCHEMA = ("CREATE TABLE IF NOT EXISTS counts (n INTEGER)",)


def opener(folder: Path, start: Any, ended: Any) -> None:
    """Opens each new file in the same moment as the others do, and writes a row into it."""
    try:
        for number in range(FILES):
            start.wait(60)
            store = SQLiteSidecar(folder / f"{number}.sqlite", SCHEMA)
            with store.transaction() as cursor:
                cursor.run("INSERT INTO counts VALUES (1)")
            store.close()
        ended.put("opened all")
    except BaseException as error:
        start.abort()
        ended.put(repr(error))


def test_a_new_file_is_opened_by_many_processes_at_once(tmp_path: Path) -> None:
    """The switch to WAL is told "locked" at once by SQLite: it ended one process in every few hundred files."""
    context = multiprocessing.get_context("spawn")
    start, ended = context.Barrier(PROCESSES), context.Queue()
    processes = [context.Process(target=opener, args=(tmp_path, start, ended)) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    assert [ended.get(timeout=120) for _ in processes] == ["opened all"] * PROCESSES
    for process in processes:
        process.join()
    counts = [SQLiteSidecar(tmp_path / f"{n}.sqlite", ()).read("SELECT count(*) FROM counts") for n in range(FILES)]
    assert counts == [[(PROCESSES,)]] * FILES
