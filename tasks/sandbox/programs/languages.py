"""The languages that a task's program may be written in, each a declared command line over system binaries.

    language("javascript").argv            # ("node", "--max-old-space-size=384", "{file}")
    Command(argv=("awk", "-f", "{file}"), tools=("awk",), file="main.awk")

A language whose interpreter is not on this machine is trouble of the surroundings (Unavailable `no_interpreter`):
nothing is said about the program.
"""

import re
from functools import lru_cache

from schemas.errors import UserError
from schemas.trajectory import Base
from tasks.sandbox.programs import tools
from tasks.sandbox.programs.folders import INSIDE
from tasks.sandbox.programs.tools import INSIDE as PROGRAMS
from tasks.sandbox.results import Limits
from tasks.sandbox.wire.protocol import FOLDER

# What a shell program may expect to find; those that a machine lacks are left out, which its version shows.
_SHELL = (
    *("awk", "basename", "cat", "cp", "cut", "date", "dirname", "env", "expr", "false", "find", "grep", "head", "ls"),
    *("mkdir", "mktemp", "mv", "nl", "od", "paste", "printf", "rm", "rmdir", "sed", "seq", "sleep", "sort", "tac"),
    *("tail", "tee", "test", "touch", "tr", "true", "uniq", "wc", "xargs", "bc", "rev", "fold", "join", "comm"),
)


_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


class Command(Base, frozen=True):
    """How a program runs: `argv` with {file} for the program's file and {memory_mb} for its memory limit.

    The first word is one of `tools` (system binaries, by name) or "python". file: the name the program is written
    to. optional: binaries that are there when the machine has them. tags: how a fenced block of it is marked.
    reserves: it reserves more address space than it uses.
    """

    argv: tuple[str, ...]
    tools: tuple[str, ...] = ()
    file: str = "main.txt"
    optional: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    reserves: bool = False

    def check(self) -> None:
        """UserError for a command that could never run: no command line, a tool or file that is no plain name."""
        for name in self.tools:
            tools.find(name)
        if not _FILE.fullmatch(self.file):
            raise UserError(f"'{self.file}' is no name of a program's file.", "A plain name such as main.sh is needed.")
        self.line("python", Limits())

    def present(self) -> tuple[str, ...]:
        """The binaries that the jail gets here."""
        return (*self.tools, *_there(self.optional))

    def line(self, python: str, limits: Limits, folder: str = PROGRAMS) -> tuple[str, ...]:
        """The command line inside, its first word a path; folder: where the binaries are."""
        first, *rest = self.argv or ("",)
        if first != "python" and first not in self.tools:
            known = ", ".join(("python", *self.tools))
            raise UserError(f"The command '{first}' is not among its tools.", f"Known here: {known}.")
        values = {"{file}": f"{FOLDER}/{self.file}", "{memory_mb}": str(limits.memory_mb * 3 // 4)}
        filled = []
        for part in rest:
            text = part
            for name, value in values.items():
                text = text.replace(name, value)
            filled.append(text)
        return (python if first == "python" else f"{folder}/{first}", *filled)


@lru_cache(maxsize=64)
def _there(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if tools.find(name) is not None)


_SH = Command(
    argv=("sh", "{file}"), tools=("sh",), file="main.sh", optional=_SHELL, tags=("sh", "shell", "bash", "zsh", "posix")
)
_BASH = Command(
    argv=("bash", "--noprofile", "--norc", "{file}"),
    tools=("bash", "sh"),
    file="main.sh",
    optional=_SHELL,
    tags=("bash", "sh", "shell"),
)
_NODE = Command(
    # The heap's limit is below the jail's, so that the engine itself says that memory ran out.
    argv=("node", "--max-old-space-size={memory_mb}", "{file}"),
    tools=("node",),
    file="main.js",
    tags=("javascript", "js", "node", "mjs"),
    reserves=True,
)
LANGUAGES = {"sh": _SH, "bash": _BASH, "javascript": _NODE}
_SAME = {"shell": "sh", "js": "javascript", "node": "javascript"}


def language(name: str) -> Command:
    """The command of a language by its name; UserError for an unknown one."""
    found = LANGUAGES.get(_SAME.get(name, name))
    if found is None:
        raise UserError(
            f"Unknown language '{name}'.",
            f"Known: python, {', '.join((*LANGUAGES, *_SAME))}; any other by its command line (argv and tools).",
        )
    return found


def environment(folder: str = PROGRAMS, *, packages: bool = False) -> dict[str, str]:
    """The whole environment of such a program.

    folder: where its binaries are; packages: Python inside may import the declared ones.
    """
    found = {
        "PATH": folder,
        "HOME": FOLDER,
        "LANG": "C.UTF-8",
        "LD_LIBRARY_PATH": f"{folder}/.libs:/opt/python/lib",
        "TMPDIR": "/tmp",  # noqa: S108 - the jail's own
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    if packages:
        found["PYTHONPATH"] = INSIDE
        found["LD_LIBRARY_PATH"] += f":{INSIDE}/.libs"
        # A pool of threads for each core would use up the limits before anything is computed.
        found |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return found
