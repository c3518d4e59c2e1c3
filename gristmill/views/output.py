"""How results reach the reader: rich tables for people, JSON for programs, both on standard output."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

# Foreign text may hold what a terminal obeys: control characters but tab and line break, shown by Unicode's pictures.
_CONTROLS = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n"} | {0x7F: 0x2421}
_CONTROLS |= dict.fromkeys(range(128, 160), 65533)


def harmless(text: str) -> str:
    """The text without anything that a terminal obeys."""
    return text.translate(_CONTROLS)


class Screen(Console):
    """A console that prints no foreign text that a terminal would obey."""

    def print(self, *objects: Any, **options: Any) -> None:
        """See Console.print."""
        super().print(*(harmless(one) if isinstance(one, str) else one for one in objects), **options)


out = Screen(highlight=False, soft_wrap=False)
err = Screen(stderr=True, highlight=False)


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(msgspec.to_builtins(value), ensure_ascii=False, default=str) + "\n")


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Iterable[str] = ()) -> None:
    """A table for people; columns named in `right` are aligned to the right."""
    aligned = frozenset(right)
    shown = Table(title=title or None, title_justify="left", header_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        side: Literal["left", "right"] = "right" if column in aligned else "left"
        shown.add_column(
            Text(harmless(column)),
            justify=side,
            overflow="fold",
            min_width=min(len(column), 12),
            no_wrap=column == columns[0],
        )
    for row in rows:
        # As Text, for "[/INST]" would be taken for markup.
        shown.add_row(*(Text("" if cell is None else harmless(str(cell))) for cell in row))
    out.print(shown)


def records(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """One block of lines per row, for rows too wide for a table."""
    width = max(map(len, columns), default=0)
    for number, row in enumerate(rows, 1):
        out.print(f"[bold]row {number}[/bold]")
        for column, cell in zip(columns, row, strict=True):
            out.print(f"  {column:<{width}}  {'' if cell is None else cell}", markup=False)


def cut(text: str, most: int) -> str:
    """The text, or its first `most` signs and a mark that something follows."""
    return text if len(text) <= most else f"{text[:most]}…"


def reasons_text(reasons: dict[str, int]) -> str:
    """Reasons with their counts, the most frequent first."""
    ordered = sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{reason} {count}" for reason, count in ordered)
