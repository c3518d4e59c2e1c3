"""What a jail is made of: bubblewrap, a container, or nothing at all (the user's explicit wish)."""

import sys
from pathlib import Path
from typing import Protocol

from tasks.sandbox import bwrap
from tasks.sandbox.bounds import seccomp
from tasks.sandbox.inside import runner_file
from tasks.sandbox.jail import Launch, Slot
from tasks.sandbox.programs.interpreter import Interpreter
from tasks.sandbox.results import Limits
from tasks.sandbox.shape import Shape

_HINT = (
    "Unprivileged user namespaces must be allowed (sysctl kernel.unprivileged_userns_clone=1, "
    "user.max_user_namespaces > 0; on Ubuntu also kernel.apparmor_restrict_unprivileged_userns=0)."
)

FLAGS = ("-P", "-s", "-S", "-B", "-X", "utf8")


class Engine(Protocol):
    """One way to start a runner.

    version: belongs into the keys of verdicts; unsafe: there is no jail; hint: what may be wrong when it does not work.
    """

    version: str
    python: Interpreter
    unsafe: bool
    hint: str

    def fit(self, shape: Shape, limits: Limits) -> Shape:
        """The shape with what this engine must know at the start."""
        ...

    def launch(self, slot: Slot, shape: Shape) -> Launch:
        """How to start a jail of this shape in this slot."""
        ...

    def inside(self, shape: Shape) -> bytes:
        """The system call filter that the runner must put on itself; empty where it starts with one."""
        ...


class Bubblewrap:
    """The jail of docs/security.md."""

    unsafe, hint = False, _HINT

    def __init__(self, binary: bwrap.Bwrap, python: Interpreter) -> None:
        self.version, self.python, self._binary = f"bubblewrap-{binary.version}", python, binary.path
        self._filters = {loopback: seccomp.program(network=loopback) for loopback in (False, True)}

    def fit(self, shape: Shape, limits: Limits) -> Shape:
        """Nothing more: limits are set inside and by cgroup."""
        return shape

    def launch(self, slot: Slot, shape: Shape) -> Launch:
        """A command line around the copied interpreter."""

        def command(seccomp_fd: int, info_fd: int) -> list[str]:
            outer = bwrap.argv(self._binary, self.python.root, shape, slot.uid, seccomp_fd, info_fd)
            return [*outer, self.python.python, *FLAGS, self.python.runner]

        return Launch(command, self._filters[shape.loopback])

    def inside(self, shape: Shape) -> bytes:
        """The runner starts with its filter."""
        return b""


class Open:
    """No jail: the interpreter itself runs the runner."""

    version, unsafe, hint = "unsafe", True, ""

    def __init__(self) -> None:
        self.python = Interpreter(
            root=Path("/"),
            python=str(Path(getattr(sys, "_base_executable", sys.executable))),
            runner=str(runner_file("runner")),
            version=f"{sys.implementation.name}-{sys.version.split()[0]}",
        )

    def fit(self, shape: Shape, limits: Limits) -> Shape:
        """Nothing is bounded."""
        return shape

    def launch(self, slot: Slot, shape: Shape) -> Launch:
        """A plain process in a group of its own."""
        return Launch(lambda *_: [self.python.python, *FLAGS, self.python.runner], kind="open")

    def inside(self, shape: Shape) -> bytes:
        """Nothing is filtered."""
        return b""
