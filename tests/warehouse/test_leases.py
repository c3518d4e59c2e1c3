"""Leases: one holder, a heartbeat, takeover after expiry, and a token that fences the old holder off."""

import time

import pytest

from schemas.errors import LeaseLost
from warehouse.lake import Lake


def test_one_holder_at_a_time(lake: Lake) -> None:
    first = lake.leases.acquire("verify", "f", "b1")
    assert first is not None
    assert lake.leases.acquire("verify", "f", "b1") is None
    other_batch = lake.leases.acquire("verify", "f", "b2")
    assert other_batch is not None
    first.release()
    again = lake.leases.acquire("verify", "f", "b1")
    assert again is not None
    assert again.token > other_batch.token > first.token


def test_the_heartbeat_keeps_it_beyond_its_time(lake: Lake) -> None:
    with Lake.open(lake.address) as other:
        lease = lake.leases.acquire("verify", "f", "b", ttl_s=0.6)
        assert lease is not None
        time.sleep(1.5)
        assert lease.alive()
        assert other.leases.acquire("verify", "f", "b") is None
        lease.check()


def test_an_expired_lease_is_taken_over_and_its_old_holder_fenced_off(lake: Lake) -> None:
    with Lake.open(lake.address) as other:
        old = lake.leases.acquire("verify", "f", "b", ttl_s=0.3)
        assert old is not None
        # A holder that hangs: no heartbeat, but its process lives.
        lake.leases._held.clear()
        time.sleep(0.4)
        assert not old.alive()
        new = other.leases.acquire("verify", "f", "b")
        assert new is not None
        assert new.token > old.token
        with pytest.raises(LeaseLost):
            old.check()
        old.release()
        new.check()


def test_an_expired_lease_that_nobody_wanted_is_still_ours(lake: Lake) -> None:
    lease = lake.leases.acquire("verify", "f", "b", ttl_s=0.2)
    assert lease is not None
    lake.leases._held.clear()
    time.sleep(0.3)
    assert not lease.alive()
    lease.check()
    assert lease.alive()
