"""Real samples, read raw: every record becomes a trajectory, with its outcome, and nothing is invented.

They lie outside of the repository (GRISTMILL_SAMPLES, else ../shared/data); without them these tests are skipped.
"""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from schemas.vocabulary import Stage
from tasks.emit.format import adp
from tasks.pages import with_pages

ROOT = Path(__file__).parents[3]
SAMPLES = Path(os.environ.get("GRISTMILL_SAMPLES", ROOT.parent / "shared" / "data")) / "adp-samples"
pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the samples are not here")

CHAT = {"use": "openai_chat"}
ENTRIES: dict[str, dict[str, Any]] = {
    "agenttuning_alfworld": {**CHAT, "calls": ["react:ACTION"], "observation": [""]},
    "agenttuning_os": {**CHAT, "calls": ["fenced:bash", "react:Act"], "observation": ["The output of the OS:\n?"]},
    "code_feedback": {
        **CHAT,
        "calls": ["fenced:python"],
        "observation": ["Execution result: ?\n?"],
        "only_observed": True,
    },
    "codeactinstruct": {**CHAT, "calls": ["execute"], "observation": ["Observation:\n?"]},
    "eto": {"use": "sharegpt", "calls": ["react"], "observation": ["Observation: ?\n?"]},
    "mini-coder": {**CHAT, "calls": ["fenced:bash"], "observation": ["(?=<returncode>)"]},
    "nebius_SWE-agent-trajectories": {
        **CHAT,
        "calls": ["fenced:bash"],
        "observation": [""],
        "roles": {"ai": "agent"},
        "content_key": "text",
        "more_content": ["system_prompt"],
        "weight_key": "mask",
        "success_field": "target",
    },
    "nnetnav-wa": {**CHAT, "calls": ["fenced:browser"], "action_space": "browser"},
    "orca_agentinstruct": CHAT,
    "swe-play-trajectories": {
        **CHAT,
        "calls": ["function_xml"],
        "observation": [r"EXECUTION RESULT of \[(?P<name>[^\]]*)\]:\n?"],
    },
    "swe-smith": {**CHAT, "calls": ["function_xml"], "observation": ["(?:OBSERVATION|Observation):[ \n]?"]},
    "synatra": {
        "use": "mapping",
        "columns": [{"at": "prompt", "source": "user"}, {"at": "response", "source": "agent"}],
        "turns": {"calls": ["code:python"]},
    },
    "toucan_1_5m": CHAT,
}
OUTCOME = {
    "eto": "reward",
    "mini-coder": "verified",
    "nebius_SWE-agent-trajectories": "target",
    "swe-smith": "resolved",
}


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_raw_records_come_over_with_their_outcomes(name: str, run_entry: Any) -> None:
    raw = json.loads((SAMPLES / name / "sample_raw.json").read_text())
    entry = {**ENTRIES[name], "paths": [str(SAMPLES / name / "sample_raw.json")], "dataset": name}
    ran = run_entry(Stage.NORMALIZE, entry)
    assert (ran.report.n_in, ran.report.n_kept, ran.report.n_dead) == (len(raw), len(raw), 0)
    rows = ran.ctx.lake.trajectories(ran.after.trajectories)
    field = OUTCOME.get(name)
    given = Counter(json.dumps(record[field]) if field else None for record in raw)
    found = Counter(
        json.dumps(json.loads(row.outcome.raw_json)[field]) if row.outcome.raw_json and field else None for row in rows
    )
    assert found == given
    text = "\n".join(json.dumps(record) for record in raw)
    for row in rows:
        for step in row.steps:
            for call in step.tool_calls:
                assert json.dumps(call.arguments)[1:-1] in text, "an argument that the source does not have"
            for result in step.results:
                assert all(json.dumps(part.text)[1:-1] in text for part in result.content)


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_standardized_records_come_back_equal(name: str, run_entry: Any) -> None:
    file = SAMPLES / name / "sample_std.json"
    ran = run_entry(Stage.NORMALIZE, {"use": "adp", "paths": [str(file)]})
    records = {record["id"]: record for record in json.loads(file.read_text())}
    assert ran.report.n_kept == ran.report.n_in == len(records)
    for row in ran.ctx.lake.trajectories(ran.after.trajectories):
        # Web pages lie in the blob folder; an exporter brings them back before it writes.
        written, record = adp.write(with_pages(row, ran.ctx.lake)), records[row.source_id]
        said = [
            [{k: v for k, v in item.items() if v is not None} for item in one["content"]] for one in (written, record)
        ]
        assert said[0] == said[1] and written["details"] == record["details"]


def test_loss_masks_become_weights(run_entry: Any) -> None:
    name = "nebius_SWE-agent-trajectories"
    ran = run_entry(Stage.NORMALIZE, {**ENTRIES[name], "paths": [str(SAMPLES / name / "sample_raw.json")]})
    rows = ran.ctx.lake.trajectories(ran.after.trajectories)
    assert {step.weight for row in rows for step in row.steps if step.source == "agent"} == {1.0}
