"""The Prefect task of stage label: one batch, which weighs steps."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.batch import BatchRef, BatchSummary, run_batch


@task(name="label", task_run_name="label-{ref.entry}-{ref.number}", cache_policy=NO_CACHE, persist_result=False)
def label(ref: BatchRef) -> BatchSummary:
    """Runs one batch; the ledger, not Prefect, remembers that it is done."""
    return run_batch(ref)
