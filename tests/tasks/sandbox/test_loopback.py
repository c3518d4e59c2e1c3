"""A jail's own loopback: reachable from inside where a task asks for it; the host's and everything else is not."""

import os
import socket
import threading
from collections.abc import Iterator

import pytest

from tasks.sandbox.programs.languages import language
from tasks.sandbox.results import Call, Limits, RunKind
from tasks.sandbox.sandbox import Sandbox

SERVER = """
import http.server, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"inside " + self.path.encode())
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Answer)
"""
ASK = "import urllib.request\nprint(urllib.request.urlopen('http://127.0.0.1:8080/x', timeout=5).read().decode())"
# Everything that a jail could reach if its network were not its own; prints what it reached.
REACH = """
import socket, sys
def tried(what, action):
    try:
        got = action()
    except OSError as error:
        print(what, "refused", error.errno)
    else:
        print(what, "ESCAPED", got)
def tcp(address, family=socket.AF_INET):
    with socket.socket(family) as plug:
        plug.settimeout(3)
        plug.connect(address)
        return plug.recv(10)
def udp(address, family=socket.AF_INET):
    with socket.socket(family, socket.SOCK_DGRAM) as plug:
        plug.settimeout(1)
        plug.sendto(b"ping", address)
        return plug.recv(10)
port, udp_port = int(sys.stdin.readline()), int(sys.stdin.readline())
abstract, hosts = sys.stdin.readline().strip(), sys.stdin.readline().split()
for host in ["127.0.0.1", *hosts]:
    tried("tcp " + host, lambda: tcp((host, port)))
    tried("udp " + host, lambda: udp((host, udp_port)))
tried("tcp6", lambda: tcp(("::1", port), socket.AF_INET6))
tried("outside", lambda: tcp(("1.1.1.1", 53)))
tried("metadata", lambda: tcp(("169.254.169.254", 80)))
tried("outside udp", lambda: udp(("8.8.8.8", 53)))
tried("broadcast", lambda: udp(("255.255.255.255", 9)))
tried("multicast", lambda: udp(("224.0.0.1", 9)))
tried("name", lambda: socket.create_connection(("example.com", 80), 3))
tried("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
tried("icmp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1))
tried("sctp", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132))
tried("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
tried("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
tried("vsock", lambda: socket.socket(40, socket.SOCK_STREAM))
tried("abstract", lambda: tcp("\\0" + abstract, socket.AF_UNIX))
"""


@pytest.fixture
def host() -> Iterator[str]:
    """Servers of the host on its loopback, on all its addresses, and on an abstract socket."""
    tcp, udp, plug = socket.create_server(("", 0)), socket.socket(type=socket.SOCK_DGRAM), socket.socket(socket.AF_UNIX)
    udp.bind(("", 0))
    # Other test workers may run the same test.
    name = f"gristmill-test-loopback-{os.getpid()}"
    plug.bind(f"\0{name}")
    plug.listen()

    def answer() -> None:
        while True:
            try:
                one, _ = tcp.accept()
            except OSError:
                return
            one.sendall(b"host")
            one.close()

    threading.Thread(target=answer, daemon=True).start()
    own = socket.gethostbyname_ex(socket.gethostname())[2]
    yield f"{tcp.getsockname()[1]}\n{udp.getsockname()[1]}\n{name}\n{' '.join(own)}\n"
    tcp.shutdown(socket.SHUT_RDWR)
    for each in (tcp, udp, plug):
        each.close()


def test_a_server_in_the_same_jail_is_reachable(box: Sandbox) -> None:
    code = f"{SERVER}import threading\nthreading.Thread(target=server.serve_forever, daemon=True).start()\n{ASK}"
    ran = box.run_python(code, loopback=True)
    assert (ran.kind, ran.stdout) == (RunKind.OK, "inside /x\n"), ran
    both = "import socket\na = socket.create_server(('::1', 0), family=socket.AF_INET6)\n" + (
        "b = socket.create_connection(a.getsockname()[:2])\nprint(b.getpeername()[0])"
    )
    assert box.run_python(both, loopback=True).stdout == "::1\n"
    called = box.call_functions(
        "import socket\ndef f():\n    with socket.create_server(('127.0.0.1', 0)) as s: return s.getsockname()[0]",
        [Call(entry="f")],
        loopback=True,
    )
    assert called.results[0].value == "127.0.0.1"


def test_without_it_there_is_no_socket(box: Sandbox) -> None:
    code = f"{SERVER}print('ESCAPED')"
    assert "PermissionError" in box.run_python(code).stderr


@pytest.mark.parametrize("mode", ["box", "watched"])
def test_the_host_and_the_world_stay_out_of_reach(mode: str, host: str, request: pytest.FixtureRequest) -> None:
    box: Sandbox = request.getfixturevalue(mode)
    ran = box.run_python(REACH, stdin=host, loopback=True, limits=Limits(wall_s=60))
    assert ran.kind is RunKind.OK, ran
    assert "ESCAPED" not in ran.stdout, ran.stdout
    assert ran.stdout.count("refused") >= 16


def test_two_jails_do_not_see_each_others_servers(box: Sandbox) -> None:
    with box.session(loopback=True) as jail:
        serve = f"{SERVER}import os\nif os.fork() == 0:\n    server.serve_forever()"
        assert jail.run_python(serve, keep=True).kind is RunKind.OK
        assert "refused" in box.run_python(ASK, loopback=True).stderr
        # A server that is kept answers the next program of its own jail.
        again = jail.run_python(ASK, keep=True)
        assert again.stdout == "inside /x\n", again
        assert "refused" in box.run_python(ASK, loopback=True).stderr


def test_a_javascript_server_and_client(box: Sandbox) -> None:
    from tasks.sandbox.programs import tools

    if tools.find("node") is None:
        pytest.skip("no node on this machine")
    code = (
        "const http = require('http');\nconst server = http.createServer((q, r) => r.end('inside ' + q.url));\n"
        "server.listen(8080, '127.0.0.1', () => http.get('http://127.0.0.1:8080/y', r => r.on('data', d => "
        "{ console.log(String(d)); server.close(); })));"
    )
    ran = box.run_program(code, language("javascript"), loopback=True)
    assert (ran.kind, ran.stdout) == (RunKind.OK, "inside /y\n"), ran
