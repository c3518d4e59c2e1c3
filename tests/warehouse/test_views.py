"""The views: one row per id, the law of counts, and what breaks it."""

import json

import msgspec
import pytest

from schemas.ids import content_id, scope_hash
from schemas.rows import DeadLetter, PlanMember, Request, Ruling, RunEvent, Verdict
from schemas.vocabulary import Decision, VerdictKind
from tests.warehouse.filled import STAMP, fill, make_tasks
from warehouse import counts
from warehouse.counts import check_counts
from warehouse.lake import Lake, Stamp
from warehouse.views import VIEWS


@pytest.fixture(autouse=True, params=[200_000, 3])
def items_of_a_slice(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every law holds, and breaks, however many slices the items are counted in."""
    monkeypatch.setattr(counts, "_SLICE", request.param)


def ruling(item: str, decision: Decision, reason: str, scope: str = "", salt: str = "") -> Ruling:
    return Ruling(
        id=content_id("ruling", STAMP.fingerprint, item, scope, salt),
        item_id=item,
        stage="curate",
        decision=decision,
        reason=reason,
        scope_hash=scope,
        outputs=(item,) if decision is Decision.KEEP else (),
    )


def plan(items: list[str], scope: str = "item", run: str = "run1") -> tuple[str, dict[str, list[object]]]:
    whole = scope_hash(items)
    members = [PlanMember(id=content_id("plan", whole, item), scope_hash=whole, item_id=item) for item in items]
    event = RunEvent(
        id=content_id("run", run, whole, scope),
        event="operator",
        recipe="r",
        stage="curate",
        name="some_operator",
        scope=scope,
        scope_hash=whole,
        unit="kept",
        n_seen=len(items),
        n_in=len(items),
        n_inputs=len(items),
    )
    return whole, {"plans": [*members], "runs": [event]}


def repeat_every_row(lake: Lake) -> None:
    """What two processes without leases could do to DuckLake: every row twice."""
    con = lake.cursor()
    for table in ("tasks", "trajectories", "verdicts", "decisions", "dead_letters", "plans", "runs", "requests"):
        con.execute(f"INSERT INTO {table} SELECT * FROM {table}")
    con.close()


def test_the_funnel_counts_each_side(lake: Lake) -> None:
    fill(lake)
    line = lake.sql("select * from funnel").to_pylist()[0]
    counts = {key: line[key] for key in ("n_seen", "n_in", "n_kept", "n_dropped", "n_dead", "n_pending")}
    assert counts == {"n_seen": 20, "n_in": 20, "n_kept": 9, "n_dropped": 5, "n_dead": 2, "n_pending": 4}
    assert json.loads(line["reasons"]) == {"ok": 9, "short": 5, "torn": 2}
    assert (line["run_id"], line["stage"], line["operator"], line["unit"]) == (
        "run1",
        "curate",
        "some_operator",
        "kept",
    )
    assert check_counts(lake, "run1") == []


def test_every_view_takes_one_row_per_id(lake: Lake) -> None:
    fill(lake)
    lake.append(STAMP, {"requests": [Request(id="q", item_id="x", endpoint="e", model="m", status="ok", cost_usd=0.5)]})
    before = {name: sorted(map(str, lake.sql(f"select * from {name}").to_pylist())) for name in VIEWS}
    assert all(before.values())
    repeat_every_row(lake)
    assert lake.sql("select count(*) as n from decisions")["n"].to_pylist() == [28]
    for name, rows in before.items():
        assert sorted(map(str, lake.sql(f"select * from {name}").to_pylist())) == rows, name
    assert check_counts(lake, "run1") == []


def test_an_item_decided_both_ways_breaks_the_law(lake: Lake) -> None:
    ids = fill(lake)
    lake.append(STAMP, {"decisions": [ruling(ids[0], Decision.DROP, "changed_my_mind", salt="again")]})
    faults = check_counts(lake, "run1")
    assert len(faults) == 1
    assert "20 items in, but 9 kept + 6 dropped + 2 dead + 4 pending = 21" in faults[0]


def test_a_plan_that_lost_a_member_is_told(lake: Lake) -> None:
    _, rows = plan(["a", "b", "c"])
    lake.append(STAMP, {"plans": rows["plans"][:2], "runs": rows["runs"]})
    assert check_counts(lake, "run1") == ["curate/some_operator (entry 0): planned 3 items, the plan holds 2"]


def test_outputs_that_no_table_holds_are_told(lake: Lake) -> None:
    ids = fill(lake)
    made = Ruling(
        id="m", item_id=ids[0], stage="rollout", decision=Decision.KEEP, reason="ok", outputs=("ghost", ids[1])
    )
    _, rows = plan([ids[0]])
    event = msgspec.structs.replace(rows["runs"][0], stage="rollout", n_outputs=2)  # type: ignore[type-var]
    lake.append(Stamp("run2", "harness", "h" * 32), {"plans": rows["plans"], "runs": [event], "decisions": [made]})
    assert check_counts(lake, "run2") == ["rollout/harness: 1 outputs are in no table, such as ghost"]


def test_an_output_that_several_items_became_counts_once(lake: Lake) -> None:
    items = [f"item{number}" for number in range(20)]
    _, rows = plan(items)
    event = msgspec.structs.replace(rows["runs"][0], n_outputs=1)  # type: ignore[type-var]
    decided = [msgspec.structs.replace(ruling(item, Decision.KEEP, "ok"), outputs=("same",)) for item in items]
    lake.append(STAMP, {"plans": rows["plans"], "runs": [event], "decisions": decided})
    assert check_counts(lake, "run1") == []
    (line,) = counts.funnel_of(lake, "run1")
    (seen,) = lake.sql("select * from funnel").to_pylist()
    assert line == seen


def test_an_operator_without_eligible_items_has_a_line_too(lake: Lake) -> None:
    _, rows = plan([])
    event = msgspec.structs.replace(rows["runs"][0], n_seen=40)  # type: ignore[type-var]
    lake.append(STAMP, {"runs": [event]})
    line = lake.sql("select n_seen, n_in, n_kept, n_pending, reasons from funnel").to_pylist()
    assert line == [{"n_seen": 40, "n_in": 0, "n_kept": 0, "n_pending": 0, "reasons": "{}"}]
    assert check_counts(lake, "run1") == []


def test_a_set_is_decided_anew_when_it_changes(lake: Lake) -> None:
    small, rows = plan(["a", "b"], scope="set")
    lake.append(STAMP, rows)
    lake.append(STAMP, {"decisions": [ruling(item, Decision.KEEP, "ok", scope=small) for item in ("a", "b")]})
    large, rows = plan(["a", "b", "c"], scope="set", run="run2")
    lake.append(STAMP._replace(run_id="run2"), rows)
    by_run = "select run_id, n_kept, n_dropped, n_pending from funnel order by created_at"
    assert lake.sql(by_run).to_pylist()[1] == {"run_id": "run2", "n_kept": 0, "n_dropped": 0, "n_pending": 3}
    decided = [ruling("a", Decision.KEEP, "ok", large), *(ruling(i, Decision.DROP, "same", large) for i in "bc")]
    lake.append(STAMP._replace(run_id="run2"), {"decisions": decided})
    assert lake.sql(by_run).to_pylist() == [
        {"run_id": "run1", "n_kept": 2, "n_dropped": 0, "n_pending": 0},
        {"run_id": "run2", "n_kept": 1, "n_dropped": 2, "n_pending": 0},
    ]
    newest = lake.sql("select item_id, decision, run_id from rulings order by item_id").to_pylist()
    assert [(row["item_id"], row["decision"], row["run_id"]) for row in newest] == [
        ("a", "keep", "run2"),
        ("b", "drop", "run2"),
        ("c", "drop", "run2"),
    ]


def test_pending_items_that_a_later_run_decides_are_no_longer_pending(lake: Lake) -> None:
    _, rows = plan(["a", "b"])
    lake.append(STAMP, rows)
    dead = DeadLetter(id="d", item_id="a", stage="curate", source="s", position="0", reason="torn", retry=True)
    lake.append(STAMP, {"dead_letters": [dead]})
    counts = "select n_kept, n_dead, n_pending from funnel"
    assert lake.sql(counts).to_pylist() == [{"n_kept": 0, "n_dead": 1, "n_pending": 1}]
    lake.append(STAMP._replace(run_id="run2"), {"decisions": [ruling(item, Decision.KEEP, "ok") for item in "ab"]})
    assert lake.sql(counts).to_pylist() == [{"n_kept": 2, "n_dead": 0, "n_pending": 0}]


def test_another_operators_rulings_do_not_count(lake: Lake) -> None:
    _, rows = plan(["a", "b"])
    lake.append(STAMP, rows)
    lake.append(Stamp("run1", "other", "0" * 32), {"decisions": [ruling("a", Decision.KEEP, "ok")]})
    assert lake.sql("select n_kept, n_pending from funnel").to_pylist() == [{"n_kept": 0, "n_pending": 2}]


def test_tool_calls_find_their_results_by_id(lake: Lake) -> None:
    fill(lake, items=20)
    first = make_tasks(1)[0].id
    rows = lake.sql(f"select * from tool_calls where task_id = '{first}' order by step, position").to_pylist()
    assert [(row["step"], row["position"], row["call_id"], row["result"]) for row in rows] == [
        (1, 0, "s1c0", "first"),
        (1, 1, "s1c1", "second"),
    ]
    steps = lake.sql(f"select step, source, text, n_tool_calls from steps where task_id = '{first}' order by step")
    assert steps.to_pylist() == [
        {"step": 0, "source": "user", "text": "0 + 1 = ?", "n_tool_calls": 0},
        {"step": 1, "source": "agent", "text": "", "n_tool_calls": 2},
        {"step": 2, "source": "agent", "text": "1", "n_tool_calls": 0},
    ]


def test_lineage_leads_from_a_verdict_to_its_task(lake: Lake) -> None:
    ids = fill(lake)
    chain = lake.sql(
        "with recursive up as (select parent_id from lineage where id = ? union "
        "select above.parent_id from lineage as above join up on above.id = up.parent_id) select * from up",
        params=[content_id("verdict", ids[3])],
    )
    assert set(chain["parent_id"].to_pylist()) == {ids[3], make_tasks(1, start=3)[0].id}


def test_pass_rates_take_the_newest_verdict(lake: Lake) -> None:
    ids = fill(lake)
    rate = "select teacher, model, task_kind, verifier, n, n_pass, pass_rate from pass_rates"
    assert lake.sql(rate).to_pylist() == [
        {
            "teacher": "local",
            "model": "small",
            "task_kind": "arithmetic",
            "verifier": "answer",
            "n": 20,
            "n_pass": 10,
            "pass_rate": 0.5,
        }
    ]
    corrected = Verdict(id="v2", trajectory_id=ids[0], verifier="answer", kind=VerdictKind.PASS, reward=1.0)
    broken = Verdict(id="v3", trajectory_id=ids[1], verifier="answer", kind=VerdictKind.INFRASTRUCTURE)
    lake.append(STAMP, {"verdicts": [corrected, broken]})
    # One fail became a pass; an infrastructure error is no judgement.
    assert lake.sql("select n, n_pass from pass_rates").to_pylist() == [{"n": 19, "n_pass": 10}]


def test_cost_adds_up_what_was_paid(lake: Lake) -> None:
    calls = [
        Request(id="1", item_id="a", endpoint="e", model="m", status="ok", prompt_tokens=5, cost_usd=0.25),
        Request(id="2", item_id="a", endpoint="e", model="m", status="ok", cached=True, cost_usd=0.25),
        Request(id="3", item_id="b", endpoint="e", model="m", status="http_500", attempts=3),
    ]
    lake.append(STAMP, {"requests": calls})
    line = lake.sql("select calls, cached, failed, attempts, prompt_tokens, cost_usd from cost").to_pylist()
    assert line == [{"calls": 3, "cached": 1, "failed": 1, "attempts": 5, "prompt_tokens": 5, "cost_usd": 0.25}]


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_works_on_an_empty_lake(lake: Lake, view: str) -> None:
    assert lake.sql(f"select * from {view}").num_rows == 0
