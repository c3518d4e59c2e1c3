"""The jail's system call filter, compiled to classic BPF by hand; no library, no compiler.

Namespaces do not cover everything: the kernel keyring and vsock are reachable from inside every namespace, and
io_uring, bpf, userfaultfd or perf are where kernel escapes come from. Shared memory that no process maps
(memfd, System V) would also escape the watchdog's sum. The filter lets known system calls through, denies
those named below, and answers ENOSYS to any that is newer than the table, so that a new kernel opens nothing.
"""

import errno
import platform
import struct
from typing import NamedTuple

from schemas.errors import Unavailable

_LD_ABS, _AND, _JEQ, _JGE, _JGT, _JSET, _RET = 0x20, 0x54, 0x15, 0x35, 0x25, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NR, _ARCH, _ARG0, _ARG1, _ARG2 = 0, 4, 16, 24, 32
_NEWEST = 450
_X32_BIT = 0x40000000

# CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET.
_CLONE_NAMESPACES = 0x80 | 0x20000 | 0x2000000 | 0x4000000 | 0x8000000 | 0x10000000 | 0x20000000 | 0x40000000
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_STREAM, _DATAGRAM, _TYPE_MASK = 1, 2, 0xF
_IPPROTO = (0, 6, 17)
_PR_SET_PDEATHSIG = 1
_TIOCSTI, _TIOCLINUX, _TIOCSETD = 0x5412, 0x541C, 0x5423


class _Arch(NamedTuple):
    audit: int
    clone: int
    sockets: tuple[int, int]
    ioctl: int
    prctl: int
    denied: tuple[int, ...]


_BOTH = {
    "io_uring": (425, 426, 427),
    "mounts": (428, 429, 430, 431, 432, 433, 442),
    "processes": (438, 440),
    "quota": (443,),
    "landlock": (444, 445, 446),
    "memory": (447, 450),
}
_SHARED = tuple(number for group in _BOTH.values() for number in group)

# fmt: off
_X86_64 = _Arch(0xC000003E, 56, (41, 53), 16, 157, (
    250, 248, 249,                          # keyctl, add_key, request_key
    101, 310, 311, 312,                     # ptrace, process_vm_readv, process_vm_writev, kcmp
    323, 321, 298,                          # userfaultfd, bpf, perf_event_open
    165, 166, 155, 161, 308, 272,           # mount, umount2, pivot_root, chroot, setns, unshare
    303, 304,                               # name_to_handle_at, open_by_handle_at
    175, 313, 176, 174, 177, 178,           # kernel modules
    246, 320, 169, 167, 168, 163, 179,      # kexec, reboot, swap, acct, quotactl
    103, 180, 212, 172, 173, 154, 134,      # syslog, nfsservctl, lookup_dcookie, iopl, ioperm, modify_ldt, uselib
    156, 139, 136, 153, 170, 171,           # _sysctl, sysfs, ustat, vhangup, sethostname, setdomainname
    164, 227, 305, 159, 135,                # clocks, personality
    319, 29, 30, 31, 67,                    # memfd_create, System V shared memory
    68, 69, 70, 71, 64, 65, 66, 220,        # System V messages and semaphores
    240, 241, 242, 243, 244, 245,           # POSIX message queues
    300, 301, 278, 256, 279, 237, 238, 239, # fanotify, vmsplice, NUMA
    317,                                    # seccomp
))
_AARCH64 = _Arch(0xC00000B7, 220, (198, 199), 29, 167, (
    219, 217, 218, 117, 270, 271, 272, 282, 280, 241,
    40, 39, 41, 51, 268, 97, 264, 265, 105, 273, 106,
    104, 294, 142, 224, 225, 89, 60, 116, 42, 18, 58, 161, 162,
    170, 112, 266, 171, 92, 279, 194, 196, 195, 197,
    186, 189, 188, 187, 190, 193, 191, 192, 180, 181, 182, 183, 184, 185,
    262, 263, 75, 238, 239, 235, 237, 236, 277,
))
# fmt: on
_ARCHES = {"x86_64": _X86_64, "aarch64": _AARCH64}
_CLONE3 = 435


