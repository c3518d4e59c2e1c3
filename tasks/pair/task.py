"""The Prefect task of stage pair: one batch, which forms rows of another grain."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.batch import BatchRef, BatchSummary, run_batch


@task(name="pair", task_run_name="pair-{ref.entry}-{ref.number}", cache_policy=NO_CACHE, persist_result=False)
def pair(ref: BatchRef) -> BatchSummary:
    """Runs one batch; the ledger, not Prefect, remembers that it is done."""
    return run_batch(ref)
