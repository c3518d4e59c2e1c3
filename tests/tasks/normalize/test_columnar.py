"""The bulk reader against the reference reader: for any batch the same rows, outcomes and dead letters, in order."""

import importlib.util
import json
import os
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.vocabulary import Kind, Stage
from tasks.normalize.base import Importer
from tasks.normalize.columnar import compiled as kernels
from tasks.normalize.columnar.compiled import compiled
from tasks.normalize.columnar.observe import words_of_patterns
from tasks.normalize.columnar.reader import batch_of
from tasks.normalize.columnar.result import read_batch
from tasks.normalize.columnar.scan import scan
from tasks.normalize.columnar.steps import assemble, observe
from tasks.normalize.columnar.warm import warm
from tasks.normalize.dialect import observation_of
from tasks.operator import WorkingSet
from tasks.registry import build
from warehouse.arrow import to_arrow

HERE = Path(__file__).parent


def sibling(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


fuzz, samples = sibling("test_fuzz"), sibling("test_samples")

CHAT = {"use": "openai_chat"}
ENTRIES: list[dict[str, Any]] = [
    CHAT,
    {**CHAT, "calls": ["function_xml"], "observation": ["OBSERVATION:\n?", "(?P<name>[a-z]+)!"]},
    {**CHAT, "calls": ["fenced:python", "code:sql"], "observation": ["Execution result: ?\n?"], "only_observed": True},
    {**CHAT, "calls": ["fenced", "react:Act"], "observation": ["(?:Obs|obs):[ \n]?", ""], "drop_fields": ["x"]},
    {**CHAT, "calls": ["react"], "observation": [r"Obs (?P<name>\w+): (?P<content>.*)"], "success_field": "x"},
    {**CHAT, "calls": ["execute", "hermes"], "observation": ["(?=<out>)"], "roles": {"bot": "agent"}},
    {**CHAT, "calls": ["execute:run"], "think": True, "observation": ["é ?"], "action_space": "browser"},
    {**CHAT, "role_key": "from", "content_key": "value", "messages_field": "turns", "licence": "mit"},
    {"use": "sharegpt"},
    {"use": "sharegpt", "calls": ["react", "function_xml"], "observation": ["Obs: ?"], "dataset": "d", "split": "s"},
    {
        "use": "mapping",
        "record": {"id": "id", "model": "x", "licence": "model", "score": "reward"},
        "turns": {"at": "messages", "roles": {"boss": "user"}, "calls": ["code"], "observation": [""]},
    },
]
PIECES = [
    "", "a", " ", "\n", "\r\n", "\t* ", "é", "\u00a0", "\u3000", "\u2028", "𝄞", '"', "\\", "\u0001", "\u0000", "/",
    "```", "```\n", "\n```", "```python\n", "\n```Bash \nls\n```\n", "```é\n", "```a b\n", "<function=", "f>",
    "<function=bash>\n", "</function>", "<parameter=", "<parameter=command>\n", "k>", "</parameter>\n",
    "<parameter=a>1</parameter><parameter=é>2</parameter>", "<function=f></function>", "<execute>", "</execute>",
    "<run>\n", "\n</run>", "<tool_call>", '{"name": "f", "arguments": {}}', "</tool_call>", "<tool_response>",
    "Action:", "\nAction: ", "\nAction Input:", " {\"a\": 1}", "Act:", "name", "name[x]", "name (1)", "go to 1",
    "]", ")",
    "OBSERVATION:\n", "Execution result: ", "Obs:", "obs:\n", "Obs f: ", "bash!", "<out>", "<think>", "</think>",
]  # fmt: skip
TEXT = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
ROLES = ["user", "assistant", "assistant", "user", "system", "tool", "environment", "developer", "function_call"]
ROLES += ["human", "gpt", "observation", "bot", "boss", "nobody"]


@st.composite
def turns(draw: st.DrawFn, role: str, content: str) -> list[Any]:
    odd = draw(st.integers(0, 30))
    made: list[Any] = []
    for _ in range(draw(st.integers(0, 7))):
        turn = {role: draw(st.sampled_from(ROLES[: 4 if odd < 20 else 15])), content: draw(TEXT)}
        if draw(st.booleans()):
            turn = dict(reversed(turn.items()))
        made.append(turn)
    if odd == 30 and made:
        made[0] = draw(
            st.sampled_from([None, {}, {role: "user"}, {**made[0], "weight": 0}, {**made[0], content: None}])
        )
    return made


@st.composite
def records(draw: st.DrawFn) -> Any:
    role, content = draw(st.sampled_from([("role", "content")] * 3 + [("from", "value")]))
    field = draw(st.sampled_from(["messages"] * 3 + ["conversations", "turns"]))
    record: dict[str, Any] = {field: draw(turns(role, content))}
    values = st.none() | st.booleans() | st.integers(-5, 2**64) | st.floats(allow_nan=False) | TEXT
    names = ["id", "traj_id", "model", "model_name", "resolved", "reward", "success", "x", "y\n", "system", "tools"]
    for name in draw(st.lists(st.sampled_from([*names, "messages"]), max_size=4)):
        record.setdefault(name, draw(values | st.sampled_from([[], {}, {"a": {"b": 1}}, [1, "x"]])))
    return dict(sorted(record.items(), key=lambda pair: draw(st.integers(0, 9))))


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    ascii_only = draw(st.booleans())
    raw = json.dumps(draw(records()), ensure_ascii=ascii_only, indent=draw(st.sampled_from([None, None, "\t"])))
    made = raw.replace("\n", " ").encode()
    if draw(st.integers(0, 15)):
        return made
    at = draw(st.integers(0, len(made)))
    more = [b"", b"\\ud800", b'"', b"\xff", b"\x00", b"NaN", b',"id":1', b"\\", b"\\u00e9", b"\xc3", b"}"]
    return made[:at] + draw(st.sampled_from(more)) + made[at + draw(st.integers(0, 3)) :]


def check(entry: dict[str, Any], file: Path, least: int = 0) -> None:
    """Both readers over all records of a file. least: how many the bulk reader must have taken."""
    importer = build(Kind.IMPORTER, {**entry, "paths": [str(file)]})
    assert isinstance(importer, Importer)
    ctx: Any = SimpleNamespace(recipe_dir=file.parent, recipe=SimpleNamespace(seed=0), path=Path, lake=None)
    items = importer.plan(WorkingSet(), ctx).items
    bulk, reference = read_batch(importer, items, ctx), importer.run_reference(items, ctx)
    assert bulk.outcomes == reference.outcomes
    assert (bulk.dead, bulk.pending) == (reference.dead, reference.pending)
    rows = to_arrow("trajectories", bulk.rows["trajectories"])
    rows.validate(full=True)
    expected = to_arrow("trajectories", reference.rows["trajectories"])
    assert rows.to_pylist() == expected.to_pylist() and rows.equals(expected)
    if least:
        assert taken(importer, file) >= least


def taken(importer: Importer, file: Path) -> int:
    """How many records of a file the bulk reader takes."""
    ctx: Any = SimpleNamespace(recipe_dir=file.parent, recipe=SimpleNamespace(seed=0), path=Path)
    items = importer.plan(WorkingSet(), ctx).items
    batch = batch_of(importer.plain(ctx), importer.read, 0)
    assert batch is not None
    with file.open("rb") as handle:
        batch.file(
            handle.fileno(), 0, [item.params["offset"] for item in items], [item.params["length"] for item in items]
        )
    columns = batch.columns()
    return 0 if columns is None else len(columns.taken)


@settings(
    max_examples=int(os.environ.get("GRISTMILL_EXAMPLES", "60")), deadline=None, suppress_health_check=list(HealthCheck)
)
@given(given_lines=st.lists(lines(), min_size=1, max_size=12))
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: "-".join([entry["use"], *entry.get("calls", ())]))
def test_any_batch_reads_the_same_both_ways(entry: dict[str, Any], given_lines: list[bytes], tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    file.write_bytes(b"\n".join(given_lines))
    check(entry, file)


@pytest.mark.parametrize("use", ["openai_chat", "sharegpt", "mapping"])
def test_mutated_records_read_the_same_both_ways(use: str, tmp_path: Path) -> None:
    rng = random.Random(3)
    path = next(path for path in fuzz.EXAMPLES.iterdir() if path.stem == use and path.suffix == ".jsonl")
    raws = fuzz.raw_records(path)
    made = []
    for _ in range(300):
        raw = rng.choice(raws)
        if rng.random() < 0.8:
            raw = json.dumps(fuzz.mutate(rng, json.loads(raw))).encode()
        else:
            raw = fuzz.broken_bytes(rng, raw)
        made.append(raw.replace(b"\n", b" "))
    file = tmp_path / "all.jsonl"
    file.write_bytes(b"\n".join(made))
    more = {"map": str(fuzz.EXAMPLES / "mapping.toml")} if use == "mapping" else {}
    check({"use": use, **more}, file)


PLAIN = sorted(set(samples.ENTRIES) - {"nebius_SWE-agent-trajectories", "synatra", "toucan_1_5m"})


@pytest.mark.skipif(not samples.SAMPLES.is_dir(), reason="the samples are not here")
@pytest.mark.parametrize("name", sorted(samples.ENTRIES))
def test_real_samples_read_the_same_both_ways(name: str, tmp_path: Path) -> None:
    raw = json.loads((samples.SAMPLES / name / "sample_raw.json").read_text())
    file = tmp_path / "raw.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in raw))
    if name == "synatra":
        pytest.skip("columns are no list of turns")
    check(samples.ENTRIES[name], file, least=len(raw) if name in PLAIN else 0)
    file.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in raw))
    check(samples.ENTRIES[name], file)


