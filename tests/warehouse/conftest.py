"""A real, empty lake for every test that asks."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from warehouse.lake import Lake


@pytest.fixture(scope="session")
def empty_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake made once; copying it is several times as fast as making one."""
    folder = tmp_path_factory.mktemp("template") / "lake"
    Lake.open(folder).close()
    return folder


@pytest.fixture
def lake(tmp_path: Path, empty_lake: Path) -> Iterator[Lake]:
    shutil.copytree(empty_lake, tmp_path / "lake")
    opened = Lake.open(tmp_path / "lake")
    yield opened
    opened.close()
