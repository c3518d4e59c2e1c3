"""The Prefect task of stage curate: one batch, which keeps or drops."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.batch import BatchRef, BatchSummary, run_batch


@task(name="curate", task_run_name="curate-{ref.entry}-{ref.number}", cache_policy=NO_CACHE, persist_result=False)
def curate(ref: BatchRef) -> BatchSummary:
    """Runs one batch; the ledger, not Prefect, remembers that it is done."""
    return run_batch(ref)
