"""The peers of benchmarks/similarity.py, each run alone in its own process: texts in, dropped texts out.

    PYTHON benchmarks/_similarity_peers.py NAME TEXTS.json [MODEL]   prints {"seconds": CPU, "dropped": [numbers]}

Every peer gets the same texts, one thread, 5-word shingles, 128 permutations and the threshold .8 (semhash, which
is semantic, gets its own threshold and a static model), and does its whole work, from the texts on.
"""

import json
import resource
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

THRESHOLD, WINDOW, PERMUTATIONS, SEED = 0.8, 5, 128, 42
Peer = Callable[[Sequence[str]], list[int]]


def shingles(text: str) -> list[str]:
    """The word shingles of a text."""
    words = text.split()
    return [" ".join(words[at : at + WINDOW]) for at in range(max(1, len(words) - WINDOW + 1))]


def rensa() -> Peer:
    """Full-set sketches and candidates checked against the estimated similarity."""
    from rensa import RMinHashDeduplicator

    def run(texts: Sequence[str]) -> list[int]:
        found = RMinHashDeduplicator(threshold=THRESHOLD, num_perm=PERMUTATIONS, use_lsh=True, seed=SEED)
        kept = found.add_pairs((str(number), shingles(text)) for number, text in enumerate(texts))
        return [number for number, keep in enumerate(kept) if not keep]

    return run


def rensa_rho() -> Peer:
    """Its fastest way: sampled positions, flags instead of pairs. The first of a pair is flagged too."""
    from rensa import RMinHash, RMinHashLSH

    def run(texts: Sequence[str]) -> list[int]:
        sketches = RMinHash.digest_matrix_from_token_sets_rho(map(shingles, texts), PERMUTATIONS, SEED)
        index = RMinHashLSH(THRESHOLD, PERMUTATIONS, 16)
        flags = index.query_duplicate_flags_matrix_one_shot(sketches)
        return [number for number, flag in enumerate(flags) if flag]

    return run


def datasketch() -> Peer:
    """MinHashLSH with parameters chosen for the threshold; matches by estimated similarity."""
    from datasketch import MinHash, MinHashLSH

    def run(texts: Sequence[str]) -> list[int]:
        index = MinHashLSH(threshold=THRESHOLD, num_perm=PERMUTATIONS)
        dropped, kept = [], {}
        for number, text in enumerate(texts):
            sketch = MinHash(num_perm=PERMUTATIONS, seed=SEED)
            sketch.update_batch([one.encode() for one in shingles(text)])
            if any(sketch.jaccard(kept[other]) >= THRESHOLD for other in index.query(sketch)):
                dropped.append(number)
            else:
                index.insert(number, sketch)
                kept[number] = sketch
        return dropped

    return run


def datatrove() -> Peer:
    """Its four steps over files in a folder, as its examples do it, one worker."""
    from datatrove.data import Document
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.dedup.minhash import (
        MinhashConfig,
        MinhashDedupBuckets,
        MinhashDedupCluster,
        MinhashDedupFilter,
        MinhashDedupSignature,
    )
    from datatrove.utils.logging import logger

    logger.remove()
    # Bands for the threshold .8 out of 128 permutations, as datasketch would choose them.
    config = MinhashConfig(n_grams=WINDOW, num_buckets=16, hashes_per_bucket=8)

    def run(texts: Sequence[str]) -> list[int]:
        documents = [Document(text=text, id=str(number)) for number, text in enumerate(texts)]
        kept: set[int] = set()

        def note(data: Any, rank: int = 0, world_size: int = 1) -> Any:
            for document in data:
                kept.add(int(document.id))
                yield document

        with tempfile.TemporaryDirectory() as root:
            signatures, buckets, removed = (str(Path(root) / name) for name in ("signatures", "buckets", "removed"))
            for steps in (
                [documents, MinhashDedupSignature(output_folder=signatures, config=config)],
                [MinhashDedupBuckets(input_folder=signatures, output_folder=buckets, config=config)],
                [MinhashDedupCluster(input_folder=buckets, output_folder=removed, config=config)],
                [documents, MinhashDedupFilter(input_folder=removed), note],
            ):
                tasks = config.num_buckets if isinstance(steps[0], MinhashDedupBuckets) else 1
                LocalPipelineExecutor(pipeline=steps, tasks=tasks, workers=1, logging_dir=None).run()
        return [number for number in range(len(texts)) if number not in kept]

    return run


def semhash() -> Peer:
    """Semantic, with the static model in the folder given."""
    from model2vec import StaticModel
    from semhash import SemHash

    model = StaticModel.from_pretrained(sys.argv[3])

    def run(texts: Sequence[str]) -> list[int]:
        # Records that are the same text are told apart by their number.
        records = [{"text": text, "number": str(number)} for number, text in enumerate(texts)]
        found = SemHash.from_records(records=records, columns=["text"], model=model)
        kept = {int(record["number"]) for record in found.self_deduplicate(threshold=0.95).selected}
        return [number for number in range(len(texts)) if number not in kept]

    return run


PEERS: dict[str, Callable[[], Peer]] = {
    "rensa": rensa,
    "rensa_rho": rensa_rho,
    "datasketch": datasketch,
    "datatrove": datatrove,
    "semhash": semhash,
}


def cpu() -> float:
    """CPU seconds of this process and its ended children."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> None:
    """Runs one peer; exit code 3 when it is not installed here."""
    try:
        run = PEERS[sys.argv[1]]()
    except ImportError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(3) from error
    texts = json.loads(Path(sys.argv[2]).read_text())
    run(texts[:20])
    start = cpu()
    dropped = run(texts)
    print(json.dumps({"seconds": cpu() - start, "dropped": dropped}))


if __name__ == "__main__":
    main()
