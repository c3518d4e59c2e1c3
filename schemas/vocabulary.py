"""Fixed vocabularies, one word per concept, shared by every stage."""

from enum import StrEnum


class Stage(StrEnum):
    """The stages of the way of the data, in order."""

    SYNTHESIZE = "synthesize"
    ROLLOUT = "rollout"
    NORMALIZE = "normalize"
    VERIFY = "verify"
    REFINE = "refine"
    LABEL = "label"
    CURATE = "curate"
    PAIR = "pair"
    EMIT = "emit"
    TRAIN = "train"


class Kind(StrEnum):
    """Kinds of plug-in; a plug-in lives at tasks/<stage>/<kind>/<id>.py."""

    SYNTHESIZER = "synthesizer"
    TEACHER = "teacher"
    ENVIRONMENT = "environment"
    HARNESS = "harness"
    IMPORTER = "importer"
    VERIFIER = "verifier"
    REFINER = "refiner"
    LABELER = "labeler"
    SELECTOR = "selector"
    PAIRER = "pairer"
    EXPORTER = "exporter"
    TRAINER = "trainer"


class Scope(StrEnum):
    """What a decision depends on: the item alone, its group (one task), or the whole set."""

    ITEM = "item"
    GROUP = "group"
    SET = "set"


class Decision(StrEnum):
    """What an operator decided about one planned work item."""

    KEEP = "keep"
    DROP = "drop"


class Source(StrEnum):
    """Who speaks in a step."""

    SYSTEM = "system"
    USER = "user"
    AGENT = "agent"
    ENVIRONMENT = "environment"


class PartType(StrEnum):
    """Media of a content part."""

    TEXT = "text"
    IMAGE = "image"
    AUDIO = "audio"
    VIDEO = "video"
    FILE = "file"


class ArgumentState(StrEnum):
    """How a tool call's raw argument text relates to JSON; it is never repaired silently."""

    PARSED = "parsed"
    UNPARSED = "unparsed"
    TRUNCATED = "truncated"


class PairedBy(StrEnum):
    """How a tool result found its call."""

    ID = "id"
    ORDER = "order"
    NAME = "name"
    NONE = "none"


class ActionSpace(StrEnum):
    """How the agent acts."""

    MESSAGE = "message"
    FUNCTION = "function"
    CODE = "code"
    BROWSER = "browser"
    GUI = "gui"


class VerdictKind(StrEnum):
    """What a verifier concluded; an infrastructure error and judgements that disagree (disputed) are never a reward."""

    PASS = "pass"  # noqa: S105 - a verdict, not a password
    FAIL = "fail"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    INFRASTRUCTURE = "infrastructure"
    REFUSED = "refused"
    UNPARSABLE = "unparsable"
    DISPUTED = "disputed"


# Kinds that say nothing about an answer and carry no reward.
NO_JUDGEMENT = frozenset({VerdictKind.INFRASTRUCTURE, VerdictKind.DISPUTED})


class Trust(StrEnum):
    """Where a verdict was reached: compared in the trusted process, beside the candidate's code, or by a model."""

    OUTSIDE = "outside"
    INSIDE = "inside"
    MODEL = "model"
