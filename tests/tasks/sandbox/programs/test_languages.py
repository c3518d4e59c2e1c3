"""Programs in other languages: they run, they end as they should, and nothing gets out of their jails either."""

import os
import runpy
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import Unavailable, UserError
from tasks.sandbox.programs import tools
from tasks.sandbox.programs.languages import Command, language
from tasks.sandbox.results import Limits, RunKind, RunResult
from tasks.sandbox.sandbox import Sandbox

PROGRAMS: list[Any] = runpy.run_path(str(Path(__file__).parents[1] / "escapes_programs.py"))["PROGRAMS"]
NODE = shutil.which("node", path="/usr/bin:/bin:/usr/local/bin")
needs_node = pytest.mark.skipif(NODE is None, reason="no node on this machine")


def test_a_shell_program_reads_and_writes(box: Sandbox) -> None:
    code = "while read -r a b; do echo $((a + b)); done | sort -n | tr '\\n' ' '; echo; [ -f data.txt ] && cat data.txt"
    ran = box.run_program(code, language("sh"), stdin="3 4\n1 1\n", files={"data.txt": "x\n"})
    assert (ran.kind, ran.stdout, ran.exit) == (RunKind.OK, "2 7 \nx\n", 0), ran
    ran = box.run_program("a=(1 2 3); echo ${#a[@]} >&2; exit 4", language("bash"))
    assert (ran.kind, ran.stderr, ran.exit) == (RunKind.ERROR, "3\n", 4)


@needs_node
def test_a_javascript_program_reads_and_writes(box: Sandbox) -> None:
    code = (
        "const lines = require('fs').readFileSync(0, 'utf8').trim().split('\\n');\n"
        "console.log(lines.map(Number).reduce((a, b) => a + b)); setTimeout(() => console.log('later'), 10);"
    )
    ran = box.run_program(code, language("javascript"), stdin="1\n2\n3\n")
    assert (ran.kind, ran.stdout) == (RunKind.OK, "6\nlater\n"), ran
    assert box.run_program("throw new Error('no')", language("js")).kind is RunKind.ERROR


def test_any_command_line_over_named_binaries(box: Sandbox) -> None:
    awk = Command(argv=("awk", "-f", "{file}"), tools=("awk",), file="main.awk")
    assert box.run_program("{ print $1 * 2 }", awk, stdin="21\n").stdout == "42\n"
    module = Command(argv=("python", "-I", "-m", "json.tool", "{file}"), file="data.json")
    assert box.run_program('{"a":1}', module).stdout == '{\n    "a": 1\n}\n'


def test_files_of_a_program_come_out(box: Sandbox) -> None:
    ran = box.run_program("mkdir -p out; echo hi > out/a; ln -s /etc/passwd link", language("sh"), collect=True)
    assert ran.files["out/a"] == b"hi\n"
    assert "link" not in ran.files


def test_a_missing_interpreter_says_nothing_about_the_program(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = Command(argv=("no-such-interpreter", "{file}"), tools=("no-such-interpreter",))
    with pytest.raises(Unavailable, match="not installed on this machine: no-such-interpreter") as refused:
        box.run_program("", absent)
    assert refused.value.reason == "no_interpreter"


@pytest.mark.parametrize("name", ["/bin/sh", "../sh", "", "-x", "a b", "a\nb"])
def test_only_plain_names_are_looked_up(name: str) -> None:
    with pytest.raises(UserError):
        tools.find(name)


def test_only_programs_that_root_installed_for_all_get_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = Path("/bin/cat").resolve()
    for name, mode in (("writable", 0o777), ("closed", 0o700), ("fine", 0o755)):
        shutil.copyfile(binary, tmp_path / name)
        (tmp_path / name).chmod(mode)
    (tmp_path / "script").write_text("#!/bin/sh\necho secret\n")
    (tmp_path / "script").chmod(0o755)
    monkeypatch.setattr(tools, "_SEARCHED", (str(tmp_path),))
    for name in ("writable", "closed", "script"):
        with pytest.raises(UserError):
            tools.find(name)
    if os.geteuid() == 0:
        assert tools.find("fine") == tmp_path / "fine"
        os.chown(tmp_path / "fine", 12_345, 12_345)
        with pytest.raises(UserError):
            tools.find("fine")


def test_copies_have_no_set_user_id_bit_and_their_bytes_are_in_the_version(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    found = tools.prepare(tmp_path, ("su", "cat")) if tools.find("su") else tools.prepare(tmp_path, ("cat",))
    assert not [path for path in found.root.rglob("*") if path.stat().st_mode & 0o6022]
    other = tools.prepare(tmp_path, ("sh",))
    assert found.version != other.version
    assert tools.prepare(tmp_path, ("sh",)) == other


def test_a_command_must_start_with_one_of_its_tools(box: Sandbox) -> None:
    for argv in ((), ("sh", "{file}"), ("/opt/bin/cat",)):
        with pytest.raises(UserError):
            box.run_program("", Command(argv=argv, tools=("cat",)))
    for file in ("../x", "a/b", "", "-"):
        with pytest.raises(UserError):
            Command(argv=("cat",), tools=("cat",), file=file).check()
    with pytest.raises(UserError, match="Known: python, sh"):
        language("cobol")


def test_shared_memory_counts_where_address_space_is_not_limited(watched: Sandbox) -> None:
    """What a program like V8 may reserve without limit, the watchdog sums all the same."""
    code = "import mmap, time\nheld = mmap.mmap(-1, 600 << 20)\nfor at in range(0, len(held), 4096): held[at] = 1\n"
    wide = Command(argv=("python", "{file}"), file="main.py", reserves=True)
    ran = watched.run_program(f"{code}time.sleep(5)\nprint('ESCAPED')", wide, limits=Limits(memory_mb=256))
    assert (ran.kind, ran.stdout) == (RunKind.MEMORY, ""), ran


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> dict[str, dict[str, RunResult]]:
    found = {}
    os.environ["GRISTMILL_TEST_SECRET"] = "x"
    for mode in ("box", "watched"):
        box: Sandbox = request.getfixturevalue(mode)

        def attack(escape: Any, box: Sandbox = box) -> RunResult | None:
            wall = 2.0 if escape.ends == ("timeout",) else 20.0
            limits = Limits(wall_s=wall, cpu_s=1, memory_mb=256, processes=24)
            if escape.language == "javascript" and NODE is None:
                return None
            return box.run_program(escape.code, language(escape.language), limits=limits)

        with ThreadPoolExecutor(2) as threads:
            every = dict(zip([each.name for each in PROGRAMS], threads.map(attack, PROGRAMS), strict=True))
        found[mode] = {name: each for name, each in every.items() if each is not None}
    del os.environ["GRISTMILL_TEST_SECRET"]
    return found


@pytest.mark.parametrize("mode", ["box", "watched"])
@pytest.mark.parametrize("escape", PROGRAMS, ids=lambda each: each.name)
def test_an_escape_from_another_language_is_refused(
    escape: Any, mode: str, results: dict[str, dict[str, RunResult]]
) -> None:
    if escape.name not in results[mode]:
        pytest.skip("no node on this machine")
    result = results[mode][escape.name]
    assert "ESCAPED" not in result.stdout, result
    if result.kind is RunKind.OK:
        assert result.stdout.split()[-1:] == ["refused"], result
    else:
        assert result.kind.value in escape.ends, result