def _op(code: int, k: int, jt: int = 0, jf: int = 0) -> bytes:
    return struct.pack("<HBBI", code, jt, jf, k)


def _refuse(number: int) -> bytes:
    return _op(_RET, _ERRNO | number)


def _internet() -> list[bytes]:
    """Allows socket(2) for TCP and UDP over IPv4 and IPv6, and refuses anything else; the family is loaded."""
    allowed = [_op(_JEQ, value, len(_IPPROTO) - index, 0) for index, value in enumerate(_IPPROTO)]
    types = [_op(_LD_ABS, _ARG1), _op(_AND, _TYPE_MASK), _op(_JEQ, _STREAM, 1, 0), _op(_JEQ, _DATAGRAM, 0, 4)]
    protocols = [_op(_LD_ABS, _ARG2), *allowed]
    tail = [_refuse(errno.EACCES), _op(_RET, _ALLOW)]
    return [_op(_JEQ, _AF_INET, 1, 0), _op(_JEQ, _AF_INET6, 0, 8), *types, *protocols, *tail]


def program(machine: str = "", *, network: bool = False) -> bytes:
    """The filter for `machine` (default: this one) as an array of struct sock_filter.

    network: also allow TCP and UDP sockets, for a jail that serves itself on its own loopback; no raw socket, and no
    protocol that the kernel would load a module for.
    """
    machine = machine or platform.machine()
    arch = _ARCHES.get(machine)
    if arch is None:
        raise Unavailable("sandbox", f"No system call filter for '{machine}'; known: {', '.join(_ARCHES)}.")
    code = [_op(_LD_ABS, _ARCH), _op(_JEQ, arch.audit, 1, 0), _op(_RET, _KILL), _op(_LD_ABS, _NR)]
    if machine == "x86_64":
        code += [_op(_JGE, _X32_BIT, 0, 1), _op(_RET, _KILL)]
    code += [_op(_JGT, _NEWEST, 0, 1), _refuse(errno.ENOSYS)]
    # ENOSYS, not EPERM: the C library then falls back to clone, whose flags can be examined.
    code += [_op(_JEQ, _CLONE3, 0, 1), _refuse(errno.ENOSYS)]
    for number in sorted((*arch.denied, *_SHARED)):
        code += [_op(_JEQ, number, 0, 1), _refuse(errno.EPERM)]
    code += [
        _op(_JEQ, arch.clone, 0, 4),
        _op(_LD_ABS, _ARG0),
        _op(_JSET, _CLONE_NAMESPACES, 0, 1),
        _refuse(errno.EPERM),
        _op(_RET, _ALLOW),
    ]
    for number in arch.sockets:
        inside = _internet() if network and number == arch.sockets[0] else [_refuse(errno.EACCES)]
        code += [_op(_JEQ, number, 0, 3 + len(inside)), _op(_LD_ABS, _ARG0)]
        code += [_op(_JEQ, _AF_UNIX, 0, 1), _op(_RET, _ALLOW), *inside]
    code += [_op(_JEQ, arch.ioctl, 0, 6), _op(_LD_ABS, _ARG1)]
    code += [_op(_JEQ, _TIOCSTI, 2, 0), _op(_JEQ, _TIOCLINUX, 1, 0), _op(_JEQ, _TIOCSETD, 0, 1)]
    code += [_refuse(errno.EPERM), _op(_RET, _ALLOW)]
    # Clearing the parent-death signal would let a jail outlive a killed worker.
    code += [_op(_JEQ, arch.prctl, 0, 4), _op(_LD_ABS, _ARG0), _op(_JEQ, _PR_SET_PDEATHSIG, 0, 1)]
    code += [_refuse(errno.EPERM), _op(_RET, _ALLOW)]
    code.append(_op(_RET, _ALLOW))
    return b"".join(code)
