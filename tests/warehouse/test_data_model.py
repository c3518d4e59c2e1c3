"""The page on the data model says what the code says."""

import re
from pathlib import Path

from warehouse.address import resolve
from warehouse.tables import COMMON, TABLES
from warehouse.views import VIEWS

PAGE = (Path(__file__).parents[2] / "docs" / "data-model.md").read_text(encoding="utf-8")


def test_every_table_and_its_columns_are_described() -> None:
    lines = dict(re.findall(r"^\| `(\w+)` \| .* \| ([\w, ]+) \|$", PAGE, re.MULTILINE))
    assert lines == {
        name: ", ".join(column for column in table.schema.names if column not in COMMON.names)
        for name, table in TABLES.items()
    }
    assert all(f"`{name}`" in PAGE for name in COMMON.names)


def test_every_view_is_described() -> None:
    section = PAGE.partition("## Views")[2].partition("###")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == set(VIEWS)


def test_the_address_file_of_the_page_is_read(tmp_path: Path) -> None:
    file = tmp_path / "lake.toml"
    file.write_text(PAGE.partition("```toml\n")[2].partition("```")[0])
    address = resolve(file)
    assert address.data == "s3://bucket/lake/data/"
    assert address.s3 is not None
    assert address.s3.endpoint == "http://127.0.0.1:9000"
