"""A new lake's Prefect database, copied from one that was migrated once for this version of Prefect.

Prefect's server migrates an empty database at its first start: 6.5 s of CPU time, in every new lake. A copy takes
milliseconds. The original holds the schema only: no server ever ran on it.
"""

import importlib.metadata
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from gristmill.server.children import die_with_parent
from schemas.folders import cache_folder

_NAME = "prefect.db"
_ADDRESSES = ("PREFECT_SERVER_DATABASE_CONNECTION_URL", "PREFECT_API_DATABASE_CONNECTION_URL")
# A migration took 19 s on two busy cores.
_PATIENCE_S = 240
_WORK = "migrating-"


def provide(home: Path) -> bool:
    """Puts a migrated database into `home` if it has none; whether the one there needs no migration.

    Where that fails, the server migrates one as it always did. The caller sees to it that nobody else does the same
    with this home meanwhile.
    """
    database = home / _NAME
    if any(os.environ.get(name) for name in _ADDRESSES):
        return False
    try:
        if database.exists():
            return _version(database) == _version(_place()) != ()
        original = _original()
        with tempfile.TemporaryDirectory(dir=home) as folder:
            copy = shutil.copyfile(original, Path(folder) / _NAME)
            # Of a database that was removed; SQLite would play them into the new one.
            for tail in ("-wal", "-shm"):
                Path(f"{database}{tail}").unlink(missing_ok=True)
            copy.replace(database)
        return True
    except (OSError, RuntimeError, subprocess.SubprocessError, sqlite3.Error):
        # RuntimeError: nobody knows where home is.
        return False


def _version(database: Path) -> tuple[tuple[str], ...]:
    """The migration that a database has come to; a file that is not there is an error."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=10)) as con:
        return tuple(con.execute("SELECT version_num FROM alembic_version").fetchall())


def _place() -> Path:
    return cache_folder() / f"prefect-{importlib.metadata.version('prefect')}.db"


def _original() -> Path:
    """The migrated database of the installed version of Prefect; made by its own command where no whole one is."""
    original = _place()
    root = original.parent
    if _whole(original):
        return original
    root.mkdir(parents=True, exist_ok=True)
    _sweep(root)
    with tempfile.TemporaryDirectory(dir=root, prefix=_WORK) as folder:
        subprocess.run(
            [sys.executable, "-m", "prefect", "server", "database", "upgrade", "-y"],
            env={**os.environ, "PREFECT_HOME": folder},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE_S,
            check=True,
            preexec_fn=die_with_parent,
        )
        made = Path(folder) / _NAME
        if Path(f"{made}-wal").exists() or not _whole(made):
            raise OSError(f"{made} is not whole")
        with made.open("rb") as file:
            os.fsync(file.fileno())
        made.replace(original)
    return original


def _whole(database: Path) -> bool:
    """Whether a database is there, migrated and undamaged: a full disk or a power cut may have cut it off."""
    if not database.is_file():
        return False
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro&immutable=1", uri=True)) as con:
            versions = con.execute("SELECT version_num FROM alembic_version").fetchall()
            return len(versions) == 1 and con.execute("PRAGMA quick_check").fetchone() == ("ok",)
    except sqlite3.Error:
        return False


def _sweep(root: Path) -> None:
    """Removes what migrations left that were killed."""
    for left in root.glob(f"{_WORK}*"):
        if time.time() - left.stat().st_mtime > 2 * _PATIENCE_S:
            shutil.rmtree(left, ignore_errors=True)
