"""docs/verification.md names every verifier, kind of verdict and degree of trust that there is."""

from pathlib import Path

from schemas.vocabulary import Kind, Trust, VerdictKind
from tasks.registry import plugin_ids

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "verification.md").read_text(encoding="utf-8")


def test_nothing_is_left_out() -> None:
    named = [*plugin_ids(Kind.VERIFIER), *(kind.value for kind in VerdictKind), *(trust.value for trust in Trust)]
    assert [each for each in named if f"`{each}`" not in TEXT] == []
