"""Nothing gets out of a jail, in either mode."""

import os
import re
import runpy
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tasks.sandbox.results import Call, CallResult, Limits, RunKind
from tasks.sandbox.sandbox import Sandbox

ESCAPES: list[Any] = runpy.run_path(str(Path(__file__).with_name("escapes.py")))["ESCAPES"]
SOCKET = "gristmill-test-socket"


@pytest.fixture(scope="module", autouse=True)
def host_socket() -> Iterator[None]:
    """Something of the host that a jail could reach if it shared the network namespace, of this test worker only."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"\0{SOCKET}-{os.getpid()}")
        listening.listen()
        yield


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> dict[str, dict[str, CallResult]]:
    found = {}
    for mode in ("box", "watched"):
        box: Sandbox = request.getfixturevalue(mode)

        def attack(escape: Any, box: Sandbox = box) -> CallResult:
            limits = Limits(wall_s=escape.wall_s, cpu_s=1, memory_mb=256, processes=16)
            code = escape.code.replace(SOCKET, f"{SOCKET}-{os.getpid()}")
            return box.call_functions(code, [Call(entry="attack")], limits).results[0]

        with ThreadPoolExecutor(2) as threads:
            found[mode] = dict(zip([each.name for each in ESCAPES], threads.map(attack, ESCAPES), strict=True))
    return found


@pytest.mark.parametrize("mode", ["box", "watched"])
@pytest.mark.parametrize("escape", ESCAPES, ids=lambda each: each.name)
def test_an_escape_is_refused(escape: Any, mode: str, results: dict[str, dict[str, CallResult]]) -> None:
    result = results[mode][escape.name]
    if result.kind is RunKind.OK:
        assert str(result.value).startswith("refused"), result
    else:
        assert result.kind.value in escape.ends, result


def test_the_table_is_large_enough() -> None:
    assert len({each.name for each in ESCAPES}) == len(ESCAPES) >= 40


def test_the_documentation_lists_every_name() -> None:
    programs = runpy.run_path(str(Path(__file__).with_name("escapes_programs.py")))["PROGRAMS"]
    text = (Path(__file__).resolve().parents[3] / "docs" / "security.md").read_text()
    listed = set(re.findall(r"[a-z0-9_]+", text))
    names = {each.name for each in ESCAPES} | {each.name.partition("_")[2] for each in programs}
    assert not names - listed
