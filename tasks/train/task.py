"""The Prefect task of stage train: one batch, which trains on shards."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.batch import BatchRef, BatchSummary, run_batch


@task(name="train", task_run_name="train-{ref.entry}-{ref.number}", cache_policy=NO_CACHE, persist_result=False)
def train(ref: BatchRef) -> BatchSummary:
    """Runs one batch; the ledger, not Prefect, remembers that it is done."""
    return run_batch(ref)
