"""The Prefect task of stage refine: one batch, which turns trajectories into better ones."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.batch import BatchRef, BatchSummary, run_batch


@task(name="refine", task_run_name="refine-{ref.entry}-{ref.number}", cache_policy=NO_CACHE, persist_result=False)
def refine(ref: BatchRef) -> BatchSummary:
    """Runs one batch; the ledger, not Prefect, remembers that it is done."""
    return run_batch(ref)
