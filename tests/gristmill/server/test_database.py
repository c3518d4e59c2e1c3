"""A new home for Prefect's database gets a migrated one, made once."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gristmill.server.database import provide
from schemas.folders import cache_folder


def _version(home: Path) -> list[tuple[str]]:
    with closing(sqlite3.connect(home / "prefect.db")) as con:
        return con.execute("SELECT version_num FROM alembic_version").fetchall()


def test_one_migration_serves_every_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    homes = [tmp_path / "a", tmp_path / "b"]
    for home in homes:
        home.mkdir()
        provide(home)
    kept = list((tmp_path / "cache" / "gristmill").iterdir())
    assert [path.name.startswith("prefect-") for path in kept] == [True]
    assert _version(homes[0]) == _version(homes[1]) != []
    assert (homes[0] / "prefect.db").read_bytes() == kept[0].read_bytes()
    # What stands there is left as it is.
    (homes[1] / "prefect.db").write_bytes(b"mine")
    provide(homes[1])
    assert (homes[1] / "prefect.db").read_bytes() == b"mine"


def test_without_a_place_for_it_the_server_migrates_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (home := tmp_path / "home").mkdir()
    provide(home)
    assert list(home.iterdir()) == []


def test_a_database_elsewhere_needs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_SERVER_DATABASE_CONNECTION_URL", "sqlite+aiosqlite:///elsewhere.db")
    provide(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_original_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (first := tmp_path / "first").mkdir()
    provide(first)
    (original,) = (tmp_path / "cache" / "gristmill").iterdir()
    whole = original.read_bytes()
    original.write_bytes(whole[: len(whole) // 2])
    (second := tmp_path / "second").mkdir()
    provide(second)
    assert _version(second) == _version(first)
    with closing(sqlite3.connect(second / "prefect.db")) as con:
        assert con.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_what_a_removed_database_left_is_not_played_into_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (home := tmp_path / "home").mkdir()
    (home / "prefect.db-wal").write_bytes(b"of another database")
    provide(home)
    assert (home / "prefect.db").exists() and not (home / "prefect.db-wal").exists()


def test_the_cache_never_lands_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for given in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", given)
        assert cache_folder() == tmp_path / "home" / ".cache" / "gristmill"


def test_a_database_of_another_version_is_left_for_the_server_to_migrate(tmp_path: Path) -> None:
    (home := tmp_path / "home").mkdir()
    assert provide(home) and provide(home)
    with closing(sqlite3.connect(home / "prefect.db")) as con:
        con.execute("UPDATE alembic_version SET version_num = 'earlier'")
        con.commit()
    assert not provide(home)
    (home / "prefect.db").write_bytes(b"damaged")
    assert not provide(home)
