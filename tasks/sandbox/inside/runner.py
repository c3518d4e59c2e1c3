"""The program inside the jail: loads the candidate's code once, then forks per call.

It is copied into the jail's file system, byte-compiled, and never imported by Gristmill itself (importing it
does nothing). It uses only
modules that are compiled into the interpreter: every import here is paid by every candidate (`json` alone
would cost more than the rest).

Nothing here is trusted from outside. The candidate shares this process and may write any frame it likes; it
can only say "call k gave value v", which is what its own function may say anyway. Expected values never
come in here.

Input (standard input): 8 bytes length, then a marshalled dict, see tasks/sandbox/wire/protocol.py. Output (the
descriptor given as first argument): one byte b"R" when ready for the request, then frames: 4 bytes length, 1
byte type (J: JSON text, F: 2 bytes length of name + name + content, O: standard output), body. Where the
descriptor is 1 (containers pass no others), standard output is caught in a file and comes as a frame.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import marshal
import posix
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DEPTH = 100


def _send(fd: int, kind: bytes, body: bytes) -> None:
    data = len(body).to_bytes(4, "big") + kind + body
    while data:
        data = data[posix.write(fd, data) :]


def _quoted(text: str) -> str:
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return '"' + text + '"'
    out = ['"']
    for char in text:
        code = ord(char)
        if char in '"\\':
            out.append("\\" + char)
        elif 32 <= code < 127:
            out.append(char)
        elif 0xD800 <= code < 0xE000:
            raise ValueError("a lone surrogate in a text")
        elif code < 0x10000:
            out.append(f"\\u{code:04x}")
        else:
            code -= 0x10000
            out.append(f"\\u{0xD800 | code >> 10:04x}\\u{0xDC00 | code & 0x3FF:04x}")
    out.append('"')
    return "".join(out)


def _encode(value: object, out: list[str], depth: int) -> None:
    """Appends strict JSON; raises ValueError for what JSON cannot hold. Tuples become arrays."""
    if value is None:
        out.append("null")
    elif value is True:
        out.append("true")
    elif value is False:
        out.append("false")
    elif isinstance(value, str):
        out.append(_quoted(str.__str__(value)))
    elif isinstance(value, int):
        out.append(int.__repr__(value))
    elif isinstance(value, float):
        text = float.__repr__(value)
        if text in ("nan", "inf", "-inf"):
            raise ValueError("not a JSON number: " + text)
        out.append(text)
    elif depth >= _DEPTH:
        raise ValueError(f"nested deeper than {_DEPTH}")
    elif isinstance(value, (list, tuple)):
        out.append("[")
        items = list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value)
        for index, item in enumerate(items):
            if index:
                out.append(",")
            _encode(item, out, depth + 1)
        out.append("]")
    elif isinstance(value, dict):
        out.append("{")
        for index, (key, item) in enumerate(dict.items(value)):
            if not isinstance(key, str):
                raise ValueError("a key is not text: " + type(key).__name__)
            if index:
                out.append(",")
            out.append(_quoted(str.__str__(key)))
            out.append(":")
            _encode(item, out, depth + 1)
        out.append("}")
    else:
        raise ValueError("not JSON data: " + type(value).__name__)


def _json(value: object) -> bytes:
    out: list[str] = []
    _encode(value, out, 0)
    return "".join(out).encode("ascii")


def _describe(error: BaseException) -> str:
    try:
        text = f"{type(error).__name__}: {error}"
    except BaseException:
        text = type(error).__name__
    return text[:500]


def _sweep() -> None:
    """Kills whatever a call left running. Only as PID 1 of a jail: -1 means everything the uid may kill."""
    if posix.getpid() == 1:
        try:
            posix.kill(-1, _signal.SIGKILL)
        except OSError:
            return


def _wait(child: int, wall: float) -> tuple[int, bool]:
    """(status, timed out) of the child, which is killed after `wall` seconds; orphans are reaped on the way."""
    end = time.monotonic() + wall
    timed_out = False
    while True:
        try:
            pid, status = posix.waitpid(-1, posix.WNOHANG)
        except ChildProcessError:
            return 0, timed_out
        if pid == child:
            return status, timed_out
        if pid == 0:
            left = end - time.monotonic()
            if left <= 0 and not timed_out:
                timed_out = True
                posix.kill(child, _signal.SIGKILL)
            _signal.sigtimedwait((_signal.SIGCHLD,), max(left, 0.01) if not timed_out else 1.0)


def _ended(status: int, timed_out: bool, cpu_before: float, cpu_limit: int) -> tuple[str, str, str] | None:
    """(kind, reason, detail) of a child that ended without a clean exit; None for exit status 0."""
    if timed_out:
        return "timeout", "wall", "killed at the wall-clock limit"
    if posix.WIFSIGNALED(status):
        number = posix.WTERMSIG(status)
        used = sum(posix.times()[2:4]) - cpu_before
        if number == _signal.SIGXCPU or (number == _signal.SIGKILL and used >= cpu_limit / 2):
            return "cpu", "cpu", f"killed at the CPU limit of {cpu_limit} s"
        if number == _signal.SIGKILL:
            return "error", "killed", "killed by signal 9"
        return "error", "signal", f"ended by signal {number}"
    if status:
        return "error", "exited", f"exit status {posix.WEXITSTATUS(status)} instead of a result"
    return None


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:  # noqa: S112
            continue


def _invoke(
    fd: int, index: int, call: tuple[str, list[object], dict[str, object]], module: object, limit: int
) -> object:
    entry, args, kwargs = call
    target: object = module
    try:
        for name in entry.split("."):
            target = getattr(target, name)
    except BaseException as error:
        return [index, "error", "missing", _describe(error)]
    try:
        value = target(*args, **kwargs)  # type: ignore[operator]
    except MemoryError:
        return [index, "memory", "memory", "MemoryError"]
    except BaseException as error:
        return [index, "error", "exception", _describe(error)]
    try:
        text = _json(value)
    except MemoryError:
        return [index, "memory", "memory", "MemoryError while writing the result"]
    except BaseException as error:
        return [index, "error", "not_json", _describe(error)]
    if len(text) > limit:
        return [index, "error", "too_large", f"the result has {len(text)} bytes, over {limit}"]
    _flush()
    _send(fd, b"J", b'[%d,"ok",' % index + text + b"]")
    return None


def _calls(fd: int, request: dict) -> None:  # type: ignore[type-arg]
    module = type(sys)("candidate")
    sys.modules["candidate"] = module
    try:
        _fix_chance(request["code"], -1)
        code = compile(request["code"], "candidate.py", "exec", dont_inherit=True)
        exec(code, module.__dict__)  # noqa: S102
    except MemoryError:
        _send(fd, b"J", _json([-1, "memory", "load", "MemoryError while loading"]))
        return
    except BaseException as error:
        reason = "syntax" if isinstance(error, SyntaxError) else "load"
        _send(fd, b"J", _json([-1, "error", reason, _describe(error)]))
        return
    _flush()
    _send(fd, b"J", b"[-3]")
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_BLOCK, (_signal.SIGCHLD,))
    for index, call in enumerate(request["calls"]):
        cpu = sum(posix.times()[2:4])
        child = posix.fork()
        if child == 0:
            _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (_signal.SIGCHLD,))
            # Here, not before: the module seeds itself anew in every fork.
            _fix_chance(request["code"], index)
            failure = _invoke(fd, index, call, module, request["value_limit"])
            if failure is not None:
                _flush()
                _send(fd, b"J", _json(failure))
            posix._exit(0)
        ended = _ended(*_wait(child, request["wall"]), cpu, request["cpu"])
        _sweep()
        if ended is not None:
            _send(fd, b"J", _json([index, *ended]))
            if ended[0] in ("timeout", "cpu") and request["stop_on_timeout"]:
                break


def _write_files(files: list[tuple[str, bytes]]) -> None:
    for name, whole in files:
        content = whole
        parts = name.split("/")
        for depth in range(1, len(parts)):
            try:
                posix.mkdir("/".join(parts[:depth]) or "/")
            except FileExistsError:
                continue
        out = posix.open(name, posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_NOFOLLOW)
        while content:
            content = content[posix.write(out, content) :]
        posix.close(out)


def _collect(fd: int, folder: str, left: int) -> int:
    """Sends regular files below the working folder; nothing is followed, nothing blocks, the unreadable is left."""
    try:
        names = sorted(posix.listdir(folder))
    except OSError:
        return left
    for entry in names:
        path = entry if folder == "." else folder + "/" + entry
        mode = posix.lstat(path).st_mode & 0o170000
        if mode == 0o040000 and path.count("/") < 32:
            left = _collect(fd, path, left)
        if mode != 0o100000:
            continue
        try:
            source = posix.open(path, posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK)
        except OSError:
            continue
        size = posix.fstat(source).st_size
        name = path.encode("utf-8", "surrogateescape")
        # An empty file costs something too, so that a million of them is cut as well.
        left -= size + 256
        if left < 0:
            _send(fd, b"J", b"[-4]")
            posix.close(source)
            return left
        content = b""
        while len(content) < size:
            chunk = posix.read(source, size - len(content))
            if not chunk:
                break
            content += chunk
        _send(fd, b"F", len(name).to_bytes(2, "big") + name + content)
        posix.close(source)
    return left


def _fix_chance(code: str, seed: int) -> None:
    """The same random numbers in every run, as far as the code does not take them from the kernel."""
    if "random" in code:
        try:
            import random

            random.seed(seed)
        except BaseException:
            # A file of the candidate's may bear that name.
            return


def _stdin(data: bytes) -> None:
    """Makes `data` the standard input, as a file that nobody else can reach."""
    stdin = posix.open("/tmp", posix.O_RDWR | posix.O_TMPFILE, 0o600)  # noqa: S108
    while data:
        data = data[posix.write(stdin, data) :]
    posix.lseek(stdin, 0, 0)
    posix.dup2(stdin, 0)
    posix.close(stdin)


def _program(fd: int, request: dict) -> None:  # type: ignore[type-arg]
    """In a fork: becomes the program that `argv` names, or runs the code as a script and comes back."""
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (_signal.SIGCHLD,))
    posix.close(fd)
    if request["argv"]:
        try:
            posix.execve(request["argv"][0], request["argv"], request["env"])
        except OSError as error:
            posix.write(2, f"cannot run {request['argv'][0]}: {error}\n".encode())
        posix._exit(127)
    module = type(sys)("__main__")
    name = request["script"]
    module.__file__ = name
    sys.modules["__main__"] = module
    sys.argv[:] = [name]
    try:
        _fix_chance(request["code"], 0)
        # Written out too, so that a traceback shows its lines.
        _write_files([(name, request["code"].encode("utf-8", "surrogatepass"))])
        exec(compile(request["code"], name, "exec", dont_inherit=True), module.__dict__)  # noqa: S102
    except SystemExit:
        raise
    except BaseException as error:
        # Without this file's own frame.
        trace = error.__traceback__
        sys.__excepthook__(type(error), error.with_traceback(trace and trace.tb_next), trace and trace.tb_next)
        raise SystemExit(1) from None


def _script(fd: int, request: dict) -> None:  # type: ignore[type-arg]
    """Runs the program in a child; a script ends as a script would (exit handlers, threads, flush)."""
    _stdin(request["stdin"])
    _signal.pthread_sigmask(_signal.SIG_BLOCK, (_signal.SIGCHLD,))
    child = posix.fork()
    if child == 0:
        _program(fd, request)
        return
    status, timed_out = _wait(child, request["wall"])
    ended = _ended(status, timed_out, 0.0, request["cpu"])
    code = posix.WEXITSTATUS(status) if posix.WIFEXITED(status) else -posix.WTERMSIG(status)
    _sweep()
    _send(fd, b"J", _json([-2, *(ended or ("ok", "", "")), code]))
    if request["collect"]:
        _collect(fd, ".", request["collect"])


def _receive(source: int) -> dict | None:  # type: ignore[type-arg]
    """The next request; None at the end of the input."""
    parts: list[bytes] = []
    left, head = 8, True
    while left:
        chunk = posix.read(source, min(left, 1 << 20))
        if not chunk:
            return None
        parts.append(chunk)
        left -= len(chunk)
        if not left and head:
            left, head = int.from_bytes(b"".join(parts), "big"), False
            parts.clear()
    found: dict = marshal.loads(b"".join(parts))  # type: ignore[type-arg]  # noqa: S302
    return found


def _part(name: str) -> Any:
    """Another file of the runner, which lies beside this one."""
    folder = sys.argv[0].rpartition("/")[0]
    sys.path.insert(0, folder)
    try:
        return __import__(name)
    finally:
        sys.path.remove(folder)


def _send_output(fd: int, limit: int) -> None:
    """Sends what was printed, where it is caught."""
    _flush()
    catcher = sys.modules.get("runner_container")
    if catcher is not None:
        catcher.send_output(_send, fd, limit)


def _main() -> None:
    fd, first = int(sys.argv[1]), posix.getpid()
    framed = fd == 1
    if fd != 3:
        posix.dup2(fd, 3)
        fd = 3
    # Whatever else was left open by accident, in this process or its parents, ends here.
    posix.closerange(4, 1 << 30)
    posix.set_inheritable(fd, False)
    posix.write(fd, b"R")
    request = _receive(0)
    if request is None:
        return
    import resource

    for kind, soft, hard in request["limits"]:
        resource.setrlimit(kind, (soft, hard))
    if framed:
        part = _part("runner_container")
        part.catch_output()
        part.confine(request["filter"])
    _send(fd, b"J", b"[-5]")
    source = posix.dup(0) if request["mode"] == "session" else -1
    null = posix.open("/dev/null", posix.O_RDWR)
    posix.dup2(null, 0)
    posix.close(null)
    posix.umask(0o077)
    if request["folder"]:
        posix.mkdir(request["folder"])
        posix.chdir(request["folder"])
        sys.path.insert(0, request["folder"])
        if request["packages"]:
            sys.path.append(request["packages"])
        _write_files(request["files"])
    if request["mode"] == "session":
        _part("runner_session").serve(fd, source, sys.modules[__name__])
    elif request["mode"] == "script":
        _script(fd, request)
    else:
        _calls(fd, request)
    if posix.getpid() == first:
        _send_output(fd, request["output"])


if __name__ == "__main__":
    _main()
