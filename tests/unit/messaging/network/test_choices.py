"""For whom a message in a link queue is: as its headers say it, and in a batch beside others."""

import pytest

from sluicegate.messaging.message.batch import AT_LEAST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.network.choices import (
    for_queue,
    has_choices,
    targets_in,
    targets_value,
    to_queue,
    with_choices,
    without_choices,
)
from sluicegate.messaging.network.link import SUBSCRIBERS, LinkTargets
from sluicegate.messaging.topics.syntax import Syntax, parse_filter
from sluicegate.storage.records.batch import decode_batch, encode_batch

MQTT = ("crew", parse_filter("plant/+/#", Syntax.MQTT))
SMF = ("équipe", parse_filter("plant/a*", Syntax.SMF))


def batch_of(*headers: Headers | None) -> MessageBatch:
    return MessageBatch(
        topic="t",
        topics=None,
        payloads=[b"%d" % row for row in range(len(headers))],
        headers=list(headers) if any(each is not None for each in headers) else None,
        qos=AT_LEAST_ONCE,
        retain=False,
        publisher="p",
        received_ms=1,
        payload_bytes=len(headers),
    )


@pytest.mark.parametrize(
    "targets",
    [
        SUBSCRIBERS,
        LinkTargets(subscribers=False, deliver_to_one=True, groups=()),
        LinkTargets(subscribers=True, deliver_to_one=True, groups=(MQTT,)),
        LinkTargets(subscribers=False, deliver_to_one=False, groups=(MQTT, SMF)),
        LinkTargets(subscribers=False, deliver_to_one=False, groups=(), queue="größe"),
        LinkTargets(subscribers=False, deliver_to_one=False, groups=(), queue="größe", failed_count=0),
        LinkTargets(subscribers=False, deliver_to_one=False, groups=(), queue="größe", failed_count=300),
        for_queue("#DEAD_MSG_QUEUE", ttl_ms=86_400_000),
        for_queue("q", 3, 1_000),
    ],
)
def test_targets_are_read_as_they_were_written(targets: LinkTargets) -> None:
    found = targets_in(targets_value(targets))
    assert (found.subscribers, found.deliver_to_one) == (targets.subscribers, targets.deliver_to_one)
    assert (found.queue, found.failed_count, found.ttl_ms) == (targets.queue, targets.failed_count, targets.ttl_ms)
    assert [(name, each.levels) for name, each in found.groups] == [
        (name, each.levels) for name, each in targets.groups
    ]


@pytest.mark.parametrize(
    ("targets", "value"),
    [
        (for_queue("q"), "04 71"),
        (for_queue("q", 2), "0c 00000002 71"),
        (for_queue("q", ttl_ms=1_000), "14 00000000000003e8 71"),
        (for_queue("q", 2, 1_000), "1c 00000002 00000000000003e8 71"),
    ],
)
def test_targets_are_stored_as_in_earlier_releases(targets: LinkTargets, value: str) -> None:
    """Messages wait in a link queue over an update."""
    assert targets_value(targets) == bytes.fromhex(value)


@pytest.mark.parametrize(
    "value",
    [
        "00 01",
        "00 00 0001 0005 63",
        "00 00 0001 0001 63 00",
        "0c 0000",
        "14 000000000003e8",
        "14 ffffffffffffffff 71",
    ],
)
def test_damaged_targets_are_found(value: str) -> None:
    with pytest.raises(ValueError, match=r"targets|shared group"):
        targets_in(bytes.fromhex(value))


def test_a_choice_stands_where_its_message_stood() -> None:
    batch = batch_of(None, Headers(partition_key="k"), None)
    expanded, places, chosen = with_choices(batch, [(0, b"\1"), (1, b"\2"), (1, b"\3")], {1, 2})
    assert expanded.payloads() == [b"0", b"1", b"1", b"1", b"2"]
    assert (places, chosen) == ([-1, 1, 4], [0, 2, 3])
    own = [each.link_targets if each is not None else b"" for each in expanded.headers() or []]
    assert own == [b"\1", b"", b"\2", b"\3", b""]
    assert [each.partition_key for each in expanded.headers() or [] if each is not None] == [None, "k", "k", "k"]
    assert not has_choices(batch)


def test_the_store_keeps_choices_and_a_neighbor_takes_them_off() -> None:
    batch = batch_of(Headers(link_targets=b"\2"), None, Headers(link_targets=b"\1", priority=7))
    stored = encode_batch(batch)
    found, _ = decode_batch(stored, 0)
    assert found.headers() == batch.headers()
    assert stored[0] == 4
    assert has_choices(found)
    plain = without_choices(found)
    assert not has_choices(plain)
    assert plain.headers() == [Headers(), None, Headers(priority=7)]
    assert encode_batch(plain)[0] == 2, "as earlier releases write it"


def test_the_life_of_a_message_for_one_queue_begins_where_it_arrives() -> None:
    """In the link queue it has no time to live that could end there."""
    dead = Headers(expires_at_ms=5_000, priority=7)
    waiting = to_queue(dead, "q", 1_000, restarts=True)
    assert (waiting.expires_at_ms, waiting.priority) == (0, 7)
    arrived = without_choices(batch_of(waiting, None).arriving(90_000))
    (first, second) = arrived.headers() or []
    assert first is not None
    assert (first.expires_at_ms, first.link_targets, first.priority, second) == (94_000, b"", 7, None)
    assert dead.expires_at_ms == 5_000, "the message in its own queue is as it was"
