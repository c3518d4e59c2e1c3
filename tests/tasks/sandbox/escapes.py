"""Escapes: what a candidate may try, and how each must end.

Each is Python that defines attack(), run by `call_functions`. It must return "refused" (or a text that starts so)
or end with one of the kinds named in `ends`. docs/security.md lists the same names.
"""

# ruff: noqa: E501

from typing import NamedTuple

PRELUDE = '''
import ctypes, errno, os, platform, socket, sys
_libc = ctypes.CDLL(None, use_errno=True)
_ARM = platform.machine() == "aarch64"
def call(x86, arm, *arguments):
    """A raw system call: "refused" when it fails for lack of permission or does not exist."""
    ctypes.set_errno(0)
    result = _libc.syscall(arm if _ARM else x86, *arguments)
    if result == -1 and ctypes.get_errno() in (errno.EPERM, errno.EACCES, errno.ENOSYS):
        return "refused"
    return f"ESCAPED: {result} errno {ctypes.get_errno()}"
def must_fail(action, *arguments, **named):
    try:
        found = action(*arguments, **named)
    except OSError as error:
        return "refused: " + str(error)
    return f"ESCAPED: {found!r}"
def every(*found):
    bad = [each for each in found if not str(each).startswith("refused")]
    return bad[0] if bad else "refused"
'''


class Escape(NamedTuple):
    """A name, the code, and the kinds (besides a returned "refused") that count as refused."""

    name: str
    code: str
    ends: tuple[str, ...] = ()

    @property
    def wall_s(self) -> float:
        """A short wait for those that only wait; long enough for the others on a busy machine."""
        return 2.0 if self.ends == ("timeout",) else 20.0


def _returns(name: str, expression: str) -> Escape:
    return Escape(name, f"{PRELUDE}\ndef attack():\n    return {expression}\n")


def _does(name: str, body: str, *ends: str) -> Escape:
    indented = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
    return Escape(name, f"{PRELUDE}\ndef attack():\n{indented}\n", ends)


