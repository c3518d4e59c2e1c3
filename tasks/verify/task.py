"""The Prefect task of stage verify: one batch, which judges trajectories."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.batch import BatchRef, BatchSummary, run_batch


@task(name="verify", task_run_name="verify-{ref.entry}-{ref.number}", cache_policy=NO_CACHE, persist_result=False)
def verify(ref: BatchRef) -> BatchSummary:
    """Runs one batch; the ledger, not Prefect, remembers that it is done."""
    return run_batch(ref)
