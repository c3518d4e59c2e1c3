"""Byte spans of the records of a text file, found in one pass, and read back by range.

A record that is no longer the one that was planned (the file was rewritten meanwhile) is noticed by size and
modification time, then by content.
"""

import mmap
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
from blake3 import blake3

from tasks.normalize.source.files import BOM, Shape
from tasks.normalize.strict import Buffer, key_marks_of_lines

BLOCK = 8 << 20
CHUNK = 1 << 20
# Bytes of the key and of a digest.
KEY, DIGEST = 32, 16
_BLANK = b" \t\r\n\v\f"
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{},]|"', re.DOTALL)


class Span(msgspec.Struct, frozen=True, gc=False):
    """One record: its ordinal from 1, byte offset and length, and the digest of its bytes."""

    ordinal: int
    offset: int
    length: int
    digest: bytes


def spans_of(path: Path, shape: Shape, key: bytes = bytes(KEY)) -> Iterator[Span]:
    """The records of a text file of `shape`, in order. Memory: one block, or one record where that is longer.

    key: of the digests, KEY bytes.
    """
    if shape is Shape.LINES:
        return _lines(path, key)
    if shape is Shape.LIST:
        return _elements(path, key)
    return _whole(path, key)


def stamp_of(path: Path) -> str:
    """Size and modification time: equal stamps mean an unchanged file."""
    status = path.stat()
    return f"{status.st_size}-{status.st_mtime_ns}"


def digest_of(raw: Buffer, key: bytes) -> bytes:
    """The digest of a record's bytes: BLAKE3 under a key of KEY bytes, cut to DIGEST bytes.

    Of long records it takes a third of the time of SHA-256 in hardware; and the key makes the digest an id by itself.
    """
    return blake3(raw, key=key).digest(DIGEST)


def _lines(path: Path, key: bytes) -> Iterator[Span]:
    """The lines that hold more than white space. One buffer serves the whole file and grows only for a longer line."""
    number, offset, size, start, looked = 0, 0, 0, 0, 0
    buffer = bytearray(CHUNK)
    # One state for all: for short records, making one takes as long as hashing.
    state = blake3(key=key)
    with path.open("rb") as file:
        if file.read(3) != BOM:
            file.seek(0)
        else:
            offset = 3
        while True:
            with memoryview(buffer) as room:
                got = file.readinto(room[size:])
                size += got
                # Without a line break the rest of a file is a line as well.
                while (end := buffer.find(b"\n", looked, size)) >= 0 or (not got and start < size):
                    end = size if end < 0 else end
                    number += 1
                    stop = end if buffer[end - 1] > 32 else _line_end(buffer, start, end)
                    if stop > start:
                        state.update(room[start:stop])
                        yield Span(number, offset + start, stop - start, state.digest(DIGEST))
                        state.reset()
                    start = looked = end + 1
                if not got:
                    return
            if start:
                buffer[: size - start] = buffer[start:size]
                offset, size, start = offset + start, size - start, 0
            elif size == len(buffer):
                buffer += bytes(len(buffer))
            looked = size


def _line_end(buffer: bytearray, start: int, end: int) -> int:
    """Where a line ends without carriage returns; `start` when it is blank."""
    if start < end and buffer[start] in _BLANK and not buffer[start:end].strip(_BLANK):
        return start
    while end > start and buffer[end - 1] == 13:
        end -= 1
    return end


def _whole(path: Path, key: bytes) -> Iterator[Span]:
    state = blake3(key=key)
    length = 0
    with path.open("rb") as file:
        offset = 3 if file.read(3) == BOM else 0
        file.seek(offset)
        while block := file.read(BLOCK):
            state.update(block)
            length += len(block)
    if length:
        yield Span(1, offset, length, state.digest(DIGEST))


def _elements(path: Path, key: bytes) -> Iterator[Span]:
    if not path.stat().st_size:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        begin = 3 if data[:3] == BOM else 0
        view = memoryview(data)[begin:]
        try:
            spans = _exact(view)
        except (msgspec.DecodeError, RecursionError):
            spans = _salvage(data, begin)
        finally:
            view.release()
        for ordinal, (offset, length) in enumerate(spans, 1):
            record = data[offset + begin : offset + begin + length]
            yield Span(ordinal, offset + begin, length, digest_of(record, key))


def _exact(view: memoryview) -> list[tuple[int, int]]:
    base = np.frombuffer(view, dtype=np.uint8).ctypes.data
    found = []
    for element in msgspec.json.decode(view, type=list[msgspec.Raw]):
        bytes_of = np.frombuffer(element, dtype=np.uint8)
        found.append((int(bytes_of.ctypes.data - base), len(bytes_of)))
    return found


def _salvage(data: mmap.mmap, begin: int) -> list[tuple[int, int]]:
    """The elements of a damaged list: every one up to the damage, then what is left as one bad record."""
    found: list[tuple[int, int]] = []
    depth, start, end = 0, -1, begin
    for token in _TOKEN.finditer(data, begin):
        mark = token.group()
        if mark in (b"[", b"{"):
            depth += 1
            if depth == 1:
                start = token.end()
            continue
        if mark in (b"]", b"}"):
            depth -= 1
        if (depth == 1 and mark == b",") or depth == 0:
            piece = data[start : token.start()]
            lead = len(piece) - len(piece.lstrip(_BLANK))
            body = piece.strip(_BLANK)
            if body:
                found.append((start + lead - begin, len(body)))
            start = end = token.end()
            if depth == 0:
                break
    rest = data[end:].strip(_BLANK)
    if rest:
        found.append((data.find(rest, end) - begin, len(rest)))
    return found


class Piece(msgspec.Struct, frozen=True, gc=False):
    """A record's bytes (valid until the next piece is asked for) and, where known, its `strict.key_marks`."""

    raw: memoryview
    marks: int | None


def read_spans(path: Path, spans: Sequence[tuple[int, int]]) -> Iterator[Piece]:
    """The bytes of records given as (offset, length), in that order; neighbours are read together.

    One buffer serves all reads, small enough to stay in the processor's cache. A span beyond the end of the file
    gives what there is.
    """
    handle = os.open(path, os.O_RDONLY)
    buffer = bytearray()
    try:
        first = 0
        while first < len(spans):
            begin, last = spans[first][0], first + 1
            end = begin + spans[first][1]
            while last < len(spans) and spans[last][0] >= end and sum(spans[last]) - begin <= CHUNK:
                end = sum(spans[last])
                last += 1
            if len(buffer) < end - begin:
                buffer = bytearray(max(end - begin, CHUNK))
            size = os.preadv(handle, [memoryview(buffer)[: end - begin]], begin)
            chunk = memoryview(buffer)[:size]
            starts = np.fromiter((offset - begin for offset, _ in spans[first:last]), np.int64, last - first)
            marks = key_marks_of_lines(chunk, starts).tolist()
            for (offset, length), mark in zip(spans[first:last], marks, strict=True):
                yield Piece(chunk[offset - begin : offset - begin + length], mark)
            first = last
    finally:
        os.close(handle)
