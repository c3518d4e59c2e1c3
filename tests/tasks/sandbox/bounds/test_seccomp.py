"""The filter, run instruction by instruction as the kernel would, for both processors."""

import errno
import struct

import pytest

from schemas.errors import Unavailable
from tasks.sandbox.bounds.seccomp import program

ALLOW, KILL = "allow", "kill"
ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def decide(code: bytes, number: int, arch: int, *arguments: int) -> str | int:
    """allow, kill, or the errno."""
    data = struct.pack("<IIQ6Q", number, arch, 0, *(arguments + (0,) * 6)[:6])
    instructions = list(struct.iter_unpack("<HBBI", code))
    at, accumulator = 0, 0
    while True:
        operation, yes, no, k = instructions[at]
        at += 1
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, k)
        elif operation == 0x54:
            accumulator &= k
        elif operation == 0x06:
            action = k & 0xFFFF0000
            return {0x7FFF0000: ALLOW, 0x80000000: KILL}.get(action, k & 0xFFFF)
        else:
            test = {0x15: accumulator == k, 0x35: accumulator >= k, 0x25: accumulator > k, 0x45: bool(accumulator & k)}
            at += yes if test[operation] else no


CASES = [
    # name, x86-64, aarch64, arguments, decision
    ("read", 0, 63, (), ALLOW),
    ("write", 1, 64, (), ALLOW),
    ("execve", 59, 221, (), ALLOW),
    ("exit_group", 231, 94, (), ALLOW),
    ("futex", 202, 98, (), ALLOW),
    ("keyctl", 250, 219, (), errno.EPERM),
    ("add_key", 248, 217, (), errno.EPERM),
    ("request_key", 249, 218, (), errno.EPERM),
    ("ptrace", 101, 117, (), errno.EPERM),
    ("io_uring_setup", 425, 425, (), errno.EPERM),
    ("userfaultfd", 323, 282, (), errno.EPERM),
    ("bpf", 321, 280, (), errno.EPERM),
    ("perf_event_open", 298, 241, (), errno.EPERM),
    ("mount", 165, 40, (), errno.EPERM),
    ("unshare", 272, 97, (), errno.EPERM),
    ("setns", 308, 268, (), errno.EPERM),
    ("memfd_create", 319, 279, (), errno.EPERM),
    ("clone3", 435, 435, (), errno.ENOSYS),
    ("unknown", 451, 451, (), errno.ENOSYS),
    ("far", 9999, 9999, (), errno.ENOSYS),
    ("fork", 56, 220, (17,), ALLOW),
    ("thread", 56, 220, (0x3D0F00,), ALLOW),
    ("clone_user", 56, 220, (0x10000011,), errno.EPERM),
    ("clone_net", 56, 220, (0x40000011,), errno.EPERM),
    ("unix_socket", 41, 198, (1,), ALLOW),
    ("tcp", 41, 198, (2,), errno.EACCES),
    ("udp6", 41, 198, (10,), errno.EACCES),
    ("vsock", 41, 198, (40,), errno.EACCES),
    ("high_bits_family", 41, 198, ((1 << 32) | 2,), errno.EACCES),
    ("unix_pair", 53, 199, (1,), ALLOW),
    ("tipc_pair", 53, 199, (30,), errno.EACCES),
    ("isatty", 16, 29, (0, 0x5401), ALLOW),
    ("push_into_terminal", 16, 29, (0, 0x5412), errno.EPERM),
    ("push_into_terminal_high", 16, 29, (0, (1 << 32) | 0x5412), errno.EPERM),
    ("clear_death_signal", 157, 167, (1,), errno.EPERM),
    ("set_name", 157, 167, (15,), ALLOW),
]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_decision(case: tuple[str, int, int, tuple[int, ...], str | int], machine: str) -> None:
    _, x86, arm, arguments, decision = case
    assert decide(program(machine), x86 if machine == "x86_64" else arm, ARCH[machine], *arguments) == decision


def test_another_processor_is_killed() -> None:
    assert decide(program("x86_64"), 0, 0x40000003) == KILL
    assert decide(program("aarch64"), 63, ARCH["x86_64"]) == KILL


def test_x32_is_killed() -> None:
    assert decide(program("x86_64"), 0x40000000, ARCH["x86_64"]) == KILL


STREAM, DATAGRAM, RAW, SEQUENCE, FLAGS = 1, 2, 3, 5, 0o2004000


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_a_jail_with_loopback_may_open_tcp_and_udp_sockets_and_no_others(machine: str) -> None:
    code, number = program(machine, network=True), {"x86_64": 41, "aarch64": 198}[machine]

    def socket(*arguments: int) -> str | int:
        return decide(code, number, ARCH[machine], *arguments)

    assert socket(1, RAW, 77) == ALLOW
    for family in (2, 10):
        for protocol in (0, 6, 17):
            assert socket(family, STREAM, protocol) == ALLOW
            assert socket(family, DATAGRAM | FLAGS, protocol) == ALLOW
            assert socket(family, RAW, protocol) == errno.EACCES
            assert socket(family, SEQUENCE, protocol) == errno.EACCES
        # SCTP, DCCP, MPTCP, ICMP.
        for protocol in (1, 33, 132, 262, 255):
            assert socket(family, STREAM, protocol) == errno.EACCES
    for family in (0, 3, 16, 17, 38, 40):
        assert socket(family, STREAM, 0) == errno.EACCES
    pair = {"x86_64": 53, "aarch64": 199}[machine]
    assert decide(code, pair, ARCH[machine], 1, STREAM) == ALLOW
    assert decide(code, pair, ARCH[machine], 2, STREAM) == errno.EACCES


def test_every_jump_stays_inside_and_ends() -> None:
    for machine, arch in ARCH.items():
        for network in (False, True):
            code = program(machine, network=network)
            for number in range(600):
                decide(code, number, arch)


def test_no_filter_for_other_processors() -> None:
    with pytest.raises(Unavailable, match="riscv64"):
        program("riscv64")
