"""The Prefect task of stage synthesize: one batch, which makes and proves tasks."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.batch import BatchRef, BatchSummary, run_batch


@task(
    name="synthesize", task_run_name="synthesize-{ref.entry}-{ref.number}", cache_policy=NO_CACHE, persist_result=False
)
def synthesize(ref: BatchRef) -> BatchSummary:
    """Runs one batch; the ledger, not Prefect, remembers that it is done."""
    return run_batch(ref)
