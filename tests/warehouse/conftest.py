"""A real, empty lake for every test that asks."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from warehouse.lake import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    opened = Lake.open(tmp_path / "lake")
    yield opened
    opened.close()
