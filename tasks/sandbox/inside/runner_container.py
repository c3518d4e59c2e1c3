"""The part of the runner for containers, whose engines pass no descriptors and no filter of ours; see runner.py.

Results take standard output, so what programs print is caught in a file and sent as a frame.
"""

from __future__ import annotations

import ctypes
import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_caught: list[int] = []


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("program", ctypes.c_void_p))


def confine(program: bytes) -> None:
    """Puts the system call filter on this process and all that it starts. OSError when the kernel refuses."""
    held = ctypes.create_string_buffer(program, len(program))
    whole = _Filter(len(program) // 8, ctypes.cast(held, ctypes.c_void_p))
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(whole), 0, 0):
        raise OSError(ctypes.get_errno(), "the system call filter could not be set")


def catch_output() -> None:
    """Makes a file without a name the standard output."""
    caught = posix.open("/tmp", posix.O_RDWR | posix.O_TMPFILE | posix.O_APPEND, 0o600)  # noqa: S108
    posix.dup2(caught, 1)
    posix.close(caught)
    # Read through a descriptor that no program inherits.
    _caught.append(posix.dup(1))


def send_output(send: Callable[[int, bytes, bytes], None], fd: int, limit: int) -> None:
    """Sends what was printed and forgets it; a byte over the limit says that there was more."""
    for caught in _caught:
        posix.lseek(caught, 0, 0)
        send(fd, b"O", posix.read(caught, limit + 1))
        posix.ftruncate(caught, 0)
