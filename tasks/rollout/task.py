"""The Prefect task of stage rollout: one batch, which lets policies act on tasks."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.batch import BatchRef, BatchSummary, run_batch


@task(name="rollout", task_run_name="rollout-{ref.entry}-{ref.number}", cache_policy=NO_CACHE, persist_result=False)
def rollout(ref: BatchRef) -> BatchSummary:
    """Runs one batch; the ledger, not Prefect, remembers that it is done."""
    return run_batch(ref)
