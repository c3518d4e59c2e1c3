"""An engine loads the extensions of its lake, and no others."""

import os
import shutil
from pathlib import Path

import duckdb
import pytest

from warehouse.address import resolve
from warehouse.engine import connect, extension_file


def test_no_extension_without_a_signature_can_be_loaded_afterwards(tmp_path: Path) -> None:
    with connect(resolve(tmp_path)) as con:
        with pytest.raises(duckdb.InvalidInputException, match="allow_unsigned_extensions"):
            con.execute("SET GLOBAL allow_unsigned_extensions = true")
        copy = Path(shutil.copyfile(extension_file("ducklake"), tmp_path / "forged.duckdb_extension"))
        with copy.open("r+b") as file:
            # The signature is the file's end.
            file.seek(-256, os.SEEK_END)
            file.write(bytes(256))
        with pytest.raises(duckdb.Error, match="signature"):
            con.execute(f"LOAD '{copy}'")
