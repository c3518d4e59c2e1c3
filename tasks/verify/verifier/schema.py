"""Checks a JSON answer against a JSON Schema, in three steps worth more and more: parse < valid < semantic.

A task's specification (JSON): {"schema": {…}, "expected": {…}}; `expected` is optional, and compared as data.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from schemas.errors import RecordError
from schemas.task import Task
from schemas.trajectory import Base
from schemas.vocabulary import VerdictKind
from tasks.verify.answers.compare import equal
from tasks.verify.answers.extract import json_text
from tasks.verify.base import Judgement, Verifier, failed, passed, spec_of, unparsable
from tasks.verify.ranges import Tolerance
from tasks.verify.workers.worker import WorkerDied, WorkerFailed, WorkerTimeout, pool

if TYPE_CHECKING:
    from tasks.context import Context

_LONGEST = 200_000


class Spec(Base, frozen=True):
    """The schema (draft 2020-12 unless it names another) and, where only one answer is right, that answer."""

    schema: dict[str, Any]
    expected: Any = msgspec.UNSET
    tolerance: Tolerance | None = None


class Schema(Verifier, frozen=True, kw_only=True):
    """Parses, validates, compares. Only an answer that holds in every step passes.

    parse_reward, valid_reward: what an answer gets that is JSON but not valid, or valid but not the expected one.
    timeout_s: for one validation (a pattern in a schema may take forever on a hostile text).
    """

    parse_reward: float = 0.0
    valid_reward: float = 0.0
    timeout_s: float = 10.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.parse_reward <= self.valid_reward <= 1.0:
            raise ValueError("0 <= parse_reward <= valid_reward <= 1 must hold")

    def judge(self, task: Task, completion: str, ctx: "Context") -> Judgement:
        """The first step that fails decides."""
        spec = spec_of(task, Spec)
        text = json_text(completion)
        if text is None or len(text) > _LONGEST:
            return unparsable("no_json")
        try:
            value = msgspec.json.decode(text)
        except (msgspec.MsgspecError, RecursionError) as error:
            return unparsable("not_json", {"detail": str(error)[:300]})
        try:
            faults = pool("tasks.verify.workers.json_schema:faults").call([spec.schema, value], self.timeout_s)
        except WorkerTimeout:
            return Judgement(VerdictKind.TIMEOUT, 0.0, "validation_timeout")
        except WorkerFailed as error:
            if str(error).startswith(("SchemaError", "_WrappedReferencingError")):
                raise RecordError("bad_spec", f"schema: {error}") from error
            return failed("validation_error", {"detail": str(error)})
        except WorkerDied:
            return Judgement(VerdictKind.MEMORY, 0.0, "validator_died")
        if faults:
            return failed("invalid", {"faults": faults}, self.parse_reward)
        if spec.expected is not msgspec.UNSET and not equal(spec.expected, value, spec.tolerance):
            return failed("wrong_value", {"got": json.dumps(value)[:300]}, self.valid_reward)
        return passed()

    def cheats(self, task: Task) -> Mapping[str, str]:
        """Nothing, and the values that are easiest to write."""
        return {"empty": "", "null": "null", "object": "{}", "list": "[]"}
