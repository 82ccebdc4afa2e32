"""The life of a message is counted by each broker's own clock, and the time spent with each is subtracted."""

import pytest

from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.network.times import arriving, leaving

HOUR_MS = 3_600_000


def batch(*headers: Headers | None) -> MessageBatch:
    return MessageBatch(
        topic="t",
        topics=None,
        payloads=[b"%d" % row for row in range(len(headers))],
        headers=list(headers) if any(each is not None for each in headers) else None,
        qos=AT_MOST_ONCE,
        retain=False,
        publisher="p",
        received_ms=1,
        payload_bytes=len(headers),
    )


@pytest.mark.parametrize("ahead_ms", [0, HOUR_MS, -HOUR_MS], ids=["same", "an hour ahead", "an hour behind"])
def test_eight_seconds_of_which_two_were_spent_arrive_as_six(ahead_ms: int) -> None:
    """Whatever the clocks of the two brokers show."""
    published_ms = 10 * HOUR_MS
    message = batch(Headers(expires_at_ms=published_ms + 8_000, not_before_ms=published_ms + 5_000))
    sent_ms = published_ms + 2_000
    wall_ms = sent_ms + ahead_ms

    arrived = arriving(message, sent_ms, wall_ms)

    headers = arrived.headers_of(0)
    assert headers is not None
    assert headers.expires_at_ms - wall_ms == 6_000
    assert headers.not_before_ms - wall_ms == 3_000
    assert arrived.received_ms == wall_ms


def test_a_message_without_times_arrives_as_it_is() -> None:
    headers = Headers(partition_key="k", timestamp_ms=5)
    arrived = arriving(batch(headers, None), 1_000, 2_000)
    assert arrived.headers() == [headers, None]
    assert arrived.headers_of(0) is headers
    assert arriving(batch(None), 1_000, 2_000).headers() is None


def test_headers_that_rows_share_stay_shared() -> None:
    shared = Headers(expires_at_ms=9_000)
    arrived = arriving(batch(shared, shared), 1_000, 2_000)
    assert arrived.headers_of(0) is arrived.headers_of(1)
    assert shared.expires_at_ms == 9_000, "the sender's own batch is as before"


def test_expired_messages_do_not_leave() -> None:
    dead, alive = Headers(expires_at_ms=1_000), Headers(expires_at_ms=1_001)
    mixed = batch(None, dead, alive)
    left = leaving(mixed, 1_000)
    assert left is not None
    assert left.payloads() == [b"0", b"2"]
    assert leaving(batch(dead), 1_000) is None
    fresh = batch(None, alive)
    assert leaving(fresh, 1_000) is fresh
