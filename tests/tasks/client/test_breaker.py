"""The breaker looks at a rate over a window, never at a total."""

import random

from tasks.client.breaker import Breaker
from tasks.client.request import Cause, ModelReply


def test_21_failures_of_512_do_not_open_it():
    breaker, failures = Breaker(rate=0.5), set(random.Random(1).sample(range(512), 21))
    assert not any(breaker.record(number not in failures) for number in range(512))


def test_a_dead_endpoint_opens_it_and_a_probe_closes_it():
    now = 0.0
    breaker = Breaker(window=40, floor=10, pause_s=30.0, clock=lambda: now)
    assert [breaker.record(False) for _ in range(10)].index(True) == 9
    assert not breaker.allows()
    now = 31.0
    assert breaker.allows()  # the probe
    assert not breaker.allows()  # only one
    breaker.record(False)
    assert not breaker.allows()
    now = 62.0
    assert breaker.allows()
    breaker.record(True)
    assert breaker.allows()
    assert not breaker.open


def test_old_failures_leave_the_window():
    breaker = Breaker(window=20, floor=5)
    for _ in range(4):
        breaker.record(False)
    for _ in range(20):
        breaker.record(True)
    assert not any(breaker.record(False) for _ in range(4))
    assert breaker.describe().startswith("4 of the last 20")


def test_a_dead_endpoint_is_left_alone_and_items_wait(peer, teacher, ask, make_client, made):
    peer.script(made.reply("<html>down", 503))
    client = make_client()
    results = client.complete_all(teacher(attempts=1, parallel=4), ask(200))
    assert len(peer.bodies) < 20
    assert sum(r.cause is Cause.BREAKER_OPEN and r.pending for r in results) > 180
    assert any("circuit breaker opens, 10 of the last" in line for line in client.said)


def test_single_bad_requests_do_not_open_it(peer, teacher, ask, make_client, made):
    rejected = made.reply({"error": "bad"}, 400)
    peer.script(*[rejected] * 60, peer.ok)
    results = make_client().complete_all(teacher(parallel=1), ask(61))
    assert isinstance(results[-1], ModelReply)
