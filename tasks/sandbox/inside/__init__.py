"""What runs inside a jail. It is taken from here as text or compiled, and never imported by Gristmill itself."""

from pathlib import Path

# The runner and its parts, which lie beside each other in a jail too.
RUNNERS = ("runner", "runner_session", "runner_container")


def runner_file(name: str) -> Path:
    """The file of the runner or of one of its parts."""
    return Path(__file__).with_name(f"{name}.py")
