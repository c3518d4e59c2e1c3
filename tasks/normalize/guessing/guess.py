"""Which importer reads a file, and what in it says so: a few records are looked at."""

from pathlib import Path
from typing import Any, NamedTuple

from schemas.errors import RecordError, UserError
from tasks.normalize.guessing.look import LOOK, is_empty, records_in
from tasks.normalize.guessing.options import options_of
from tasks.normalize.guessing.rules import RULES, Rule
from tasks.normalize.source.files import expand

# Of how many files of one format records are looked at.
FILES = 20


class Guess(NamedTuple):
    """The importer's id, why, the options that the records ask for, and remarks about them."""

    format: str
    why: str
    options: dict[str, Any] = {}
    notes: tuple[str, ...] = ()


def guess(*paths: Path) -> Guess:
    """The importer of the first file that `paths` (files, folders, patterns) name and holds anything, and why.

    Its options come from that file and the next few of the same format. UserError when nothing known fits.
    """
    files = [file.path for file in expand([str(path) for path in paths], Path())]
    path = next((file for file in files if not is_empty(file)), files[0])
    if path.suffix == ".eval":
        return Guess("inspect_log", "the suffix .eval")
    records = records_in(path)
    rule, fitting = _rule(records)
    if rule is None:
        keys = sorted({key for record in records for key in record})
        raise UserError(
            f"No known format fits '{path}'.",
            f"Its records have the fields {', '.join(keys[:20]) or 'none'}.",
            'Name the format, or write a mapping: [[normalize]] use = "mapping" (docs/formats.md).',
        )
    at = files.index(path)
    for more in files[at + 1 : at + FILES]:
        if len(fitting) >= LOOK:
            break
        try:
            also, others = _rule(records_in(more))
        except (UserError, RecordError):
            continue
        fitting += others if also is rule else []
    return Guess(rule.format, rule.why, *options_of(rule.format, fitting))


def format_of(path: Path) -> str | None:
    """The format of one file; None where it holds nothing that any importer knows."""
    if path.suffix == ".eval":
        return "inspect_log"
    try:
        rule, _ = _rule(records_in(path, 3))
    except (UserError, RecordError):
        return None
    return rule.format if rule else None


def _rule(records: list[dict[str, Any]]) -> tuple[Rule | None, list[dict[str, Any]]]:
    """The first rule that any record fits, and the records that fit it."""
    for rule in RULES:
        fitting = [record for record in records if rule.fits(record)]
        if fitting:
            return rule, fitting
    return None, []
