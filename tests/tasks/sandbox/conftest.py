"""Real jails, one service a mode for the whole session."""

from collections.abc import Iterator

import pytest

from tasks.sandbox.sandbox import Sandbox


@pytest.fixture(scope="session")
def box() -> Iterator[Sandbox]:
    """The service as it starts on this machine."""
    opened = Sandbox.start(2)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def watched() -> Iterator[Sandbox]:
    """The service without cgroups."""
    opened = Sandbox.start(2, watchdog=True)
    yield opened
    opened.close()
