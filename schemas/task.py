"""A task: what is asked, how it is checked, and where it comes from."""

from schemas.trajectory import Base, Provenance


class Message(Base, frozen=True, kw_only=True):
    """One message of a prompt; role is system, user or assistant."""

    role: str
    content: str


class VerifierSpec(Base, frozen=True, kw_only=True):
    """Which verifier judges the task (`use`, a Verifier id) and what it needs, as JSON text.

    `spec_json` never reaches a model or the inside of a jail as a whole: a verifier sends inputs only.
    """

    use: str
    spec_json: str = "{}"


class Task(Base, frozen=True, kw_only=True):
    """A prompt with its verifier, gold solution and provenance; the id is a content hash.

    `kind` names the family (arithmetic, code, …) for reports; `gold` is a solution in the form a policy would
    answer; `tools_json` a JSON list of tool schemas; `environment_json` names an Environment and its options.
    """

    id: str
    kind: str
    prompt: tuple[Message, ...]
    verifier: VerifierSpec
    gold: str | None = None
    tools_json: str | None = None
    environment_json: str | None = None
    difficulty: float | None = None
    name: str | None = None
    parents: tuple[str, ...] = ()
    provenance: Provenance = Provenance()
