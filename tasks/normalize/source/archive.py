"""Zip archives whose members may be packed by Zstandard (method 93), which Python's own reader lacks before 3.14."""

import io
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from schemas.errors import RecordError

_ZSTANDARD = 93
_HEADER = 30


class Archive:
    """An open archive held in memory; `names` in their order."""

    def __init__(self, raw: bytes, archive: zipfile.ZipFile) -> None:
        self._raw, self._archive = raw, archive
        self.names = archive.namelist()

    def read(self, name: str) -> bytes:
        """A member's content, checked against its CRC; RecordError where it does not fit."""
        entry = self._archive.getinfo(name)
        if entry.compress_type != _ZSTANDARD:
            return self._archive.read(name)
        # The local header repeats the name and has an extra field of its own length.
        header = self._raw[entry.header_offset : entry.header_offset + _HEADER]
        start = entry.header_offset + _HEADER + int.from_bytes(header[26:28], "little")
        start += int.from_bytes(header[28:30], "little")
        packed = pa.py_buffer(self._raw[start : start + entry.compress_size])
        with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
            data: bytes = stream.read(entry.file_size + 1)
        if len(data) != entry.file_size or zlib.crc32(data) != entry.CRC:
            raise RecordError("bad_archive", f"{name[:80]} is not what its header says")
        return data


@contextmanager
def opened(raw: bytes, limit: int) -> Iterator[Archive]:
    """The archive in `raw`; RecordError when it is damaged, or unpacks to more than `limit` bytes."""
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > limit:
                raise RecordError("too_long", f"the archive unpacks to more than {limit} bytes")
            yield Archive(raw, archive)
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError, ValueError, OSError) as error:
        raise RecordError("bad_archive", str(error)) from None
