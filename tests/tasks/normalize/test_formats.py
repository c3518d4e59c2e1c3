"""One small file of every format: what it says comes over, nothing else does, and its format is recognised."""

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import UserError
from schemas.trajectory import Trajectory
from schemas.vocabulary import Kind, Stage
from tasks.normalize.guessing.guess import guess
from tasks.registry import plugin_ids

EXAMPLES = Path(__file__).parent / "examples"
FILES = sorted(path for path in EXAMPLES.iterdir() if path.suffix != ".toml")

# Every trajectory as its steps: who speaks, the calls in brackets, the results after a slash.
SHAPES = {
    "adp": ["user agent[bash]/1 agent[open_page]/1 agent"],
    "anthropic_messages": ["system user agent[add]/1 user agent"],
    "atif": ["user agent[delegate]/1 environment/1 agent", "agent"],
    "chat_template": ["system user agent[add]/1 agent", "user agent"],
    "claude_code": ["user agent user agent[Task]/1 agent", "user agent user agent", "user agent"],
    "codex": ["system user agent[shell]/1 agent"],
    "inspect_log": ["system user agent[add]/1 agent"],
    "langsmith": ["user agent[add]/1 agent"],
    "mapping": ["user agent[add]/1 agent"],
    "mini_swe_agent": ["system user agent[bash]/1 agent[bash]/1"],
    "nemo_gym": ["user agent[add]/1 agent"],
    "openai_chat": ["system user agent[add,add]/2 agent"],
    "openai_responses": ["system user agent[add]/1 agent[web_search]/1 agent"],
    "openhands": ["system user agent[execute_bash,execute_bash]/2 agent[finish]"],
    "openhands_sdk": ["system user agent[terminal,terminal]/2 agent"],
    "otel_genai": ["system user agent[add]/1 agent", "system user agent"],
    "sharegpt": ["system user agent[add]/1 agent", "system user agent[add]/1 agent"],
    "sweagent": ["system user user agent[bash]/1 agent[submit]/1"],
    "verifiers": ["user agent", "user agent[add]/1 agent", "user agent[add]/1 agent"],
    "xlam": ["user agent[add]", "system user agent[add]/1"],
}

LOST = {
    "adp": {"media shots/1.png: not_found"},
    "atif": {"media a.png: not_found"},
    "claude_code": {"lines.summary", "lines.toolUseResult"},
    "codex": {"lines.event_msg.user_message"},
    "inspect_log": {"events"},
    "langsmith": {"runs.tool.inputs", "runs.tool.outputs"},
    "openai_responses": {"messages[].content[].annotations"},
    "openhands": {"events.agent_state_changed", "events.recall", "events.run.extras"},
    "openhands_sdk": {"events.ConversationStateUpdateEvent"},
    "otel_genai": {
        "attributes.gen_ai.tool.name",
        "spans.resourceSpans[].resource",
        "spans.resourceSpans[].scopeSpans[].spans[].name",
        "spans.resourceSpans[].scopeSpans[].spans[].spanId",
    },
    "sweagent": {"messages[].agent", "trajectory[].execution_time", "trajectory[].state"},
}

OUTCOMES = {
    "adp": [(False, None)],
    "atif": [(None, 1.0), (None, None)],
    "chat_template": [(None, 1.0), (None, None)],
    "inspect_log": [(False, 0.0)],
    "langsmith": [(None, 1.0)],
    "mapping": [(True, 3.0)],
    "nemo_gym": [(None, 1.0)],
    "openai_chat": [(True, 1.0)],
    "sharegpt": [(None, 0.0), (None, None)],
    "verifiers": [(None, 1.0), (None, 1.0), (None, 1.0)],
}


def entry_of(path: Path) -> dict[str, Any]:
    more = {"map": str(EXAMPLES / "mapping.toml")} if path.stem == "mapping" else {}
    return {"use": path.stem, "paths": [str(path)], **more}


def shape(trajectory: Trajectory) -> str:
    words = []
    for step in trajectory.steps:
        calls = f"[{','.join(call.name for call in step.tool_calls)}]" if step.tool_calls else ""
        words.append(f"{step.source}{calls}" + (f"/{len(step.results)}" if step.results else ""))
    return " ".join(words)


def test_every_importer_has_an_example() -> None:
    assert plugin_ids(Kind.IMPORTER) == sorted(SHAPES) == [path.stem for path in FILES]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_example(path: Path, run_entry: Any) -> None:
    ran = run_entry(Stage.NORMALIZE, entry_of(path))
    assert ran.report.n_dead == ran.report.n_pending == ran.report.n_dropped == 0
    found = ran.ctx.lake.trajectories(ran.after.trajectories)
    assert [shape(row) for row in found] == SHAPES[path.stem]
    assert {name for row in found for name in row.provenance.lost_fields} == LOST.get(path.stem, set())
    outcomes = [(row.outcome.success, row.outcome.score) for row in found]
    assert outcomes == OUTCOMES.get(path.stem, [(None, None)] * len(found))
    for row in found:
        calls = {call.id: call for step in row.steps for call in step.tool_calls}
        answered = [result.call_id for step in row.steps for result in step.results if result.call_id]
        assert len(answered) == len(set(answered)) and set(answered) <= set(calls)
        for call in calls.values():
            assert json.loads(call.arguments_json or "null") is not None
            assert call.id_generated == (call.source_id is None)


@pytest.mark.parametrize("path", [p for p in FILES if p.stem != "mapping"], ids=lambda path: path.stem)
def test_guess(path: Path) -> None:
    assert guess(path).format == path.stem


def test_guess_says_what_it_saw_when_nothing_fits() -> None:
    with pytest.raises(UserError, match="engine"):
        guess(EXAMPLES / "mapping.jsonl")


def test_branches_and_side_chains_are_linked(run_entry: Any) -> None:
    ran = run_entry(Stage.NORMALIZE, entry_of(EXAMPLES / "claude_code.jsonl"))
    main, branch, side = ran.ctx.lake.trajectories(ran.after.trajectories)
    assert (branch.parents, branch.branch_point) == ((main.id,), 2)
    assert [(link.step, link.trajectory_id, link.call_id) for link in main.subagents] == [(3, side.id, "s3c0")]


def test_token_spans_belong_to_their_step(run_entry: Any) -> None:
    ran = run_entry(Stage.NORMALIZE, entry_of(EXAMPLES / "verifiers.jsonl"))
    spans = ran.ctx.lake.token_spans(ran.after.trajectories)
    whole = spans[ran.after.trajectories[1]]
    assert [(span.step, span.prompt_token_ids, span.completion_token_ids) for span in whole] == [
        (1, (1, 2, 3), (4, 5)),
        (2, (1, 2, 3, 4, 5, 6, 7), (8,)),
    ]
    assert whole[0].completion_logprobs == (-0.1, -0.2)


def test_a_session_cut_in_its_last_line_is_read_and_says_so(tmp_path: Path, run_entry: Any) -> None:
    lines = (EXAMPLES / "codex.jsonl").read_text()
    (tmp_path / "cut.jsonl").write_text(lines[:-40])
    ran = run_entry(Stage.NORMALIZE, {"use": "codex", "paths": ["cut.jsonl"]})
    [row] = ran.ctx.lake.trajectories(ran.after.trajectories)
    assert "line 9: cut_line" in row.provenance.lost_fields
    assert shape(row) == "system user agent[shell]/1"
