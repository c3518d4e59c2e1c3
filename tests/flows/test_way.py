"""Where a flow's batches run."""

import pytest
from prefect.task_runners import ThreadPoolTaskRunner

from flows.way import batch_runner
from schemas.errors import UserError


def test_without_a_cluster_a_few_threads_run_the_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRISTMILL_RAY", raising=False)
    runner = batch_runner()
    assert isinstance(runner, ThreadPoolTaskRunner)
    # Prefect's own default has no bound.
    assert 4 <= runner._max_workers <= 1024


@pytest.mark.parametrize("cluster", ["nonsense", "../../x", " ", "http://host:8265", "ray://host"])
def test_what_names_no_cluster_is_the_users_mistake(monkeypatch: pytest.MonkeyPatch, cluster: str) -> None:
    monkeypatch.setenv("GRISTMILL_RAY", cluster)
    with pytest.raises(UserError, match="GRISTMILL_RAY"):
        batch_runner()
