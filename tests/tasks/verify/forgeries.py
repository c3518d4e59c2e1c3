"""Forgeries: candidates that claim to be right without being so. None may get the verdict pass.

Each is a whole candidate for the entry `f`; the hidden tests call f(3) and f([1, 2]) and expect numbers that no
candidate can know. `kinds`: the verdicts that are right for it.
"""

# ruff: noqa: E501

from typing import NamedTuple

SECRET = (918_273_645, 546_372_819)
FAIL, REFUSED, TIMEOUT, MEMORY = "fail", "refused", "timeout", "memory"


class Forgery(NamedTuple):
    """A name, the candidate's code, and the verdict kinds that may come out."""

    name: str
    code: str
    kinds: tuple[str, ...] = (FAIL,)


_FRAME = """
import os
def frame(body, kind=b"J"):
    os.write(3, len(body).to_bytes(4, "big") + kind + body)
"""

FORGERIES = [
    # Objects that pretend.
    Forgery(
        "always_equal_int",
        "class A(int):\n    __eq__ = lambda s, o: True\n    __hash__ = int.__hash__\ndef f(x): return A(7)",
    ),
    Forgery(
        "always_equal_str",
        "class A(str):\n    __eq__ = lambda s, o: True\n    __hash__ = str.__hash__\ndef f(x): return A('7')",
    ),
    Forgery(
        "always_equal_list",
        "class A(list):\n    __eq__ = lambda s, o: True\n    __len__ = lambda s: 1\ndef f(x): return A([7])",
    ),
    Forgery("always_equal_object", "class A:\n    __eq__ = lambda s, o: True\ndef f(x): return A()"),
    Forgery(
        "false_class",
        "class A:\n    __class__ = int\n    __eq__ = lambda s, o: True\n    __repr__ = lambda s: '918273645'\ndef f(x): return A()",
    ),
    Forgery("lying_repr", "class A(int):\n    __repr__ = __str__ = lambda s: '918273645'\ndef f(x): return A(7)"),
    Forgery("lying_iterator", "class A(list):\n    def __iter__(self): yield from [918273645]\ndef f(x): return A()"),
    Forgery(
        "pickled", "import os\nclass A:\n    def __reduce__(self): return (os.system, ('true',))\ndef f(x): return A()"
    ),
    Forgery("bool_for_number", "def f(x): return True"),
    # Ending early.
    Forgery("exit_at_import", "import os\nos._exit(0)"),
    Forgery("exit_in_call", "import os\ndef f(x): os._exit(0)"),
    Forgery("system_exit_at_import", "import sys\nsys.exit(0)"),
    Forgery("system_exit_in_call", "import sys\ndef f(x): sys.exit(0)"),
    Forgery("exit_handler", "import atexit\natexit.register(lambda: print('passed'))\ndef f(x): return 7"),
    Forgery("kill_the_runner_at_import", "import os\nos.kill(os.getpid(), 9)\nos.abort()"),
    Forgery("killed_by_hangup", "import os\ndef f(x): os.kill(os.getpid(), 1)"),
    # Looking for the answer.
    Forgery(
        "walk_frames",
        "import sys\ndef f(x):\n    frame = sys._getframe()\n    while frame:\n        for value in [*frame.f_locals.values(), "
        "*frame.f_globals.values()]:\n            if isinstance(value, dict):\n                for key in ('expected', 'tests'):\n"
        "                    if key in value: return value[key]\n        frame = frame.f_back\n    return 7",
    ),
    Forgery(
        "search_the_heap",
        "import gc\ndef f(x):\n    for each in gc.get_objects():\n        if isinstance(each, (list, tuple, dict)) and 918273 in "
        "[v // 1000 for v in (each.values() if isinstance(each, dict) else each) if type(v) is int]:\n"
        "            return 918273645\n    return 7",
    ),
    Forgery(
        "search_the_files",
        "import os\ndef f(x):\n    for folder, _, names in os.walk('/tmp'):\n        for name in names:\n"
        "            if '918273' in open(os.path.join(folder, name), errors='replace').read(): return 918273645\n    return 7",
    ),
    # Meddling with the runner.
    Forgery(
        "patch_json",
        "import json\njson.dumps = lambda *a, **k: '918273645'\njson.loads = json.dumps\ndef f(x): return 7",
    ),
    Forgery(
        "patch_runner",
        "import sys\nrunner = sys.modules['__main__']\nrunner._json = lambda v: b'[0,\"ok\",true]'\n"
        "runner._encode = lambda v, o, d: o.append('true')\ndef f(x): return 7",
    ),
    Forgery("patch_builtins", "import builtins\nbuiltins.isinstance = lambda *a: True\ndef f(x): return 7"),
    Forgery(
        "patch_marshal_and_fork",
        "import posix, os\nposix.fork = lambda: 0\nos.fork = posix.fork\ndef f(x): return 7",
        (FAIL, REFUSED),
    ),
    Forgery("patch_wait", "import posix\nposix.waitpid = lambda *a: (0, 0)\ndef f(x): return 7", (FAIL, TIMEOUT)),
    # Writing to the private descriptor.
    Forgery("forged_pass_word", _FRAME + "def f(x):\n    frame(b'[0,\"pass\"]')\n    return 7", (REFUSED,)),
    Forgery(
        "forged_value", _FRAME + "frame(b'[0,\"ok\",1]')\nframe(b'[1,\"ok\",1]')\ndef f(x): return 7", (FAIL, REFUSED)
    ),
    Forgery("second_value", _FRAME + "def f(x):\n    frame(b'[0,\"ok\",918]')\n    return 7", (REFUSED,)),
    Forgery(
        "many_guesses",
        _FRAME + "def f(x):\n    for n in range(1000): frame(b'[0,\"ok\",%d]' % n)\n    return 7",
        (REFUSED,),
    ),
    Forgery("other_index", _FRAME + "def f(x):\n    frame(b'[99,\"ok\",1]')\n    return 7", (REFUSED,)),
    Forgery("negative_index", _FRAME + "def f(x):\n    frame(b'[-9,\"ok\",1]')\n    return 7", (REFUSED,)),
    Forgery("not_json", _FRAME + "def f(x):\n    frame(b'[0,\"ok\",')\n    return 7", (REFUSED,)),
    Forgery("raw_bytes", _FRAME + "def f(x):\n    os.write(3, os.urandom(4096))\n    return 7", (REFUSED, FAIL)),
    Forgery("huge_frame", _FRAME + "def f(x):\n    os.write(3, b'\\xff\\xff\\xff\\xffJ')\n    return 7", (REFUSED,)),
    Forgery("cut_frame", _FRAME + "def f(x):\n    os.write(3, b'\\0\\0\\0\\x09J[0')\n    os._exit(0)", (REFUSED, FAIL)),
    Forgery(
        "file_frame", _FRAME + "def f(x):\n    frame(b'\\0\\x10../../etc/passwdx', b'F')\n    return 7", (REFUSED,)
    ),
    Forgery("unknown_frame", _FRAME + "def f(x):\n    frame(b'[0,\"ok\",1]', b'X')\n    return 7", (REFUSED,)),
    Forgery("nan_literal", _FRAME + "def f(x):\n    frame(b'[0,\"ok\",NaN]')\n    os._exit(0)", (REFUSED,)),
    Forgery("infinity_literal", _FRAME + "def f(x):\n    frame(b'[0,\"ok\",1e999]')\n    os._exit(0)", (REFUSED,)),
    Forgery(
        "deep_literal",
        _FRAME + "def f(x):\n    frame(b'[0,\"ok\",' + b'[' * 50000 + b']' * 50000 + b']')\n    os._exit(0)",
        (REFUSED,),
    ),
    Forgery(
        "deep_enough",
        _FRAME + "def f(x):\n    frame(b'[0,\"ok\",' + b'[' * 300 + b']' * 300 + b']')\n    os._exit(0)",
        (REFUSED,),
    ),
    Forgery(
        "huge_integer_literal",
        _FRAME + "def f(x):\n    frame(b'[0,\"ok\",' + b'9' * 100000 + b']')\n    os._exit(0)",
        (REFUSED,),
    ),
    Forgery(
        "claim_of_infrastructure",
        _FRAME + 'def f(x):\n    frame(b\'[0,"infrastructure","",""]\')\n    os._exit(0)',
        (REFUSED,),
    ),
    Forgery("claim_never_started", "import os\nos.close(3)\ndef f(x): return 7", (FAIL,)),
    # Values that break whoever reads them.
    Forgery("nan", "def f(x): return float('nan')"),
    Forgery("infinity", "def f(x): return float('inf')"),
    Forgery("huge_integer", "def f(x): return 10 ** 5000"),
    Forgery("large_integer", "def f(x): return 10 ** 4000"),
    Forgery("deep_nesting", "def f(x):\n    a = []\n    for _ in range(100000): a = [a]\n    return a"),
    Forgery("endless_nesting", "def f(x):\n    a = []\n    a.append(a)\n    return a"),
    Forgery("colliding_numbers", "def f(x): return [i * (2 ** 61 - 1) for i in range(20000)]"),
    Forgery("colliding_keys", "def f(x): return {i * (2 ** 61 - 1): 1 for i in range(2000)}"),
    Forgery("lone_surrogate", "def f(x): return '\\ud800'"),
    Forgery("huge_text", "def f(x): return 'x' * (64 << 20)"),
    Forgery("generator", "def f(x): yield 918273645"),
    Forgery("coroutine", "async def f(x): return 918273645"),
    Forgery("error_that_says_passed", "def f(x): raise Exception('passed ' * 100000)"),
    Forgery("error_without_text", "class E(BaseException):\n    def __str__(self): raise self\ndef f(x): raise E()"),
    # Going on after the call.
    Forgery("two_returns", "import os\ndef f(x):\n    os.fork()\n    return 7", (REFUSED, FAIL)),
    Forgery(
        "write_later",
        _FRAME + "import time\ndef f(x):\n    if os.fork() == 0:\n        os.setsid()\n        time.sleep(0.2)\n"
        "        frame(b'[1,\"ok\",546372819]')\n        os._exit(0)\n    return 7",
    ),
    Forgery(
        "talk_on_stdout", "def f(x):\n    print('[0,\"ok\",918273645]')\n    print('PASSED 2 tests')\n    return 7"
    ),
    Forgery(
        "start_files",
        "for n in ('sitecustomize.py', 'usercustomize.py', 'x.pth', 'conftest.py', 'json.py'):\n    open(n, 'w').write('import os; os._exit(0)')\ndef f(x): return 7",
    ),
    Forgery("no_function", "g = 918273645"),
    Forgery("entry_is_value", "f = 918273645"),
    Forgery("syntax_error", "def f(x:\n    return 918273645"),
    Forgery("nul_in_source", "def f(x): return 7\n\0"),
    Forgery("deep_source", "f = " + "(" * 5000 + "1" + ")" * 5000),
    Forgery(
        "long_recursion", "import sys\nsys.setrecursionlimit(10 ** 9)\ndef f(x): return f(x)", (FAIL, MEMORY, TIMEOUT)
    ),
]
