"""Where a lake lives: one folder, or a Postgres catalog with a data path.

An address is a folder (the default: SQLite catalog and Parquet files in it), a TOML file, or a URL
`postgresql://USER@HOST:PORT/DB?data=PATH_OR_S3_URL`. A TOML file says the same with more room:

    catalog = "postgresql://grist@db.example/lake"
    data = "s3://bucket/lake/"
    [s3]
    endpoint = "http://127.0.0.1:9000"
    region = "us-east-1"
    key_env = "AWS_ACCESS_KEY_ID"
    secret_env = "AWS_SECRET_ACCESS_KEY"

Passwords never stand in an address: Postgres takes PGPASSWORD or a pgpass file, S3 the named variables.
"""

import os
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from schemas.errors import UserError
from schemas.trajectory import Base


class S3(Base, frozen=True, kw_only=True):
    """How to reach an S3-compatible store; the two names are those of environment variables."""

    endpoint: str | None = None
    region: str = "us-east-1"
    key_env: str = "AWS_ACCESS_KEY_ID"
    secret_env: str = "AWS_SECRET_ACCESS_KEY"  # noqa: S105 - the name of a variable, not a secret
    url_style: str = "path"


class _File(Base, frozen=True, kw_only=True):
    catalog: str
    data: str
    s3: S3 = S3()


class Address(Base, frozen=True, kw_only=True):
    """A resolved address. `given` finds the same lake again from another process.

    root: the lake's folder, None for a shared lake. postgres: the catalog's URL without a password, None for SQLite.
    base: the folder or s3:// URL of everything but a shared lake's catalog, ending with a slash.
    """

    given: str
    root: str | None
    postgres: str | None
    base: str
    s3: S3 | None = None

    @property
    def data(self) -> str:
        """Where Parquet files stand, ending with a slash."""
        return f"{self.base}data/"

    @property
    def checkpoints(self) -> str:
        """Where checkpoints stand, ending with a slash; outside of `data`, where DuckLake cleans up."""
        return f"{self.base}_checkpoint/"

    @property
    def shared(self) -> bool:
        """Whether several machines may write to it."""
        return self.postgres is not None

    @property
    def folder(self) -> Path:
        """The lake's folder; only of a local lake."""
        if self.root is None:
            raise UserError(f"The lake {self.given} has no local folder.")
        return Path(self.root)

    @property
    def catalog_file(self) -> Path:
        """The SQLite catalog of a local lake."""
        return self.folder / "catalog.sqlite"


def resolve(given: str | Path) -> Address:
    """The address that a user gave; UserError when it is malformed or carries a password."""
    text = str(given)
    if text.startswith(("postgres://", "postgresql://")):
        return _from_url(text)
    path = Path(text).expanduser()
    if path.suffix == ".toml":
        return _from_file(path)
    if "://" in text:
        raise UserError(
            f"Not an address of a lake: {_without_password(text)}",
            "Known: a folder, a TOML file, or postgresql://USER@HOST/DB?data=PATH_OR_S3_URL.",
        )
    if path.exists() and not path.is_dir():
        raise UserError(
            f"The lake {path} is a file, not a folder.",
            "A lake is a folder; the address of a shared one may stand in a TOML file, whose name ends in .toml.",
            "Name a folder with --lake, or leave the option out: the lake is then the folder 'lake' here.",
        )
    root = path.resolve()
    return Address(given=str(root), root=str(root), postgres=None, base=f"{root}/")


def _from_file(path: Path) -> Address:
    try:
        raw: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        found = msgspec.convert(raw, _File)
    except FileNotFoundError:
        raise UserError(f"There is no address file {path}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise UserError(
            f"The address file {path} does not fit: {error}",
            "Known: catalog, data, [s3] endpoint, region, key_env, secret_env, url_style.",
        ) from error
    return Address(
        given=str(path.resolve()),
        root=None,
        postgres=_checked(found.catalog),
        base=_base(found.data, path.resolve().parent),
        s3=found.s3 if found.data.startswith("s3://") else None,
    )


def _from_url(text: str) -> Address:
    parts = urlsplit(text)
    query = dict(parse_qsl(parts.query))
    data = query.pop("data", None)
    if not data:
        raise UserError(
            f"The address {_without_password(text)} names no data path.",
            "A Postgres catalog needs a place for its Parquet files.",
            "Append ?data=/shared/folder or ?data=s3://bucket/prefix",
        )
    catalog = _checked(urlunsplit(parts._replace(query=urlencode(query))))
    where = _base(data, Path.cwd())
    given = urlunsplit(urlsplit(catalog)._replace(query=urlencode({**query, "data": where})))
    return Address(given=given, root=None, postgres=catalog, base=where, s3=S3() if where.startswith("s3://") else None)


def _base(given: str, base: Path) -> str:
    if given.startswith("s3://"):
        _refuse_password(given)
        return given.rstrip("/") + "/"
    if "://" in given:
        raise UserError(f"Not a data path: {_without_password(given)}", "Known: a folder or s3://BUCKET/PREFIX.")
    return f"{(base / Path(given).expanduser()).resolve()}/"


def _checked(catalog: str) -> str:
    if not catalog.startswith(("postgres://", "postgresql://")):
        raise UserError(f"Not a catalog: {_without_password(catalog)}", "Known: postgresql://USER@HOST:PORT/DB.")
    _refuse_password(catalog)
    return catalog


def _refuse_password(url: str) -> None:
    parts = urlsplit(url)
    if parts.password or any(key in ("password", "passfile") for key, _ in parse_qsl(parts.query)):
        raise UserError(
            f"The address {_without_password(url)} carries a password.",
            "Addresses are written to logs and run records.",
            "Give it in PGPASSWORD or a pgpass file (Postgres), or name its variables in [s3] (S3).",
        )


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    user = parts.username or ""
    return urlunsplit(parts._replace(netloc=f"{user}@{host}" if user else host, query=""))


def secret(variable: str) -> str:
    """The value of an environment variable that an address names; UserError when it is not set."""
    value = os.environ.get(variable)
    if not value:
        raise UserError(f"The environment variable {variable} is not set.", "The lake's address names it for S3.")
    return value
