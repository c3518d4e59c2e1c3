"""Builds a patched repository before its tests run: in a jail, with pinned dependencies, without a network.

    "packages": ["numpy==2.4.0"], "lock": "89bc…", "build": [["python", "make_tables.py"]], "tools": ["sh"]

What could change the dependencies ends it with a reason: an environment whose content is not the one that the task
names (`lock_changed`, `not_locked`), a step that installs (`build_installs`), and one that asks for the network
(`build_network`).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from schemas.errors import RecordError, Unavailable, UserError
from schemas.vocabulary import VerdictKind
from tasks.sandbox.results import Limits, RunKind, RunResult
from tasks.sandbox.sandbox import Sandbox

_INSTALLERS = frozenset(
    (
        *(
            "pip",
            "pip3",
            "pipx",
            "uv",
            "poetry",
            "pdm",
            "hatch",
            "conda",
            "mamba",
            "easy_install",
            "ensurepip",
            "pipenv",
        ),
        *("npm", "npx", "yarn", "pnpm", "apt", "apt-get", "curl", "wget", "git"),
    )
)
# What programs say that wanted something from outside.
_NETWORK = re.compile(
    r"No module named '?\"?(?:pip|ensurepip)\b|name resolution|[Nn]etwork is unreachable|getaddrinfo|urlopen error"
    r"|socket\.socket|Could not find a version that satisfies|Connection refused|Name or service not known"
)
_KINDS = {
    RunKind.TIMEOUT: VerdictKind.TIMEOUT,
    RunKind.CPU: VerdictKind.TIMEOUT,
    RunKind.MEMORY: VerdictKind.MEMORY,
    RunKind.INFRASTRUCTURE: VerdictKind.INFRASTRUCTURE,
    RunKind.REFUSED: VerdictKind.REFUSED,
}


class Stopped(NamedTuple):
    """Why there is nothing to test."""

    kind: VerdictKind
    reason: str
    detail: str


def check(commands: Sequence[Sequence[str]]) -> None:
    """RecordError `bad_spec` for a build that has an empty step, or one that installs."""
    for command in commands:
        if not command:
            raise RecordError("bad_spec", "repo_tests: a build step without a command")
        words = [command[0].rpartition("/")[2], *command[1:3]]
        installs = words[0] in _INSTALLERS or (words[1:2] == ["-m"] and words[-1].partition(".")[0] in _INSTALLERS)
        if installs:
            raise RecordError(
                "bad_spec", f"build_installs: '{' '.join(command)}': dependencies are pinned, not installed"
            )


def locked(sandbox: Sandbox, packages: Sequence[str], lock: str) -> Stopped | None:
    """None when the packages are the ones that the task was made with."""
    try:
        found = sandbox.lock(packages)
    except Unavailable as error:
        return Stopped(VerdictKind.INFRASTRUCTURE, error.reason, error.detail)
    if lock and not found:
        detail = f"the task names the lock {lock}, but no environment was built for its pins: gristmill environment "
        return Stopped(VerdictKind.INFRASTRUCTURE, "not_locked", detail + " ".join(packages))
    if lock and found != lock:
        return Stopped(
            VerdictKind.INFRASTRUCTURE, "lock_changed", f"the task names the lock {lock}, here it is {found}"
        )
    return None


def build(
    sandbox: Sandbox,
    files: Mapping[str, str | bytes],
    commands: Sequence[Sequence[str]],
    limits: Limits,
    packages: Sequence[str],
    tools: Sequence[str],
    keep_out: Callable[[str], bool],
) -> dict[str, str | bytes] | Stopped:
    """The files as the steps leave them, each step in the same jail.

    keep_out: whether a path decides how tests run; a step may neither make nor change such a file. Compiled Python is
    left out.
    """
    try:
        with sandbox.session(limits, packages=packages, tools=tools) as jail:
            for number, command in enumerate(commands):
                ran = jail.run_command(tuple(command), files=files if number == 0 else None)
                if ran.kind is not RunKind.OK:
                    return _stopped(command, ran)
            made = jail.files()
    except Unavailable as error:
        return Stopped(VerdictKind.INFRASTRUCTURE, error.reason, error.detail)
    except RecordError as error:
        return Stopped(VerdictKind.FAIL, f"build_{error.reason}", error.detail)
    except UserError as error:
        raise RecordError("bad_spec", f"repo_tests: {error}") from error
    result: dict[str, str | bytes] = {}
    for name, content in made.items():
        given = files.get(name)
        same = given is not None and (given.encode() if isinstance(given, str) else given) == content
        if name.endswith(".pyc"):
            continue
        if not same and keep_out(name):
            return Stopped(VerdictKind.REFUSED, "build_protected_file", name)
        result[name] = content
    return result


def _stopped(command: Sequence[str], ran: RunResult) -> Stopped:
    said = f"{ran.stdout[-300:]}\n{ran.stderr[-1000:]}".strip()
    kind = _KINDS.get(ran.kind, VerdictKind.FAIL)
    if kind is VerdictKind.INFRASTRUCTURE:
        return Stopped(kind, ran.reason, ran.detail)
    if kind is VerdictKind.FAIL and _NETWORK.search(ran.stdout + ran.stderr):
        return Stopped(VerdictKind.REFUSED, "build_network", f"{' '.join(command)}: {said}"[:1500])
    reason = "build_failed" if kind is VerdictKind.FAIL else f"build_{ran.reason}"
    return Stopped(kind, reason, f"{' '.join(command)}: {said}"[:1500])
