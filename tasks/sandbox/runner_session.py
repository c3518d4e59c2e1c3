"""The part of the runner that keeps a jail for several programs: runs, snapshots, restores; see runner.py.

Between two requests everything in the jail but this process stands still (SIGSTOP cannot be caught), so nothing
grows unwatched and a snapshot sees a folder that nobody changes. Programs never share this process and never get
its descriptors.
"""

import _signal  # type: ignore[import-not-found]
import posix
from typing import Any

_FILE, _FOLDER, _LINK = 0o100000, 0o040000, 0o120000
_DEEP = 32


def serve(fd: int, source: int, base: Any) -> None:
    """Answers requests until the input ends."""
    posix.set_inheritable(source, False)
    _signal.pthread_sigmask(_signal.SIG_BLOCK, (_signal.SIGCHLD,))
    base._send(fd, b"J", b"[-6]")
    while (request := base._receive(source)) is not None:
        if request["mode"] == "run":
            _run(fd, source, request, base)
        elif request["mode"] == "snapshot":
            _Walk(fd, base, request["most"]).folder(".", 0)
        else:
            _clear(".", 0)
            _restore(request["entries"])
        base._send(fd, b"J", b"[-6]")


def _everybody(number: int) -> None:
    """A signal to all other processes. Only as PID 1 of a jail: -1 means everything the uid may signal."""
    if posix.getpid() == 1:
        try:
            posix.kill(-1, number)
        except OSError:
            return


def _group(leader: int) -> None:
    """Ends a program's own session, which is its process group."""
    try:
        posix.killpg(leader, _signal.SIGKILL)
    except OSError:
        return


def _run(fd: int, source: int, request: dict[str, Any], base: Any) -> None:
    _everybody(_signal.SIGCONT)
    base._write_files(request["files"])
    base._stdin(request["stdin"])
    before = sum(posix.times()[2:4])
    child = posix.fork()
    if child == 0:
        posix.close(source)
        posix.setsid()
        base._program(fd, request)
    status, timed_out = base._wait(child, request["wall"])
    if timed_out:
        _group(child)
    ended = base._ended(status, timed_out, before, request["cpu"])
    code = posix.WEXITSTATUS(status) if posix.WIFEXITED(status) else -posix.WTERMSIG(status)
    if request["keep"]:
        _everybody(_signal.SIGSTOP)
    else:
        base._sweep()
    null = posix.open("/dev/null", posix.O_RDWR)
    posix.dup2(null, 0)
    posix.close(null)
    base._send(fd, b"J", base._json([-2, *(ended or ("ok", "", "")), code]))


class _Walk:
    """Sends a folder's content as entries; nothing is followed, and what is no file, folder or link is left out.

    An entry is an F frame whose name starts with its kind (f, d, l) and its permissions in octal.
    """

    def __init__(self, fd: int, base: Any, most: int) -> None:
        self._fd, self._base, self._left = fd, base, most

    def folder(self, path: str, depth: int) -> None:
        """Sends what is below `path`, in order; a frame [-4] says that something had to be left out."""
        try:
            names = sorted(posix.listdir(path))
        except OSError:
            self._base._send(self._fd, b"J", b"[-4]")
            return
        for entry in names:
            name = entry if path == "." else path + "/" + entry
            found = posix.lstat(name)
            kind, mode = found.st_mode & 0o170000, found.st_mode & 0o777
            if kind == _FOLDER and depth < _DEEP:
                self._entry("d", mode, name, b"")
                self.folder(name, depth + 1)
            elif kind == _LINK:
                self._entry("l", 0o777, name, posix.readlink(name).encode("utf-8", "surrogateescape"))
            elif kind == _FILE:
                self._file(mode, name)
            else:
                self._base._send(self._fd, b"J", b"[-4]")

    def _file(self, mode: int, name: str) -> None:
        try:
            source = posix.open(name, posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK)
        except OSError:
            self._base._send(self._fd, b"J", b"[-4]")
            return
        found = posix.fstat(source)
        content = []
        left = found.st_size if found.st_mode & 0o170000 == _FILE and found.st_size <= self._left else 0
        while left and (chunk := posix.read(source, left)):
            content.append(chunk)
            left -= len(chunk)
        posix.close(source)
        self._entry("f", mode, name, b"".join(content), found.st_size)

    def _entry(self, kind: str, mode: int, name: str, content: bytes, size: int = 0) -> None:
        encoded = f"{kind}{mode:o} {name}".encode("utf-8", "surrogateescape")
        self._left -= max(size, len(content)) + len(encoded) + 256
        if self._left < 0:
            self._base._send(self._fd, b"J", b"[-7]")
            return
        self._base._send(self._fd, b"F", len(encoded).to_bytes(2, "big") + encoded + content)


def _clear(path: str, depth: int) -> None:
    """Removes what is in a folder; links are removed, never followed."""
    for entry in posix.listdir(path):
        name = path + "/" + entry
        if posix.lstat(name).st_mode & 0o170000 == _FOLDER:
            posix.chmod(name, 0o700)
            _clear(name, depth + 1)
            posix.rmdir(name)
        else:
            posix.unlink(name)


def _restore(entries: list[tuple[str, int, str, bytes]]) -> None:
    for kind, mode, name, whole in entries:
        content = whole
        if kind == "d":
            posix.mkdir(name, 0o700)
        elif kind == "l":
            posix.symlink(content, name.encode("utf-8", "surrogateescape"))
        else:
            out = posix.open(name, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_NOFOLLOW, 0o600)
            while content:
                content = content[posix.write(out, content) :]
            posix.fchmod(out, mode)
            posix.close(out)
    # Last, so that a folder without the right to write could be filled.
    for kind, mode, name, _ in reversed(entries):
        if kind == "d":
            posix.chmod(name, mode)