ESCAPES = [
    # Files of the host.
    _returns("read_etc_passwd", 'must_fail(open, "/etc/passwd")'),
    _returns("list_home", 'every(must_fail(os.listdir, "/root"), must_fail(os.listdir, "/home"))'),
    _returns("list_usr", 'every(must_fail(os.listdir, "/usr"), must_fail(os.listdir, "/usr/local"))'),
    _returns("list_var_tmp", 'every(must_fail(os.listdir, "/var"), must_fail(os.listdir, "/run"))'),
    _returns("read_init_environ", 'must_fail(open, "/proc/1/environ", "rb")'),
    _returns("read_mounts", 'every(must_fail(open, "/proc/self/mountinfo"), must_fail(open, "/proc/mounts"))'),
    _returns("write_memory_of_runner", 'must_fail(open, "/proc/1/mem", "r+b")'),
    _returns("reopen_descriptors", 'every(must_fail(os.listdir, "/proc/self/fd"), must_fail(os.listdir, "/dev/fd"))'),
    _returns("list_sys", 'every(must_fail(os.listdir, "/sys"), must_fail(os.listdir, "/sys/fs/cgroup"))'),
    _returns("walk_up", 'every(must_fail(open, "/../../../../etc/passwd"), must_fail(open, "../../../../etc/shadow"))'),
    _does(
        "only_the_interpreter",
        """
top = {"bin", "dev", "opt", "proc", "tmp", "work", "lib", "lib64"}
extra = set(os.listdir("/")) - top
packages = [folder for folder, _, _ in os.walk("/") if folder.endswith(("site-packages", "dist-packages"))]
programs = os.listdir("/opt/bin")
return "refused" if not extra and not packages and not programs else f"ESCAPED: {extra} {packages} {programs}"
""",
    ),
    # Writing outside the working folder.
    _returns("write_root", 'every(must_fail(os.mkdir, "/x"), must_fail(open, "/x", "w"))'),
    _returns("poison_library", 'must_fail(open, "/opt/python/lib/python3/json.py", "w")'),
    _does(
        "poison_runner",
        """
import json
return every(must_fail(open, "/opt/python/runner.pyc", "r+b"), must_fail(open, json.__file__, "a"),
             must_fail(os.unlink, "/opt/python/runner.pyc"), must_fail(os.rename, "/opt", "/tmp/opt"))
""",
    ),
    _returns("write_dev", 'every(must_fail(open, "/dev/x", "w"), must_fail(os.mkdir, "/dev/shm"))'),
    _returns("fill_dev_shm", 'must_fail(open, "/dev/shm/x", "wb")'),
    _returns("remount", 'call(165, 40, b"/", b"/", None, ctypes.c_ulong(32), None)'),
    # Devices.
    _returns("open_disk", 'every(*[must_fail(open, "/dev/" + name, "rb") for name in ("vda", "sda", "mem", "kmsg")])'),
    _returns("open_terminal", 'every(must_fail(open, "/dev/tty"), must_fail(open, "/dev/console"))'),
    _does(
        "make_device",
        """
import stat
return must_fail(os.mknod, "/tmp/disk", stat.S_IFBLK | 0o600, os.makedev(8, 0))
""",
    ),
    _does(
        "push_into_terminal",
        """
import fcntl
return every(*[must_fail(fcntl.ioctl, fd, 0x5412, b"x") for fd in (0, 1, 2)])
""",
    ),
    # System calls that no namespace covers.
    _returns("keyctl", "call(250, 219, 0, -3, 0)"),
    _returns("add_key", 'call(248, 217, b"user", b"gm", b"x", 1, -4)'),
    _returns("request_key", 'call(249, 218, b"user", b"gm", None, -4)'),
    _returns("ptrace_parent", "every(call(101, 117, 16, 1, 0, 0), call(101, 117, 0, 0, 0, 0))"),
    _returns("read_memory_of_parent", "every(call(310, 270, 1, 0, 0, 0, 0, 0), call(311, 271, 1, 0, 0, 0, 0, 0))"),
    _returns(
        "io_uring", "every(call(425, 425, 8, ctypes.create_string_buffer(256)), call(426, 426, 0), call(427, 427, 0))"
    ),
    _returns("userfaultfd", "call(323, 282, 0)"),
    _returns("bpf", "call(321, 280, 0, ctypes.create_string_buffer(128), 128)"),
    _returns("perf_event_open", "call(298, 241, ctypes.create_string_buffer(128), 0, -1, -1, 0)"),
    _returns("memfd", "every(call(319, 279, b'x', 0), call(447, 447, 0))"),
    _returns("system_v_memory", "call(29, 194, 0, 1 << 20, 0o1600)"),
    _returns("message_queues", "every(call(68, 186, 0, 0o1600), call(240, 180, b'/x', 0o102, 0o600, None))"),
    _returns("vmsplice", "call(278, 75, 1, 0, 0, 0)"),
    _returns("kernel_modules", "every(call(175, 105, 0, 0, b''), call(313, 273, 0, b'', 0))"),
    _returns("kexec_and_reboot", "every(call(246, 104, 0, 0, 0, 0), call(169, 142, 0xfee1dead, 672274793, 0, 0))"),
    _returns("kernel_log", "call(103, 116, 3, ctypes.create_string_buffer(4096), 4096)"),
    _returns("clock", "every(call(227, 112, 0, ctypes.create_string_buffer(16)), call(164, 170, 0, 0))"),
    _returns("host_name", 'every(call(170, 161, b"x", 1), call(171, 162, b"x", 1))'),
    _returns("personality", "call(135, 92, 0x0040000)"),
    _returns("open_by_handle", "every(call(304, 265, -100, 0, 0), call(303, 264, -100, b'/', 0, 0, 0))"),
    _returns("unknown_new_call", "call(463, 463, 0, 0, 0)"),
    # Namespaces.
    _returns("unshare_user", "call(272, 97, 0x10000000)"),
    _returns("unshare_mount", "call(272, 97, 0x00020000)"),
    _returns("clone_user", "call(56, 220, 0x10000000 | 17, 0, 0, 0, 0)"),
    _returns("clone3", "call(435, 435, ctypes.create_string_buffer(88), 88)"),
    _returns("setns", "call(308, 268, 0, 0)"),
    _returns("chroot_out", 'every(call(161, 51, b"/tmp"), call(155, 41, b"/tmp", b"/tmp"))'),
    _returns(
        "new_mount_calls",
        "every(*[call(number, number, 0, 0, 0, 0, 0) for number in (428, 429, 430, 431, 432, 433, 442)])",
    ),
    _returns("unmount", 'call(166, 39, b"/tmp", 2)'),
    # Rights.
    _returns("become_root", "every(must_fail(os.setuid, 0), must_fail(os.setgid, 0), must_fail(os.setgroups, [0]))"),
    _does(
        "regain_capabilities",
        """
header = (ctypes.c_uint32 * 2)(0x20080522, 0)
data = (ctypes.c_uint32 * 6)(*[0xFFFFFFFF] * 6)
return call(126, 91, header, data)
""",
    ),
    _does(
        "raise_limits",
        """
import resource
found = []
for kind in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE):
    try:
        resource.setrlimit(kind, (1 << 40, 1 << 40))
        found.append(f"ESCAPED: {kind}")
    except (ValueError, OSError):
        found.append("refused")
return every(*found)
""",
    ),
    _returns("real_time_priority", "must_fail(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1))"),
    _does(
        "lock_memory",
        """
result = _libc.mlock(ctypes.create_string_buffer(1 << 20), 1 << 20)
return "refused" if result == -1 else "ESCAPED"
""",
    ),
    _returns("outlive_the_worker", "call(157, 167, 1, 0, 0, 0, 0)"),
    # Network.
    _returns("tcp", "must_fail(socket.socket, socket.AF_INET, socket.SOCK_STREAM)"),
    _returns(
        "udp",
        "every(must_fail(socket.socket, socket.AF_INET, socket.SOCK_DGRAM),"
        " must_fail(socket.socket, socket.AF_INET6, socket.SOCK_DGRAM))",
    ),
    _returns("netlink", "must_fail(socket.socket, socket.AF_NETLINK, socket.SOCK_RAW)"),
    _returns("raw_packets", "must_fail(socket.socket, socket.AF_PACKET, socket.SOCK_RAW)"),
    _returns("vsock", "must_fail(socket.socket, 40, socket.SOCK_STREAM)"),
    _returns("crypto_sockets", "must_fail(socket.socket, 38, socket.SOCK_SEQPACKET)"),
    _does(
        "abstract_socket_of_host",
        """
found = []
with socket.socket(socket.AF_UNIX) as plug:
    return must_fail(plug.connect, b"\\0gristmill-test-socket")
""",
    ),
    # Other processes.
    _returns("see_other_processes", "'refused' if os.getppid() == 1 and os.getpid() < 50 else 'ESCAPED'"),
    _does(
        "kill_everybody",
        """
try:
    os.kill(-1, 9)
except ProcessLookupError:
    return "refused"
return "refused: only what is inside"
""",
    ),
    _does(
        "kill_the_runner", "os.kill(1, 9)\nos.kill(1, 15)\nos.kill(1, 19)\nreturn 'refused: the first process stays'"
    ),
    _does(
        "inherited_descriptors",
        """
import stat
found = []
for fd in range(4, 4096):
    try:
        found.append((fd, os.fstat(fd).st_mode))
    except OSError:
        continue
return "refused" if not found else f"ESCAPED: {found}"
""",
    ),
    # Resources.
    _does("burn_cpu", "while True:\n    pass", "cpu"),
    _does("sleep_forever", "import time\ntime.sleep(3600)", "timeout"),
    _does(
        "ignore_signals",
        """
import signal, time
for number in range(1, 32):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        continue
time.sleep(3600)
""",
        "timeout",
    ),
    _does("eat_memory", "data = []\nwhile True:\n    data.append(bytearray(1 << 24))", "memory"),
    _does(
        "eat_memory_together",
        """
import time
children = []
for _ in range(12):
    child = os.fork()
    if child == 0:
        data = os.urandom(1 << 20) * 60
        time.sleep(1)
        os._exit(0)
    children.append(child)
killed = [os.waitpid(child, 0)[1] for child in children]
return "refused" if any(killed) else "ESCAPED: 720 MB held at once"
""",
        "memory",
    ),
    _does(
        "fork_bomb",
        """
import time
made = 0
try:
    for _ in range(10_000):
        if os.fork() == 0:
            while True:
                os.fork()
        made += 1
except OSError as error:
    return f"refused: {error}"
return f"ESCAPED: {made}"
""",
        "error",
        "cpu",
        "timeout",
        "memory",
        "refused",
    ),
    _does(
        "threads",
        """
import threading, time
made = 0
try:
    for _ in range(5000):
        threading.Thread(target=time.sleep, args=(20,), daemon=True).start()
        made += 1
except RuntimeError as error:
    return "refused" if made < 64 else f"ESCAPED: {made}"
return f"ESCAPED: {made}"
""",
        "error",
        "memory",
    ),
    _does(
        "fill_the_disk",
        """
written = 0
try:
    for number in range(1000):
        with open(f"/tmp/fill{number}", "wb") as out:
            for _ in range(16):
                written += out.write(bytes(1 << 20))
except OSError as error:
    return "refused" if written <= 64 << 20 else f"ESCAPED: {written}"
return f"ESCAPED: {written}"
""",
        "memory",
    ),
    _does(
        "one_huge_file",
        """
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with open("/tmp/huge", "wb") as out:
    return must_fail(os.pwrite, out.fileno(), b"x" * 4096, 1 << 31)
""",
    ),
    _does(
        "too_many_files_open",
        """
held = []
try:
    for _ in range(100_000):
        held.append(open("/dev/null"))
except OSError:
    return "refused" if len(held) < 70 else f"ESCAPED: {len(held)}"
return "ESCAPED"
""",
    ),
    _does("flood_output", 'while True:\n    sys.stdout.write("x" * 65536)', "error"),
    _does("flood_errors", 'while True:\n    os.write(2, b"x" * 65536)', "error"),
    _does(
        "crash",
        "ctypes.string_at(0)",
        "error",
    ),
]
if __import__("platform").machine() == "x86_64":
    ESCAPES += [
        _does("x32_calls", "return str(_libc.syscall(0x40000000 | 39))", "error"),
        _does(
            "thirty_two_bit_calls",
            """
import mmap
code = bytes.fromhex("b814000000cd80c3")
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(code)
run = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
return f"ESCAPED: {run()}"
""",
            "error",
        ),
    ]
