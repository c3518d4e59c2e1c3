"""DuckDB with its extensions from Python packages, and the ATTACH statement of a lake.

Nothing is downloaded: the extension files lie in the `duckdb_extension_*` packages, built for exactly the
pinned DuckDB, and installing or loading others by name is switched off.
"""

import importlib.util
import os
import tempfile
from pathlib import Path
from typing import NamedTuple

import duckdb

from schemas.errors import LakeError, MissingExtra
from warehouse.address import Address, secret

# SQLite's busy time-out for DuckLake's own catalog connections, milliseconds.
_BUSY_MS = 30_000
_EXTRA = {"postgres_scanner": "postgres", "httpfs": "s3"}


class Attach(NamedTuple):
    """How to attach: read-only, and at which snapshot (None: the newest)."""

    read_only: bool = False
    snapshot: int | None = None


def extension_file(name: str) -> Path:
    """The file of a packaged extension; MissingExtra when its package is not installed."""
    package = f"duckdb_extension_{name}"
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        if name in _EXTRA:
            raise MissingExtra(package.replace("_", "-"), _EXTRA[name])
        raise LakeError(f"The package {package.replace('_', '-')} is not installed; reinstall gristmill.")
    folder = Path(next(iter(spec.submodule_search_locations))) / "extensions"
    file = folder / f"v{duckdb.__version__}" / f"{name}.duckdb_extension"
    if not file.is_file():
        built = ", ".join(sorted(path.name for path in folder.glob("v*"))) or "no version"
        raise LakeError(
            f"{package.replace('_', '-')} is built for {built}, DuckDB is {duckdb.__version__}: "
            f"install duckdb=={duckdb.__version__} and {package.replace('_', '-')}=={duckdb.__version__}"
        )
    return file


_WRITER = Attach()


def connect(
    address: Address, how: Attach = _WRITER, settings: dict[str, str] | None = None
) -> duckdb.DuckDBPyConnection:
    """An in-memory DuckDB with the lake attached as `lake` and in use."""
    con = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            # Only until `load` is done, and only for its files.
            "allow_unsigned_extensions": "true",
            "arrow_large_buffer_size": "true",
            "preserve_insertion_order": "true",
            # Local files are in the system's cache already.
            "enable_external_file_cache": str(address.s3 is not None).lower(),
            "temp_directory": str(Path(tempfile.gettempdir()) / f"gristmill-spill-{os.getuid()}"),
            **(settings or {}),
        },
    )
    try:
        con.execute("SET GLOBAL TimeZone = 'UTC'")
        load(con, address)
        con.execute(attach_statement(address, how))
        con.execute("USE lake")
    except Exception:
        con.close()
        raise
    return con


def load(con: duckdb.DuckDBPyConnection, address: Address) -> None:
    """Loads the extensions that the lake needs, and the secret of its store; no other can be loaded afterwards.

    Their signatures are not checked: that hashes 70 MB in every new engine, 0.3 s of CPU time. Who can change those
    files can change the Python files beside them, which nobody checks.
    """
    for name in extensions(address):
        con.execute(f"LOAD {quoted(str(extension_file(name)))}")
    con.execute("SET GLOBAL allow_unsigned_extensions = false")
    if address.s3 is not None:
        con.execute(_s3_secret(address))


def extensions(address: Address) -> list[str]:
    """The extensions that a lake needs."""
    return [
        "postgres_scanner" if address.postgres else "sqlite_scanner",
        "ducklake",
        *(["httpfs"] if address.s3 is not None else []),
    ]


def attach_statement(address: Address, how: Attach) -> str:
    """The ATTACH statement. The data path is overridden, so that a moved folder still opens."""
    if address.postgres:
        target, options = f"ducklake:postgres:{address.postgres}", ""
    else:
        target, options = f"ducklake:sqlite:{address.catalog_file}", f", META_BUSY_TIMEOUT {_BUSY_MS}"
    if how.read_only:
        options += ", READ_ONLY"
    if how.snapshot is not None:
        options += f", SNAPSHOT_VERSION {how.snapshot}"
    return (
        f"ATTACH {quoted(target)} AS lake (DATA_PATH {quoted(address.data)}, OVERRIDE_DATA_PATH true, "
        f"DATA_INLINING_ROW_LIMIT 0{options})"
    )


def _s3_secret(address: Address) -> str:
    assert address.s3 is not None
    s3 = address.s3
    parts = [
        "TYPE s3",
        f"KEY_ID {quoted(secret(s3.key_env))}",
        f"SECRET {quoted(secret(s3.secret_env))}",
        f"REGION {quoted(s3.region)}",
        f"URL_STYLE {quoted(s3.url_style)}",
    ]
    if s3.endpoint:
        scheme, _, host = s3.endpoint.rpartition("://")
        parts += [f"ENDPOINT {quoted(host.rstrip('/'))}", f"USE_SSL {'false' if scheme == 'http' else 'true'}"]
    return f"CREATE SECRET lake_s3 ({', '.join(parts)})"


def quoted(text: str) -> str:
    """`text` as an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"
