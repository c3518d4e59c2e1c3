"""Reads the TOML file of one program task; its form is described in `synthesizer/programs.py`."""

import ast
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from schemas.errors import RecordError, UserError
from schemas.trajectory import Base


class ProgramTest(Base, frozen=True):
    """One hidden test: JSON arguments and the JSON value that the function must return."""

    args: list[Any]
    expected: Any = None


class Program(Base, frozen=True):
    """One program task as its file gives it. `tolerance` is absolute; `level` runs from 1 (trivial) upward."""

    entry: str
    signature: str
    statement: str
    gold: str
    tests: list[ProgramTest]
    level: int = 1
    tolerance: float | None = None


def program_files(folder: Path) -> list[Path]:
    """The TOML files of a folder, by name; UserError when there are none."""
    files = sorted(folder.glob("*.toml")) if folder.is_dir() else []
    if not files:
        raise UserError(
            f"No program tasks in '{folder}'.",
            "A program task is a TOML file with entry, signature, statement, gold and tests.",
            "Give `path` a folder of such files, or leave it out for the tasks that come with Gristmill.",
        )
    return files


def parse_program(raw: bytes) -> Program:
    """The program in a file's bytes.

    Raises RecordError: `not_toml`, `not_a_program` (a field is missing, unknown or of the wrong type; a value
    that JSON cannot hold), `bad_signature` (not one function header that defines `entry`), `no_tests`.
    """
    try:
        data = tomllib.loads(raw.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecordError("not_toml", str(error)) from error
    try:
        program = msgspec.convert(data, Program)
        # TOML knows dates, NaN and infinity, which no JSON argument can be.
        msgspec.convert(msgspec.json.decode(msgspec.json.encode(data)), Program)
        if msgspec.json.decode(msgspec.json.encode(data["tests"])) != data["tests"]:
            raise RecordError("not_a_program", "tests hold a value that JSON cannot")
    except msgspec.ValidationError as error:
        raise RecordError("not_a_program", str(error)) from error
    if program.entry != _defined(program.signature):
        raise RecordError("bad_signature", f"{program.signature!r} does not define {program.entry!r}")
    if not program.tests:
        raise RecordError("no_tests", program.entry)
    return program


def _defined(signature: str) -> str | None:
    """The name of the one function that a header such as `def f(x: int) -> int` defines."""
    try:
        body = ast.parse(f"{signature}: ...").body
    except (SyntaxError, ValueError):
        return None
    return body[0].name if len(body) == 1 and isinstance(body[0], ast.FunctionDef) else None
