"""Placeholders stand wherever a secret or a person's data stood, and nothing of them is left or claimed."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from hypothesis import given as each
from hypothesis import settings
from hypothesis import strategies as st

from schemas.errors import UserError
from schemas.rows import TokenSpan
from schemas.trajectory import (
    Outcome,
    Part,
    Policy,
    Provenance,
    Step,
    ToolCall,
    ToolResult,
    Trajectory,
    text_of,
    text_part,
)
from schemas.vocabulary import ArgumentState, PartType, Source, Stage
from tasks.curate.risk import Kind, find
from tasks.operator import WorkingSet
from tasks.pages import with_pages, without_pages
from tasks.refine.refiner.redact_personal_data import _Search
from tasks.texts import changed
from warehouse.lake import Lake

pytest.importorskip("detect_secrets")

ANN, BOB, CARD = "ann.other@company.org", "bob@company.org", "4111 1111 1111 1111"
TOKEN = "ghp_" + "Ab1" * 12
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\r\nb3BlbnNz\r\nQyNTUxOQ==\r\n-----END OPENSSH PRIVATE KEY-----"
ENTRY = {"use": "redact_personal_data"}
ALL: tuple[Kind, ...] = ("secret", "email", "phone", "card", "iban", "ssn")


def risky() -> Trajectory:
    """Personal data in every place that a trajectory has for text."""
    arguments = json.dumps({"to": [ANN, "me@example.com"], "card": int(CARD.replace(" ", "")), "n": 3, BOB: None})
    call = ToolCall(id="s2c0", name="send", arguments=arguments, arguments_json=arguments)
    broken = ToolCall(id="s2c1", name="send", arguments=f'{{"to": "{BOB}', state=ArgumentState.TRUNCATED)
    result = ToolResult(
        call_id="s2c0", content=text_part(f"git clone https://x:pw1@host.org with {TOKEN}\n{KEY}\npw1x")
    )
    return Trajectory(
        id="risky",
        task_id="task",
        parents=("task",),
        steps=(
            Step(
                source=Source.USER, content=text_part(f"Write to {ANN}."), extra_json=json.dumps({"by": BOB, "at": 1})
            ),
            Step(source=Source.AGENT, content=text_part("Nothing of note."), reasoning="no one"),
            Step(source=Source.AGENT, reasoning=f"{BOB} pays by {CARD}", tool_calls=(call, broken), results=(result,)),
            Step(source=Source.AGENT, content=text_part(f"I wrote to {ANN} and used {TOKEN}.")),
        ),
        policy=Policy(teacher="t"),
        outcome=Outcome(success=True, raw_json=json.dumps({"note": ANN})),
        extra_json=json.dumps({"owner": {"mail": BOB}}),
    )


def test_every_place_is_redacted_and_the_parent_kept(store: Callable[..., None], run_entry: Callable[..., Any]) -> None:
    plain = Trajectory(id="plain", steps=(Step(source=Source.AGENT, content=text_part("fine, me@example.com")),))
    store(trajectories=[risky(), plain])
    inputs = WorkingSet(trajectories=("risky", "plain"))
    ran = run_entry(Stage.REFINE, ENTRY, inputs)
    assert ran.report.reasons == {"redacted": 1, "unchanged:nothing_found": 1}
    new, same = ran.ctx.lake.trajectories(ran.after.trajectories)
    assert same.id == "plain"
    assert new.parents == ("task", "risky")
    assert (new.task_id, new.outcome.success) == ("task", True)
    text = msgspec.json.encode(new).decode()
    for value in (ANN, BOB, CARD, CARD.replace(" ", ""), TOKEN, "b3BlbnNz", ":pw1@"):
        assert value not in text
    user, calm, acting, last = new.steps
    assert text_of(user.content) == "Write to <email_1>."
    assert user.extra_json == '{"at":1,"by":"<email_2>"}'
    assert calm == risky().steps[1]
    assert acting.reasoning == "<email_2> pays by <card_1>"
    sent, broken = acting.tool_calls
    wanted = {"to": ["<email_1>", "me@example.com"], "card": "<card_2>", "n": 3, "<email_2>": None}
    assert json.loads(sent.arguments) == json.loads(sent.arguments_json or "") == wanted
    assert (broken.arguments, broken.arguments_json) == ('{"to": "<email_2>', None)
    # A password is replaced where it stands in an address; so short a word elsewhere is none.
    assert (
        text_of(acting.results[0].content)
        == "git clone https://x:<secret_1>@host.org with <secret_2>\n<secret_3>\npw1x"
    )
    assert text_of(last.content) == "I wrote to <email_1> and used <secret_2>."
    assert json.loads(new.extra_json or "") == {"owner": {"mail": "<email_2>"}}
    decided = ran.ctx.lake.sql("select evidence_json from decisions where reason = 'redacted'").to_pylist()
    assert json.loads(decided[0]["evidence_json"]) == {
        "found": {"card": 2, "email": 9, "secret": 4},
        "steps": [0, 2, 3],
    }
    again = run_entry(Stage.REFINE, ENTRY, ran.after)
    assert again.report.reasons == {"unchanged:nothing_found": 2}
    assert again.after == ran.after


ESCAPED = json.dumps({"to": TOKEN}).replace("_", "\\u005f")
PLACES: dict[str, Callable[[str], Any]] = {
    "extra": lambda v: {"extra_json": json.dumps({"k": [v]})},
    "outcome": lambda v: {"outcome": Outcome(raw_json=json.dumps({v: 1}))},
    "tools": lambda v: {"tool_sets": (json.dumps([{"description": v}]),)},
    "source_id": lambda v: {"source_id": v},
    "provenance": lambda v: {"provenance": Provenance(file=f"logs/{v}.json", record=v, lost_fields=(f"x {v}",))},
    "policy": lambda v: {"policy": Policy(harness=v)},
    "step": lambda v: step(name=v, model=v, extra_json=json.dumps({"k": v})),
    "call": lambda v: step(tool_calls=(ToolCall(id=v, name=v, source_id=v),)),
    "arguments": lambda v: step(tool_calls=(ToolCall(id="a", name="f", arguments="{}", arguments_json=f'["{v}"]'),)),
    "raw arguments": lambda v: step(tool_calls=(ToolCall(id="a", name="f", arguments=v, arguments_json="{}"),)),
    "escaped": lambda v: step(tool_calls=(ToolCall(id="a", name="f", arguments=ESCAPED),)),
    "twice": lambda v: step(tool_calls=(ToolCall(id="a", name="f", arguments=f'{{"k":"{v}","k":1}}'),)),
    "result": lambda v: step(results=(ToolResult(source_call_id=v, name=v),)),
    "address": lambda v: step(content=(Part(type=PartType.IMAGE, uri=f"https://x.org/y.png?token={v}"),)),
}


def step(**fields: Any) -> dict[str, Any]:
    return {"steps": (Step(source=Source.AGENT, **fields),)}


@pytest.mark.parametrize("where", PLACES)
def test_every_text_of_a_trajectory_is_looked_at(
    where: str, store: Callable[..., None], run_entry: Callable[..., Any]
) -> None:
    old = Trajectory(id="old", **{"steps": (Step(source=Source.USER),), **PLACES[where](TOKEN)})
    store(trajectories=[old])
    inputs = WorkingSet(trajectories=("old",))
    judged = run_entry(Stage.CURATE, {"use": "data_risk"}, inputs)
    assert judged.report.reasons == {"secret": 1}
    ran = run_entry(Stage.REFINE, ENTRY, inputs)
    assert ran.report.reasons == {"redacted": 1}
    [new] = ran.ctx.lake.trajectories(ran.after.trajectories)
    text = msgspec.json.encode(new).decode()
    assert "<secret_1>" in text and "<secret_2>" not in text
    assert TOKEN not in text and TOKEN[4:] not in text


def test_a_value_that_its_name_gives_away_is_replaced_in_json() -> None:
    password = "Zz9" + "kkqq" * 3
    kept = json.dumps({"db": {"password": password, "user": "bob"}})
    search = _Search(ALL)
    one = Trajectory(id="t", steps=(), extra_json=kept)
    changed(one, search.look, search.look)
    assert json.loads(changed(one, search.replace).extra_json or "") == {
        "db": {"password": "<secret_1>", "user": "bob"}
    }


def test_only_the_kinds_asked_for(store: Callable[..., None], run_entry: Callable[..., Any]) -> None:
    store(trajectories=[risky()])
    ran = run_entry(Stage.REFINE, {**ENTRY, "kinds": ["card"]}, WorkingSet(trajectories=("risky",)))
    (new,) = ran.ctx.lake.trajectories(ran.after.trajectories)
    assert (ANN in str(new), CARD in str(new)) == (True, False)
    with pytest.raises(UserError, match="at least one kind"):
        run_entry(Stage.REFINE, {**ENTRY, "kinds": []})


def test_no_token_counts_as_sampled(
    store: Callable[..., None], run_entry: Callable[..., Any], given: SimpleNamespace, tmp_path: Path
) -> None:
    from tasks.client.token_identity import tokenizer_sha256
    from tasks.emit.tokenizer import ChatTokenizer

    given.train_tokenizer(tmp_path / "tokenizer", "qwen2_5.jinja")
    tokenizer = ChatTokenizer.load(tmp_path / "tokenizer")
    old = given.chat("Who is it?", f"It is {ANN}.")
    prompt = tuple(tokenizer.backend.encode("Who is it?").ids)
    said = tuple(tokenizer.backend.encode(f"It is {ANN}.").ids)
    span = TokenSpan(
        id="span",
        trajectory_id=old.id,
        step=1,
        prompt_token_ids=prompt,
        completion_token_ids=said,
        finish_reason="stop",
        tokenizer_sha256=tokenizer_sha256(tokenizer.backend.to_str()),
    )
    store(trajectories=[old], token_spans=[span])
    sources: list[tuple[str, bool]] = []
    for after in (inputs := WorkingSet(trajectories=(old.id,)), run_entry(Stage.REFINE, ENTRY, inputs).after):
        name = f"tokens{len(sources)}"
        entry = {"use": "tokens", "tokenizer": str(tmp_path / "tokenizer"), "name": name}
        ran = run_entry(Stage.EMIT, entry, after)
        (row,) = pq.read_table(ran.ctx.out / name / "data" / "train-00000.parquet").to_pylist()
        sources.append((row["token_source"], ANN in tokenizer.backend.decode(row["input_ids"])))
    assert sources == [("sampled", True), ("retokenized", False)]


def test_a_redacted_answer_is_verified_again(
    store: Callable[..., None], run_entry: Callable[..., Any], given: SimpleNamespace
) -> None:
    task = given.task("Whose address is it?", use="answer_check", spec=json.dumps({"answers": [ANN]}))
    old = given.chat("Whose address is it?", ANN, task=task.id)
    store(tasks=[task], trajectories=[old])
    inputs = WorkingSet(tasks=(task.id,), trajectories=(old.id,))
    after = run_entry(Stage.REFINE, ENTRY, inputs).after
    kinds = []
    for working in (inputs, after):
        ran = run_entry(Stage.VERIFY, {"use": "answer_check"}, working)
        (ref,) = working.trajectories
        kinds += [verdict.kind.value for verdict in ran.ctx.lake.verdicts([ref])[ref]]
    assert kinds == ["pass", "fail"]


def test_web_pages_are_redacted_where_they_lie(
    store: Callable[..., None], run_entry: Callable[..., Any], lake: Lake
) -> None:
    def page(text: str) -> Part:
        return Part(text=text, media_type="text/html")

    one = Trajectory(
        id="pages",
        steps=(
            Step(source=Source.ENVIRONMENT, content=(page("<p>A page about nothing.</p>" * 20),)),
            Step(source=Source.ENVIRONMENT, content=(page(f"<p>Write to {ANN}!</p>" * 20),)),
            Step(source=Source.AGENT, content=text_part("Read.")),
        ),
    )
    old = without_pages(one, lake)
    assert ANN not in str(old)
    gone = msgspec.structs.replace(old.steps[1].content[0], sha256="0" * 64)
    lost = msgspec.structs.replace(old, id="lost", steps=(Step(source=Source.ENVIRONMENT, content=(gone,)),))
    store(trajectories=[old, lost])
    ran = run_entry(Stage.REFINE, ENTRY, WorkingSet(trajectories=("pages", "lost")))
    assert ran.report.reasons == {"redacted": 1, "unchanged:blob_missing": 1}
    new = ran.ctx.lake.trajectories(ran.after.trajectories)[0]
    assert (new.steps[0], new.steps[2]) == (old.steps[0], old.steps[2])
    assert text_of(new.steps[1].content) == ""
    assert text_of(with_pages(new, lake).steps[1].content) == "<p>Write to <email_1>!</p>" * 20


def test_the_address_of_a_stored_page_is_looked_at(
    store: Callable[..., None], run_entry: Callable[..., Any], lake: Lake
) -> None:
    page = Part(text="<p>fine</p>", media_type="text/html", uri=f"https://x.org/?token={TOKEN}")
    old = without_pages(Trajectory(id="old", steps=(Step(source=Source.ENVIRONMENT, content=(page,)),)), lake)
    store(trajectories=[old])
    inputs = WorkingSet(trajectories=("old",))
    assert run_entry(Stage.CURATE, {"use": "data_risk"}, inputs).report.reasons == {"secret": 1}
    ran = run_entry(Stage.REFINE, ENTRY, inputs)
    [new] = ran.ctx.lake.trajectories(ran.after.trajectories)
    assert TOKEN not in str(new)
    assert text_of(with_pages(new, lake).steps[0].content) == "<p>fine</p>"


parts = st.sampled_from(
    [ANN, BOB, TOKEN, CARD, KEY, "https://u:secret99@h.org", "+49 30 1234 5678", "<email_1>", "a", " ", "\n"]
)


@settings(max_examples=60, deadline=None)
@each(st.lists(st.lists(parts, max_size=5).map(" ".join), min_size=1, max_size=4))
def test_nothing_is_found_in_what_was_redacted(texts: list[str]) -> None:
    one = Trajectory(id="t", steps=tuple(Step(source=Source.USER, content=text_part(text)) for text in texts))
    search = _Search(ALL)
    assert changed(one, search.look, search.look) == one
    new = changed(one, search.replace)
    for step, text in zip(new.steps, texts, strict=True):
        assert find(text_of(step.content), ALL) == []
        # What nobody asked to hide stays.
        assert text_of(step.content).count("a") >= text.split().count("a")
    assert search.any == (new != one)
