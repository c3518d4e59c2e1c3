"""The Prefect task of stage emit: one batch, which writes shards."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.batch import BatchRef, BatchSummary, run_batch


@task(name="emit", task_run_name="emit-{ref.entry}-{ref.number}", cache_policy=NO_CACHE, persist_result=False)
def emit(ref: BatchRef) -> BatchSummary:
    """Runs one batch; the ledger, not Prefect, remembers that it is done."""
    return run_batch(ref)