def test_what_is_compiled_ahead_is_all_that_runs(tmp_path: Path) -> None:
    warm()
    assert compiled()
    before = [len(each.signatures) for each in (scan, observe, assemble)]
    (tmp_path / "a.jsonl").write_text('{"messages": [{"role": "user", "content": "a"}]}\n')
    check(CHAT, tmp_path / "a.jsonl", least=1)
    assert [len(each.signatures) for each in (scan, observe, assemble)] == before == [1, 1, 1]


@pytest.mark.parametrize(
    ("calls", "text"),
    [
        ("execute:a", "<a></a>" * 20_000),
        ("execute:a", '<a>\x01"</a>' * 20_000),
        ("function_xml", "<function=></function>" * 20_000),
        ("function_xml", "<function=f><parameter=a>\x01</parameter></function>" * 20_000),
        ("fenced", "```" * 50_000),
        ("fenced", "```\n" * 50_000),
        ("react", "\nAction: x[" * 20_000),
        ("code", "\x01" * 200_000),
    ],
)
def test_the_densest_texts_have_room(calls: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    record = {"messages": [{"role": "assistant", "content": text}, {"role": "user", "content": text}] * 2}
    file.write_text("\n".join([json.dumps(record)] * 3))
    check({**CHAT, "calls": [calls], "observation": [""]}, file)


@pytest.mark.parametrize("use", ["openai_chat", "sharegpt"])
def test_long_texts_beside_the_turns_are_kept_as_they_stand(use: str, tmp_path: Path) -> None:
    long = 'a "line"\\ of\ttext\r\n\b\f' * 20
    texts = [
        long,
        long + "/",
        long + "\u0001\x7f",
        long + "é\u2028𝄞",
        "x" * 65_536,
        "x" * 65_535,
        "x" * 65_534,
        "é" * 40_000,
    ]
    role, content, field = (
        ("role", "content", "messages") if use == "openai_chat" else ("from", "value", "conversations")
    )
    turns = [{role: "user", content: "a"}]
    made = []
    for number, name in enumerate(
        ["patch", "id", "model", "traj_id", "resolved", "reward", "secret", "system", "tools"]
    ):
        for text in texts:
            record = {"id": number, name: text, field: turns, "more": text}
            made += [json.dumps(record), json.dumps(dict(reversed(record.items())), ensure_ascii=False)]
            made.append(json.dumps({"x": {}, **record}).replace("/", "\\/"))
    made += [
        json.dumps({"patch": long, field: turns})[:-1] + end for end in (',"patch":1}', ',"b":"\\ud800"}', ',"b":\x01}')
    ]
    made += [
        json.dumps({"patch": long, field: turns}).replace("\\t", mark) for mark in ("\\u0009", "\t", "\\q", "\\ud800")
    ]
    file = tmp_path / "all.jsonl"
    file.write_bytes("\n".join(made).encode() + b'\n{"patch": "' + b"x" * 300 + b'\xff", "messages": []}')
    check({"use": use, "dataset": "unit", "drop_fields": ["secret"]}, file, 150)


def test_the_room_of_a_batch_is_its_own_while_its_rows_are_used(tmp_path: Path) -> None:
    tables, expected = [], []
    for number in range(9):
        file = tmp_path / f"{number}.jsonl"
        said = [{"role": "user", "content": f"q{number} " * 50}, {"role": "assistant", "content": f"a{number}" * 9}]
        file.write_text(json.dumps({"messages": said}) + "\n")
        importer: Any = build(Kind.IMPORTER, {**CHAT, "paths": [str(file)]})
        ctx: Any = SimpleNamespace(recipe_dir=tmp_path, recipe=SimpleNamespace(seed=0), path=Path, lake=None)
        items = importer.plan(WorkingSet(), ctx).items
        # A column that outlives its table keeps the room as well.
        tables.append(read_batch(importer, items, ctx).rows["trajectories"].column("steps"))
        expected.append(
            to_arrow("trajectories", importer.run_reference(items, ctx).rows["trajectories"]).column("steps")
        )
        del tables[:-6], expected[:-6]
        assert [one.to_pylist() for one in tables] == [one.to_pylist() for one in expected]


def test_kernels_older_than_a_source_are_thrown_away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cache = tmp_path / "__pycache__"
    cache.mkdir()
    old, new = cache / "steps.assemble-1.nbi", cache / "steps.assemble-2.nbi"
    old.write_text("")
    (tmp_path / "calls.py").write_text("")
    new.write_text("")
    os.utime(old, (1, 1))
    monkeypatch.setattr(kernels, "_HERE", tmp_path)
    kernels.forget_stale()
    assert (old.exists(), new.exists(), kernels.compiled()) == (False, True, True)
    os.utime(new, (1, 1))
    assert not kernels.compiled()


@pytest.mark.parametrize("records", [63, 64])
def test_a_batch_is_read_in_bulk_where_that_pays(records: int, tmp_path: Path) -> None:
    warm()
    line = '{"messages": [{"role": "user", "content": "a"}], "id": %d}\n'
    file = tmp_path / "a.jsonl"
    file.write_text("".join(line % number for number in range(records)))
    importer: Any = build(Kind.IMPORTER, {**CHAT, "paths": [str(file)]})
    ctx: Any = SimpleNamespace(recipe_dir=tmp_path, recipe=SimpleNamespace(seed=0), path=Path, lake=None)
    items = importer.plan(WorkingSet(), ctx).items
    assert isinstance(importer.run(items, ctx).rows["trajectories"], pa.Table) == (records >= 64)
    file.write_text(file.read_text() + "\n")
    changed = importer.run(items, ctx)
    assert len(changed.outcomes) == records and isinstance(changed.rows["trajectories"], list)
    file.unlink()
    assert {one.reason for one in importer.run(items, ctx).pending} == {"file_gone"}


def test_rows_read_in_bulk_reach_the_lake_and_are_not_made_twice(tmp_path: Path, run_entry: Any) -> None:
    warm()
    file = tmp_path / "a.jsonl"
    text = "look\n\n<function=bash>\n<parameter=command>ls</parameter>\n</function>"
    said = (("user", "a"), ("assistant", text), ("user", "b"))
    messages = [{"role": role, "content": content} for role, content in said]
    lines = [json.dumps({"id": number, "resolved": True, "messages": messages}) for number in range(100)]
    lines[50] = lines[50].replace('"id": 50', '"id": 50, "id": 51')
    lines[60] = lines[60].replace('"content": "a"', '"content": [{"type": "text", "text": "a"}]')
    file.write_text("\n".join(lines))
    entry = {**CHAT, "calls": ["function_xml"], "observation": [""], "paths": [str(file)]}
    ran = run_entry(Stage.NORMALIZE, entry)
    assert (ran.report.n_in, ran.report.n_kept, ran.report.n_dead) == (100, 99, 1)
    rows = ran.ctx.lake.trajectories(ran.after.trajectories)
    assert [row.source_id for row in rows] == [str(number) for number in range(100) if number != 50]
    assert len({msgspec.json.encode(row.steps) for row in rows}) == 1
    step = rows[0].steps[1]
    assert (step.tool_calls[0].arguments_json, step.results[0].call_id) == ('{"command":"ls"}', "s1c0")
    again = run_entry(Stage.NORMALIZE, entry)
    assert again.after.trajectories == ran.after.trajectories


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("OBSERVATION:\n?", ["OBSERVATION:\n", "OBSERVATION:"]),
        ("(?:Ob|ob)s ?", ["Obs ", "Obs", "obs ", "obs"]),
        ("a[bc]??", ["a", "ab", "ac"]),
        ("(?i)a", None),
        ("a+", None),
        ("(?P<name>a)", None),
        ("(?=a)", None),
    ],
)
def test_patterns_that_are_words(pattern: str, words: list[str] | None) -> None:
    assert words_of_patterns([observation_of(pattern)]) == words


@pytest.mark.parametrize(
    "options",
    [
        {"messages_field": "score"},
        {"messages_field": "reward"},
        {"score_field": "messages"},
        {"success_field": "messages"},
    ],
)
def test_turns_that_an_option_makes_an_outcome_are_left_to_the_reference(
    tmp_path: Path, options: dict[str, str]
) -> None:
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    record = {"id": "1", options.get("messages_field", "messages"): turns}
    file = tmp_path / "a.jsonl"
    file.write_text(f"{json.dumps(record)}\n" * 3, encoding="utf-8")
    check({**CHAT, **options}, file)
