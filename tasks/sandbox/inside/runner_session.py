"""The part of the runner that keeps a jail for several programs: runs, snapshots, restores; see runner.py.

Between two requests everything in the jail but this process stands still (SIGSTOP cannot be caught), so nothing
grows unwatched and a snapshot sees a folder that nobody changes. Programs never share this process and never get
its descriptors. Each request is answered by frames and then by [-6].
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import posix

# As typing has it, without the time that importing it takes.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FILE, _FOLDER, _LINK = 0o100000, 0o040000, 0o120000
_DEEP = 64


def serve(fd: int, source: int, base: Any) -> None:
    """Answers requests until the input ends."""
    posix.set_inheritable(source, False)
    _signal.pthread_sigmask(_signal.SIG_BLOCK, (_signal.SIGCHLD,))
    base._send(fd, b"J", b"[-6]")
    while (request := base._receive(source)) is not None:
        try:
            if request["mode"] == "run":
                _run(fd, source, request, base)
            elif request["mode"] == "snapshot":
                _Walk(fd, base, request["most"]).folder(".", 0)
            else:
                _clear(".")
                _restore(request["entries"])
        except OSError as error:
            base._send(fd, b"J", base._json([-8, base._describe(error)]))
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
    for name, _ in request["files"]:
        # What an earlier program put there (a link, a FIFO) is not written through.
        try:
            posix.unlink(name)
        except FileNotFoundError:
            continue
    base._write_files(request["files"])
    base._stdin(request["stdin"])
    before = sum(posix.times()[2:4])
    _everybody(_signal.SIGCONT)
    child = posix.fork()
    if child == 0:
        posix.close(source)
        posix.setsid()
        base._program(fd, request)
        # The script's own end: exit handlers, threads, flush. The loop of this process is not the child's.
        raise SystemExit(0)
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
    base._send_output(fd, request["output"])
    base._send(fd, b"J", base._json([-2, *(ended or ("ok", "", "")), code]))


class _Walk:
    """Sends a folder's content as entries; nothing is followed, and what is no file, folder or link is left out.

    An entry is an F frame whose name starts with its kind (f, d, l) and its permissions in octal. [-4] says that
    something was left out, [-7] that the whole is larger than allowed.
    """

    def __init__(self, fd: int, base: Any, most: int) -> None:
        self._fd, self._base, self._left = fd, base, most

    def folder(self, path: str, depth: int) -> None:
        """Sends what is below `path`, in order."""
        for entry in sorted(posix.listdir(path)):
            name = entry if path == "." else path + "/" + entry
            found = posix.lstat(name)
            kind, mode = found.st_mode & 0o170000, found.st_mode & 0o777
            if kind == _FOLDER and depth < _DEEP:
                self._entry("d", mode, name, b"")
                # Everything stands still, so what was a folder a moment ago is one.
                if mode & 0o700 != 0o700:
                    posix.chmod(name, 0o700)
                self.folder(name, depth + 1)
                if mode & 0o700 != 0o700:
                    posix.chmod(name, mode)
            elif kind == _LINK:
                self._entry("l", 0o777, name, posix.readlink(name).encode("utf-8", "surrogateescape"))
            elif kind == _FILE:
                self._file(mode, name)
            else:
                self._base._send(self._fd, b"J", b"[-4]")

    def _file(self, mode: int, name: str) -> None:
        if not mode & 0o400:
            posix.chmod(name, 0o600)
        source = posix.open(name, posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK)
        if not mode & 0o400:
            posix.fchmod(source, mode)
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
            raise OSError("larger than allowed")
        self._base._send(self._fd, b"F", len(encoded).to_bytes(2, "big") + encoded + content)


def _clear(path: str) -> None:
    """Removes what is in a folder; links are removed, never followed."""
    for entry in posix.listdir(path):
        name = path + "/" + entry
        if posix.lstat(name).st_mode & 0o170000 == _FOLDER:
            posix.chmod(name, 0o700)
            _clear(name)
            posix.rmdir(name)
        else:
            posix.unlink(name)


def _restore(entries: list[tuple[str, int, bytes, bytes]]) -> None:
    for kind, mode, name, whole in entries:
        content = whole
        if kind == "d":
            posix.mkdir(name, 0o700)
        elif kind == "l":
            posix.symlink(content, name)
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
