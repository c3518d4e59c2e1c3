"""Media and web pages beside the rows: one file per content, under the sha256 of its bytes.

    sha256 = Blobs(lake).put(data)      # <lake>/blobs/ab/<sha256>, written before the row that names it

A local lake, or a shared one whose data path is a folder, writes to a temporary name, syncs and renames; a bucket
takes one put, which is all or nothing. The same content is stored once. Whatever no row names is removed by
maintenance, after the grace period only (see `warehouse.maintenance`).
"""

import hashlib
import os
import re
import threading
import time
from pathlib import Path

import duckdb

from schemas.errors import LakeError, RecordError, Unavailable
from warehouse.engine import quoted
from warehouse.lake import Lake

_SHA256 = re.compile(r"[0-9a-f]{64}")
_RESULTS = "flatten(list_transform(s.results, lambda r: r.content))"
_PARTS = f"flatten(list_transform(steps, lambda s: list_concat(s.content, {_RESULTS})))"


def key_of(sha256: str) -> str:
    """Where a blob lies, relative to the lake; RecordError `blob_missing` for what is no sha256."""
    if not _SHA256.fullmatch(sha256):
        raise RecordError("blob_missing", f"{sha256[:80]!r} is no sha256")
    return f"blobs/{sha256[:2]}/{sha256}"


class Blobs:
    """The blob folder of one lake; cheap to make, safe for threads and processes."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._remote = lake.where.base.startswith("s3://")

    def put(self, data: bytes) -> str:
        """Stores bytes durably and returns their sha256 (hex); what is there already is not written again.

        Unavailable("disk"): there is no room or the store cannot be reached, nothing is left behind.
        """
        if self._lake.how.read_only:
            raise LakeError(f"the lake {self._lake.address} is open for reading only")
        sha256 = hashlib.sha256(data).hexdigest()
        try:
            if self._remote:
                self._put_remote(sha256, data)
            elif not self._touched(sha256, len(data)):
                self._write(self._path(sha256), data)
        except (OSError, duckdb.Error) as error:
            raise Unavailable("disk", f"blob {sha256}: {error}") from error
        return sha256

    def get(self, sha256: str) -> bytes:
        """The bytes; RecordError `blob_missing` or `blob_damaged` where the lake does not hold them."""
        place = self._lake.where.base + key_of(sha256)
        try:
            data = self._read_remote(place) if self._remote else Path(place).read_bytes()
        except (OSError, duckdb.Error) as error:
            raise RecordError("blob_missing", f"{sha256}: {error}") from error
        if hashlib.sha256(data).hexdigest() != sha256:
            raise RecordError("blob_damaged", sha256)
        return data

    def stored(self) -> set[str]:
        """The sha256 of every blob."""
        if not self._remote:
            found = Path(self._lake.where.base, "blobs").glob("??/*")
            return {path.name for path in found if _SHA256.fullmatch(path.name)}
        con = self._lake.cursor()
        try:
            rows = con.execute("SELECT file FROM glob(?)", [f"{self._lake.where.base}blobs/*/*"]).fetchall()
        finally:
            con.close()
        return {name for (path,) in rows if _SHA256.fullmatch(name := str(path).rpartition("/")[2])}

    def age(self, sha256: str) -> float:
        """Seconds since a blob of a local folder was last put; 0 when it is gone."""
        try:
            return time.time() - self._path(sha256).stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def removed(self, grace: float) -> int:
        """Removes blobs, and leftovers of killed writers, that no row names and nobody has put for `grace` seconds.

        The caller holds the writer lock. In a bucket nothing is removed. Returns how many went.
        """
        if self._remote or not Path(self._lake.where.base, "blobs").is_dir():
            return 0
        before = time.time() - grace
        gone = 0
        old = {sha256 for sha256 in self.stored() if self.age(sha256) > grace}
        for sha256 in old - named(self._lake) if old else ():
            gone += self._drop(self._path(sha256), before)
        for part in Path(self._lake.where.base).glob("blobs/??/.*.part"):
            if part.stat().st_mtime < before:
                part.unlink(missing_ok=True)
                gone += 1
        return gone

    def _path(self, sha256: str) -> Path:
        return Path(self._lake.where.base) / key_of(sha256)

    def _touched(self, sha256: str, size: int) -> bool:
        """Whether the blob is there whole; its time is set to now, which keeps it from being removed."""
        path = self._path(sha256)
        try:
            os.utime(path)
            return path.stat().st_size == size
        except FileNotFoundError:
            return False

    def _write(self, path: Path, data: bytes) -> None:
        fresh = not path.parent.is_dir()
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")
        try:
            with part.open("wb") as handle:
                handle.write(data)
                handle.flush()
                os.fsync(handle.fileno())
            part.replace(path)
        except OSError:
            part.unlink(missing_ok=True)
            raise
        for folder in (path.parent, *((path.parent.parent, path.parent.parent.parent) if fresh else ())):
            _sync(folder)

    def _drop(self, path: Path, before: float) -> bool:
        """Removes one file unless somebody has put it meanwhile: moved aside first, then looked at again."""
        aside = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            path.rename(aside)
        except FileNotFoundError:
            return False
        if aside.stat().st_mtime >= before:
            aside.rename(path)
            return False
        aside.unlink()
        return True

    def _put_remote(self, sha256: str, data: bytes) -> None:
        place = self._lake.where.base + key_of(sha256)
        con = self._lake.cursor()
        try:
            # A path without a wildcard is taken for there without a look.
            found = con.execute("SELECT count(*) FROM glob(?)", [f"{place}*"]).fetchone()
            if not (found and found[0]):
                con.execute(f"COPY (SELECT ?::BLOB) TO {quoted(place)} (FORMAT BLOB)", [data])
        finally:
            con.close()

    def _read_remote(self, place: str) -> bytes:
        con = self._lake.cursor()
        try:
            row = con.execute("SELECT content FROM read_blob(?)", [place]).fetchone()
        finally:
            con.close()
        if row is None:
            raise FileNotFoundError(place)
        return bytes(row[0])


def named(lake: Lake) -> set[str]:
    """The sha256 of every blob that a trajectory names; rows are never taken back, so the newest snapshot has all."""
    rows = lake.sql(
        f"SELECT DISTINCT part.sha256 AS sha256 FROM (SELECT unnest({_PARTS}) AS part FROM trajectories) "  # noqa: S608
        "WHERE part.sha256 IS NOT NULL"
    )
    return set(rows["sha256"].to_pylist())


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
