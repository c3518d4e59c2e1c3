"""The Prefect task of stage normalize: one batch, which reads foreign records into the interlingua."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.batch import BatchRef, BatchSummary, run_batch


@task(name="normalize", task_run_name="normalize-{ref.entry}-{ref.number}", cache_policy=NO_CACHE, persist_result=False)
def normalize(ref: BatchRef) -> BatchSummary:
    """Runs one batch; the ledger, not Prefect, remembers that it is done."""
    return run_batch(ref)
