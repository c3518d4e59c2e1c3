"""Near-duplicates end to end, texts → decisions: documents per second of CPU time, with precision and recall.

25,000 documents of 230 words; half are edited copies of the other half, their true Jaccard similarity (5-word
shingles) spread evenly from .5 to 1. Ours verifies every pair it drops. Peers run in the same round, each in its
own process, on as many of the documents as they do in about 10 s; without them only our figure is printed.

    python benchmarks/similarity.py [--peer PYTHON] [--json] [--runs N] [--documents N]

--peer: the interpreter of an environment with rensa, datasketch, datatrove (with spacy, regex, nltk) and semhash.
precision: the share of dropped copies whose true similarity is at least .8. recall: the share of pairs of at least
.8 whose copy is dropped.
"""

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMBA_NUM_THREADS",
        "RAYON_NUM_THREADS",
        "POLARS_MAX_THREADS",
    ),
    "1",
)
os.environ.update({**ONE_THREAD, "TOKENIZERS_PARALLELISM": "false"})
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

THRESHOLD, WINDOW, WORDS = 0.8, 5, 230
# Documents for each peer: about 10 s a run.
SIZES = {"rensa": 25_000, "rensa_rho": 25_000, "datasketch": 25_000, "datatrove": 2_000, "semhash": 3_000}


class Corpus(NamedTuple):
    """Documents, the number of each copy's original, and the true Jaccard similarity of the two."""

    texts: list[str]
    original: dict[int, int]
    jaccard: dict[int, float]


def shingle_set(words: list[str]) -> set[tuple[str, ...]]:
    """The distinct shingles."""
    return {tuple(words[at : at + WINDOW]) for at in range(len(words) - WINDOW + 1)}


def true_jaccard(a: list[str], b: list[str]) -> float:
    """The similarity by definition, in plain Python."""
    one, two = shingle_set(a), shingle_set(b)
    return len(one & two) / len(one | two)


def corpus(count: int, seed: int) -> Corpus:
    """`count` documents in random order; each pair's similarity is aimed at a value drawn evenly from .5 to 1."""
    rng = random.Random(seed)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    vocabulary = ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(20_000)]
    pairs: list[tuple[list[str], list[str] | None, float]] = []
    while 2 * len(pairs) < count:
        words = rng.choices(vocabulary, k=WORDS)
        aim, copy, similarity = rng.uniform(0.5, 1.0), list(words), 1.0
        while True:
            further = list(copy)
            further[rng.randrange(WORDS)] = rng.choice(vocabulary)
            next_ = true_jaccard(words, further)
            if next_ < aim:
                break
            copy, similarity = further, next_
        pairs.append((words, copy, similarity))
    texts: list[tuple[int, int, list[str]]] = []
    for number, (words, copy, _) in enumerate(pairs):
        texts += [(number, 0, words), (number, 1, copy or [])]
    rng.shuffle(texts)
    first: dict[int, int] = {}
    original, jaccard = {}, {}
    for place, (number, _, _) in enumerate(texts):
        if number in first:
            original[place], jaccard[place] = first[number], pairs[number][2]
        else:
            first[number] = place
    return Corpus([" ".join(words) for _, _, words in texts], original, jaccard)


def shorter(given: Corpus, count: int) -> Corpus:
    """The first `count` documents."""
    original = {copy: one for copy, one in given.original.items() if copy < count}
    return Corpus(given.texts[:count], original, {copy: given.jaccard[copy] for copy in original})


def quality(given: Corpus, dropped: list[int], *, firsts_too: bool = False) -> dict[str, float]:
    """Precision and recall of the dropped documents; `firsts_too` for a peer that flags both of a pair."""
    found = {number for number in dropped if number in given.original}
    if not firsts_too:
        found |= {-1 - number for number in dropped if number not in given.original}
    good = {copy for copy, value in given.jaccard.items() if value >= THRESHOLD}
    near = {copy for copy in good if given.jaccard[copy] < 0.85}
    return {
        "precision": round(len(found & good) / max(1, len(found)), 4),
        "recall": round(len(found & good) / max(1, len(good)), 4),
        "recall_80_85": round(len(found & near) / max(1, len(near)), 4),
    }


def cpu() -> float:
    """CPU seconds of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def ours(given: Corpus) -> tuple[float, list[int]]:
    """CPU seconds and dropped documents; every drop's evidence is checked against the definition's value."""
    from tasks.curate.similarity.minhash import near_duplicates

    start = cpu()
    found = near_duplicates(given.texts, THRESHOLD, WINDOW)
    used = cpu() - start
    dropped = [number for number, kept in enumerate(found.kept.tolist()) if kept >= 0]
    for number in dropped:
        if given.original.get(number) == found.kept[number] and found.jaccard[number] != given.jaccard[number]:
            raise SystemExit(f"document {number}: {found.jaccard[number]}, by definition {given.jaccard[number]}")
    return used, dropped


def theirs(python: str, name: str, given: Corpus, folder: Path, model: str) -> "tuple[float, list[int]] | None":
    """The same of a peer, or None when it is not installed there."""
    file = folder / f"{name}.json"
    file.write_text(json.dumps(given.texts))
    script = str(Path(__file__).with_name("_similarity_peers.py"))
    ended = subprocess.run([python, script, name, str(file), model], capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        sys.stderr.write(f"{name} is left out: {ended.stderr.strip().splitlines()[-1:]}\n")
        return None
    answer: dict[str, Any] = json.loads(ended.stdout.strip().splitlines()[-1])
    return answer["seconds"], answer["dropped"]


def static_model() -> str:
    """The folder of the static model for semhash, "" where the extra `embed` is not installed."""
    from schemas.errors import MissingExtra
    from tasks.curate.similarity.static import model_folder

    try:
        return str(model_folder())
    except MissingExtra:
        return ""


def measure(python: str, runs: int, count: int) -> dict[str, Any]:
    """Ours and the peers by turns; medians."""
    given = corpus(count, seed=11)
    ours(shorter(given, 200))  # compiles
    model = static_model() if python else ""
    rates: dict[str, list[float]] = {"ours": []}
    marks: dict[str, dict[str, float]] = {}
    left_out = set() if python else set(SIZES)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(runs):
            used, dropped = ours(given)
            rates["ours"].append(len(given.texts) / used)
            marks["ours"] = quality(given, dropped)
            for name in [peer for peer in SIZES if peer not in left_out]:
                part = shorter(given, min(count, SIZES[name]))
                answer = theirs(python, name, part, Path(folder), model)
                if answer is None:
                    left_out.add(name)
                    continue
                rates.setdefault(name, []).append(len(part.texts) / answer[0])
                marks[name] = quality(part, answer[1], firsts_too=name == "rensa_rho")
    median = {name: round(statistics.median(each), 1) for name, each in rates.items()}
    figure = median.pop("ours")
    return {
        "figure": figure,
        "unit": "documents/s/core",
        "peers": median,
        "ratio": {name: round(figure / rate, 2) for name, rate in median.items()},
        **marks.pop("ours"),
        "quality_of_peers": marks,
        "documents": {"ours": count, **{name: min(count, SIZES[name]) for name in median}},
    }


def main() -> None:
    """Prints figure, unit, peers, ratio, precision and recall as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", default="", help="the Python of an environment with the peers")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--documents", type=int, default=25_000)
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    asked = parser.parse_args()
    print(json.dumps(measure(asked.peer, asked.runs, asked.documents), indent=None if asked.json else 2))


if __name__ == "__main__":
    main()
