"""Whole scripts: input, output, exit status, files."""

import pytest

from schemas.errors import UserError
from tasks.sandbox.results import Limits, RunKind
from tasks.sandbox.sandbox import Sandbox


def test_input_output_and_exit_status(box: Sandbox) -> None:
    ran = box.run_python("import sys\nprint(input()[::-1])\nprint('bad', file=sys.stderr)\nsys.exit(3)", stdin="abc\n")
    assert (ran.kind, ran.exit, ran.stdout, ran.stderr) == (RunKind.ERROR, 3, "cba\n", "bad\n")
    assert box.run_python("print('ä€😀')").stdout == "ä€😀\n"
    assert box.run_python("import sys; sys.exit()").kind is RunKind.OK


def test_a_script_ends_as_a_script_does(box: Sandbox) -> None:
    code = (
        "import atexit, threading, time\natexit.register(lambda: print('bye'))\n"
        "threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()\n"
        "if __name__ == '__main__': print('main', __file__)"
    )
    assert box.run_python(code).stdout == "main /tmp/main.py\nthread\nbye\n"


def test_a_traceback_shows_the_scripts_own_lines_only(box: Sandbox) -> None:
    ran = box.run_python("def f():\n    return 1 / 0\nf()")
    assert ran.kind is RunKind.ERROR
    assert ran.stderr.startswith(
        'Traceback (most recent call last):\n  File "/tmp/main.py", line 3, in <module>\n    f()'
    )
    assert "runner" not in ran.stderr
    assert "SyntaxError" in box.run_python("def f(:").stderr


def test_limits_of_a_script(box: Sandbox) -> None:
    assert box.run_python("import time; time.sleep(60)", limits=Limits(wall_s=0.5)).kind is RunKind.TIMEOUT
    assert box.run_python("while True: pass", limits=Limits(cpu_s=1, wall_s=30)).kind is RunKind.CPU
    assert box.run_python("x = bytearray(1 << 40)").kind is RunKind.MEMORY
    flood = box.run_python("while True: print('x' * 1000)", limits=Limits(output_kb=16))
    assert flood.reason == "output_limit"
    assert flood.truncated and len(flood.stdout) == 16 << 10
    assert box.run_python("import os; os.kill(os.getpid(), 11)").exit == -11


def test_files_go_in_and_come_out(box: Sandbox) -> None:
    code = (
        "import os\nassert open('a/in.txt').read() == 'in'\nos.makedirs('out/deep')\n"
        "open('out/deep/x.bin', 'wb').write(bytes(range(256)))\nopen('ä.txt', 'w').write('é')"
    )
    ran = box.run_python(code, files={"a/in.txt": "in"}, collect=True)
    assert ran.kind is RunKind.OK, ran
    assert ran.files == {"a/in.txt": b"in", "out/deep/x.bin": bytes(range(256)), "ä.txt": "é".encode()}
    # What came out is a snapshot: it can be put back.
    again = box.run_python("print(len(open('out/deep/x.bin', 'rb').read()))", files=ran.files)
    assert again.stdout == "256\n"


def test_only_regular_files_are_collected(box: Sandbox) -> None:
    code = (
        "import os, socket\nopen('real', 'w').write('x')\nos.symlink('/opt/python/runner.pyc', 'link')\n"
        "os.symlink('/etc/passwd', 'host')\nos.symlink('/', 'folder')\nos.symlink('loop', 'loop')\nos.mkfifo('fifo')\n"
        "socket.socket(socket.AF_UNIX).bind('socket')\nos.link('real', 'second')\n"
        "os.mkdir('closed'); os.chmod('closed', 0)\n"
        "open('unreadable', 'w'); os.chmod('unreadable', 0)"
    )
    ran = box.run_python(code, collect=True)
    assert ran.kind is RunKind.OK, ran
    assert {name: body for name, body in ran.files.items() if name in ("real", "second")} == {
        "real": b"x",
        "second": b"x",
    }
    assert not set(ran.files) & {"link", "host", "folder", "loop", "fifo", "socket"}


def test_too_much_is_cut_and_said_so(box: Sandbox) -> None:
    code = "for n in range(8): open(f'f{n}', 'wb').write(bytes(600_000))"
    ran = box.run_python(code, collect=True, limits=Limits(disk_mb=2))
    assert ran.truncated or ran.kind is RunKind.ERROR
    assert sum(map(len, ran.files.values())) <= 2 << 20


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "", "a//b", "a/./b", "nul\0"])
def test_file_names_stay_inside(box: Sandbox, name: str) -> None:
    with pytest.raises(UserError):
        box.run_python("pass", files={name: "x"})


def test_odd_source_text_is_judged_not_crashed_on(box: Sandbox) -> None:
    assert box.run_python("print('\ud800')").kind in (RunKind.OK, RunKind.ERROR)
    assert box.run_python("pass\0").kind is RunKind.ERROR
    assert box.run_python("").kind is RunKind.OK
    assert box.run_python("x = " + "(" * 10_000 + ")" * 10_000).kind in (RunKind.ERROR, RunKind.MEMORY)


def test_a_flood_that_comes_with_the_first_word_of_the_runner_is_a_flood(box: Sandbox) -> None:
    """However late the trusted process looks, what the runner said before the flood is read."""
    for _ in range(5):
        ran = box.run_python("import os\nwhile True: os.write(1, b'x' * 65536)", limits=Limits(output_kb=1))
        assert (ran.kind, ran.reason) == (RunKind.ERROR, "output_limit"), ran
