"""A context with a real sandbox, for verifiers that need no lake."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from schemas.recipe import Recipe
from tasks.context import Context
from warehouse.lake import Lake


@pytest.fixture(scope="session")
def bare() -> Iterator[Context]:
    """A context whose lake is never asked."""
    ctx = Context(Recipe(name="test"), cast(Lake, None), "run", Path(), Path())
    yield ctx
    ctx.close()
