"""The second kind of jail: a container of docker or podman around the same runner, with the same requests and answers.

    GRISTMILL_SANDBOX_BACKEND=docker GRISTMILL_SANDBOX_IMAGE=python:3.12-slim gristmill run RECIPE

The image must be on this machine already (nothing is pulled) and have a Python of 3.11 or newer. The runner's text
travels in the command line, so a daemon on another machine works too. Programs of other languages and declared
packages need the bubblewrap backend: the image is the environment here.
"""

import contextlib
import json
import os
import platform
import shutil
import subprocess
import uuid
from pathlib import Path

from schemas.errors import Unavailable, UserError
from schemas.ids import digest
from tasks.sandbox.bounds import seccomp
from tasks.sandbox.inside import RUNNERS, runner_file
from tasks.sandbox.jail import Launch, Slot
from tasks.sandbox.programs.interpreter import Interpreter
from tasks.sandbox.results import Limits
from tasks.sandbox.shape import Shape

BACKENDS = ("docker", "podman")
_FLAGS = ("-P", "-s", "-S", "-B", "-X", "utf8")
# What the client itself needs of our environment; nothing of it reaches the container.
_CLIENT = (
    *("PATH", "HOME", "TMPDIR", "XDG_RUNTIME_DIR", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG"),
    *("DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "CONTAINER_HOST", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF"),
)
_UID = 61_000
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
_PATIENCE_S = 60.0


class Container:
    """The engine behind `tool` (docker or podman) with one image. `prefix`: how its containers' names start."""

    unsafe = False
    mode = "container"
    hint = "The image needs Python 3.11 or newer with ctypes."

    def __init__(self, tool: str, image: str, python: str = "python3") -> None:
        """Unavailable when there is no client, no daemon answers, or the image is not here."""
        if tool not in BACKENDS:
            raise UserError(f"Unknown sandbox backend '{tool}'.", f"Known: bubblewrap, {', '.join(BACKENDS)}.")
        if not image or image.startswith("-"):
            raise UserError(
                f"The sandbox backend '{tool}' needs an image, not '{image}'.",
                "",
                "Set GRISTMILL_SANDBOX_IMAGE to an image with Python 3.11 or newer.",
            )
        path = shutil.which(tool)
        if path is None:
            raise Unavailable("sandbox", f"{tool} is not installed; use the bubblewrap backend or install {tool}.")
        self.path, self._image, self.prefix = path, image, f"gristmill-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._kind, self._count = tool, 0
        server = self._ask("version", "--format", "{{.Server.Version}}" if tool == "docker" else "{{.Client.Version}}")
        if server is None or not server.strip():
            raise Unavailable(
                "sandbox",
                f"no {tool} daemon answers: {self._said}. Start it, or use the bubblewrap backend.",
            )
        found = self._ask("image", "inspect", image)
        if found is None:
            raise Unavailable(
                "sandbox", f"the image '{image}' is not on this machine (nothing is pulled): {tool} pull {image}"
            )
        self.version = f"{tool}-{server.strip()}"
        facts = json.loads(found)[0]
        machine = _MACHINES.get(str(facts.get("Architecture", "")), platform.machine())
        self._filters = {loopback: seccomp.program(machine, network=loopback) for loopback in (False, True)}
        identity = digest(str(facts["Id"]))[:16]
        self.python = Interpreter(root=Path("/"), python=python, runner="", version=f"image-{identity}-{_sources()[1]}")

    def fit(self, shape: Shape, limits: Limits) -> Shape:
        """A container's bounds are set when it starts. Unavailable for what only bubblewrap has."""
        if shape.tools is not None or shape.packages is not None:
            raise Unavailable(
                "no_interpreter",
                f"the {self._kind} backend has no programs of other languages and no declared packages; use bubblewrap",
            )
        return Shape(
            disk_mb=shape.disk_mb,
            hash_seed=shape.hash_seed,
            loopback=shape.loopback,
            memory_mb=limits.memory_mb,
            processes=limits.processes + 2,
        )

    def launch(self, slot: Slot, shape: Shape) -> Launch:
        """The client's command line, and how to end the container that it leaves when it is killed."""
        self._count += 1
        name = f"{self.prefix}-{slot.number}-{self._count}"
        command = argv(self.path, name, self._image, self.python.python, shape, _UID + slot.number)
        env = {key: os.environ[key] for key in _CLIENT if key in os.environ}
        return Launch(
            lambda *_: [*command, *_FLAGS, "-c", _sources()[0]],
            kind="container",
            kill=lambda: remove(self.path, name, env),
            env=env,
        )

    def inside(self, shape: Shape) -> bytes:
        """Our own filter, on top of the engine's, which lets vsock, keyrings and user namespaces through."""
        return self._filters[shape.loopback]

    def _ask(self, *words: str) -> str | None:
        try:
            done = subprocess.run([self.path, *words], capture_output=True, text=True, check=False, timeout=_PATIENCE_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            self._said = str(error)
            return None
        self._said = " ".join(done.stderr.split())[-300:] or f"exit status {done.returncode}"
        return done.stdout if done.returncode == 0 else None


def argv(tool: str, name: str, image: str, python: str, shape: Shape, uid: int) -> list[str]:
    """The command line up to the interpreter's own arguments."""
    memory = f"{shape.memory_mb}m"
    command = [tool, "run", "--rm", "--interactive", "--name", name, "--label", "gristmill=jail", "--pull", "never"]
    command += ["--network", "none", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
    command += ["--pids-limit", str(shape.processes), "--memory", memory, "--memory-swap", memory]
    command += ["--ipc", "none", "--user", f"{uid}:{uid}", "--hostname", "jail", "--workdir", "/"]
    # podman adds more that can be written to, and gives /tmp the rights of the image's own, unless told not to.
    own = ",notmpcopyup" if tool.endswith("podman") else ""
    command += ["--tmpfs", f"/tmp:rw,noexec,nosuid,nodev,size={shape.disk_mb}m,mode=1777{own}"]  # noqa: S108
    command += ["--read-only-tmpfs=false"] if own else []
    # An engine's default limits may be above what it may set itself. No log of what a candidate prints is kept.
    command += ["--ulimit", "core=0:0", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"]
    command += ["--log-driver", "none"]
    inside = {"HOME": "/tmp", "LANG": "C.UTF-8", "PYTHONHASHSEED": str(shape.hash_seed)}  # noqa: S108
    for key, value in inside.items():
        command += ["--env", f"{key}={value}"]
    return [*command, "--entrypoint", python, image]


def remove(tool: str, name: str, env: dict[str, str] | None = None) -> bool:
    """Ends and removes a container; whether the engine answered."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run([tool, "rm", "--force", name], capture_output=True, check=False, timeout=_PATIENCE_S, env=env)
        return True
    return False


def remove_all(tool: str, prefix: str) -> bool:
    """Ends and removes every container whose name starts so; whether none is left."""
    try:
        listed = subprocess.run(
            [tool, "ps", "--all", "--quiet", "--filter", f"name=^{prefix}-"],
            capture_output=True, text=True, check=False, timeout=_PATIENCE_S,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    gone = [remove(tool, each) for each in listed.stdout.split()]
    return listed.returncode == 0 and all(gone)


def _sources() -> tuple[str, str]:
    """The runner with its parts as one program text, and the hash of it."""
    texts = {name: runner_file(name).read_text(encoding="utf-8") for name in RUNNERS}
    whole = "import sys\n"
    for name, text in texts.items():
        if name != "runner":
            whole += f"_part = type(sys)({name!r})\nsys.modules[{name!r}] = _part\nexec({text!r}, _part.__dict__)\n"
    whole += f"exec({texts['runner']!r})\n"
    return whole, digest(whole)[:16]
