"""Secrets and personal data give way to placeholders; the rest of the trajectory stays as it is.

    [[refine]]
    use = "redact_personal_data"

The detectors are those of the selector `data_risk`, which drops or tags instead. The redacted trajectory is a new
one: it is verified again, and none of its tokens counts as sampled, since the recorded ids spell what is gone.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec

from schemas.errors import RecordError
from schemas.trajectory import Trajectory
from tasks.curate.risk import PLACEHOLDER, Finding, Kind, find, redacted
from tasks.media import is_page
from tasks.operator import Item, Plan, WorkingSet, select_ids
from tasks.pages import parts_of, with_pages, without_pages
from tasks.refine.base import GivenUp, Refined, Refiner
from tasks.texts import changed

if TYPE_CHECKING:
    from tasks.context import Context

# A value so long is replaced wherever it stands, also where nothing around it says what it is.
_TELLING = 8
_SHOWN = 50


class RedactPersonalData(Refiner, frozen=True, kw_only=True):
    """Puts placeholders such as <email_1> in place of secrets and personal data.

    Reasons: redacted, unchanged:nothing_found, unchanged:blob_missing (of a web page). The evidence counts the
    replaced places by kind and names the changed steps; no value is ever written down. One value has one placeholder
    throughout a trajectory, so that it still shows what belongs together. Every text of the trajectory is looked at,
    web pages, tools, names, addresses, the source's ids and provenance included; tasks are not.

    kinds: what is replaced: secret, email, phone, card, iban, ssn.
    """

    version: ClassVar[int] = 2

    kinds: tuple[Kind, ...] = ("secret", "email", "phone", "card", "iban", "ssn")

    def __post_init__(self) -> None:
        if not self.kinds:
            raise ValueError("kinds must name at least one kind")

    def plan(self, inputs: WorkingSet, ctx: "Context") -> Plan:
        """Every trajectory: the ledger remembers which ones hold nothing, so that none is searched twice."""
        ids = select_ids(self.reads, inputs)
        return Plan(items=tuple(Item(id=ref, ref=ref) for ref in ids), n_seen=len(ids))

    def refine(self, trajectory: Trajectory, ctx: "Context") -> Refined | GivenUp:
        """The trajectory with placeholders; one of which a web page is gone cannot be searched and stays."""
        search = _Search(self.kinds)
        try:
            whole = with_pages(trajectory, ctx.lake)
        except RecordError as error:
            return GivenUp(error.reason)
        changed(whole, search.look, search.look)
        # The addresses of stored pages do not stand beside their texts.
        addresses = [[part.uri for part in parts_of(step) if part.uri and is_page(part)] for step in trajectory.steps]
        risky = [any(search.look(uri) and search.found(uri) for uri in uris) for uris in addresses]
        if not search.any:
            return GivenUp("nothing_found")
        made = changed(whole, search.replace)
        if made == whole and not any(risky):
            return GivenUp("nothing_found")
        touched = [
            at for at, (old, new) in enumerate(zip(whole.steps, made.steps, strict=True)) if risky[at] or old != new
        ]
        steps = list(trajectory.steps)
        for at in touched:
            steps[at] = made.steps[at]
        made = without_pages(msgspec.structs.replace(made, steps=tuple(steps)), ctx.lake)
        return Refined(made, "redacted", {"found": dict(sorted(search.counts.items())), "steps": touched[:_SHOWN]})


class _Search:
    """First looks at every text of one trajectory, then replaces."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self._kinds = kinds
        self._found: dict[str, list[Finding]] = {}
        self._numbers: Counter[str] = Counter()
        self._values: dict[str, Finding] = {}
        self._pattern: re.Pattern[str] | None = None
        self._names: dict[str, str] = {}
        self.any = False
        # How many places were replaced, by kind.
        self.counts: Counter[str] = Counter()

    def look(self, text: str) -> str:
        """Remembers what is in the text; the text itself comes back."""
        if text not in self._found:
            self._found[text] = find(text, self._kinds)
            for kind, number in PLACEHOLDER.findall(text):
                # A text may have been redacted before, elsewhere: its placeholders keep their numbers.
                self._numbers[kind] = max(self._numbers[kind], int(number or 0))
            for one in self._found[text]:
                self.any = True
                value = text[one.start : one.end]
                if len(value) >= _TELLING:
                    self._values.setdefault(value, one)
        return text

    def found(self, text: str) -> bool:
        """Whether a text that was looked at holds something."""
        return bool(self._found[text])

    def replace(self, text: str) -> str:
        """The text with placeholders."""
        findings = [*self._found[text], *self._elsewhere(text)]
        findings.sort(key=lambda one: (one.start, -one.end))
        return redacted(text, findings, self._name)

    def _elsewhere(self, text: str) -> list[Finding]:
        """Places of values that another text gave away."""
        if self._pattern is None:
            longest_first = sorted(self._values, key=lambda value: (-len(value), value))
            self._pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        return [
            self._values[match.group()]._replace(start=match.start(), end=match.end())
            for match in self._pattern.finditer(text)
        ]

    def _name(self, one: Finding) -> str:
        """The placeholder of a value: its kind and a number, in the order in which values come up."""
        self.counts[one.kind] += 1
        if one.hashed not in self._names:
            self._numbers[one.kind] += 1
            self._names[one.hashed] = f"{one.kind}_{self._numbers[one.kind]}"
        return self._names[one.hashed]
