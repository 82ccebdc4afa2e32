"""The gate of a queue: what it refuses, who hears of it, and what it counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.message.refusals import (
    ADMITTED,
    REFUSED_LOW_PRIORITY,
    REFUSED_MESSAGE_TOO_LARGE,
    REFUSED_QUEUE_COUNT,
    REFUSED_QUEUE_FULL,
    REFUSED_SHUT_DOWN,
    REFUSED_SPOOL_COUNT,
    REFUSED_SPOOL_FULL,
    REFUSED_VPN_FULL,
    REJECT_ALWAYS,
    REJECT_NEVER,
    REJECT_WHEN_ENABLED,
)
from sluicegate.messaging.message.thresholds import Exceedance, Threshold, ThresholdPair
from sluicegate.messaging.queues.admission import LOW_PRIORITY_BELOW, NO_LIMIT, QueueGate, SpoolGate
from support.cores.messages import batch_of, with_priority


def gate_with(
    *,
    spool: SpoolGate | None = None,
    usage_bytes_max: int = 10_000,
    message_bytes_max: int = 1000,
    reject_behavior: int = REJECT_WHEN_ENABLED,
) -> QueueGate:
    return QueueGate(
        spool,
        usage_bytes_max=usage_bytes_max,
        message_bytes_max=message_bytes_max,
        reject_behavior=reject_behavior,
    )


def usage_of(*payloads: bytes, durable: bool) -> int:
    """Return what messages of these payloads count for."""
    return batch_of(list(payloads)).usage_bytes(durable=durable)


def test_a_queue_takes_messages_up_to_its_quota_and_not_a_byte_more() -> None:
    gate = gate_with(usage_bytes_max=usage_of(b"123456", b"1234", durable=False))
    gate.reserve(batch_of([b"123456"]))

    assert gate.verdict(batch_of([b"1234"])) == ADMITTED
    assert gate.verdict(batch_of([b"12345"])) == REFUSED_QUEUE_FULL


def test_a_spool_takes_messages_up_to_its_quota_and_not_a_byte_more() -> None:
    spool = SpoolGate(usage_bytes_max=usage_of(b"123456", b"1234", durable=True))
    gate = gate_with(spool=spool)
    gate.reserve(batch_of([b"123456"]))

    assert gate.verdict(batch_of([b"1234"])) == ADMITTED
    assert gate.verdict(batch_of([b"12345"])) == REFUSED_SPOOL_FULL


def test_the_numbers_of_messages_are_watched_as_they_rise_and_fall() -> None:
    told: list[tuple[str, bool, int]] = []
    spool = SpoolGate(usage_bytes_max=10_000)
    gate = gate_with(spool=spool)
    spool.count_threshold = Threshold(lambda raised, _, value: told.append(("spool", raised, value)))
    gate.low_priority_threshold = Threshold(lambda raised, _, value: told.append(("queue", raised, value)))
    for each in (spool.count_threshold, gate.low_priority_threshold):
        each.watch(ThresholdPair("3/2"), limit=10, unit=1, value=0)

    gate.reserve(batch_of([b"a", b"b"]))
    gate.reserve(batch_of([b"c"]))
    gate.release(1, 1)
    gate.release(1, 1)

    assert told == [("queue", True, 3), ("spool", True, 3), ("queue", False, 1), ("spool", False, 1)]


def test_a_store_without_room_is_no_quota_that_refuses() -> None:
    """That it is full is told when it becomes so."""
    told: list[int] = []
    spool = SpoolGate(usage_bytes_max=10)
    spool.usage_exceeded = Exceedance(told.append)
    gate = gate_with(spool=spool)
    spool.blocked = "the disk is full"
    gate.refuse(REFUSED_SPOOL_FULL, 1, hears=True)
    assert told == []
    spool.blocked = ""
    gate.refuse(REFUSED_SPOOL_FULL, 1, hears=True)
    assert told == [10]


def test_the_size_limit_is_for_each_message_of_a_batch() -> None:
    gate = gate_with(message_bytes_max=4)

    assert gate.verdict(batch_of([b"1234", b"1234"])) == ADMITTED
    assert gate.verdict(batch_of([b"1", b"12345"])) == REFUSED_MESSAGE_TOO_LARGE


def test_the_checks_are_made_in_their_order() -> None:
    """Solace 6.3. Method: everything is wrong at first, and put right from the outermost check on."""
    node = SpoolGate(usage_bytes_max=5, usage_count_max=0)
    vpn = SpoolGate(usage_bytes_max=5, refusal=REFUSED_VPN_FULL, parent=node)
    gate = QueueGate(vpn, usage_bytes_max=5, message_bytes_max=5, usage_count_max=0)
    gate.ingress_enabled = False
    gate.low_priority_count_max = 0
    message = with_priority(batch_of([b"123456"]), LOW_PRIORITY_BELOW - 1)
    verdicts = [gate.verdict(message)]
    node.bound(1000)
    verdicts.append(gate.verdict(message))
    vpn.bound(1000)
    verdicts.append(gate.verdict(message))
    gate.usage_bytes_max = 1000
    verdicts.append(gate.verdict(message))
    gate.message_bytes_max = 1000
    verdicts.append(gate.verdict(message))
    gate.ingress_enabled = True
    verdicts.append(gate.verdict(message))
    gate.low_priority_count_max = NO_LIMIT
    verdicts.append(gate.verdict(message))
    gate.usage_count_max = 1000
    verdicts.append(gate.verdict(message))
    gate.spool = SpoolGate(usage_bytes_max=1000)
    verdicts.append(gate.verdict(message))

    assert verdicts == [
        REFUSED_SPOOL_FULL,
        REFUSED_VPN_FULL,
        REFUSED_QUEUE_FULL,
        REFUSED_MESSAGE_TOO_LARGE,
        REFUSED_SHUT_DOWN,
        REFUSED_LOW_PRIORITY,
        REFUSED_QUEUE_COUNT,
        REFUSED_SPOOL_COUNT,
        ADMITTED,
    ]


@pytest.mark.parametrize(("priority", "verdict"), [(0, REFUSED_LOW_PRIORITY), (3, REFUSED_LOW_PRIORITY), (4, ADMITTED)])
def test_the_limit_for_low_priority_counts_all_messages_of_the_queue(priority: int, verdict: int) -> None:
    """Solace 4.2: rejectLowPriorityMsgLimit."""
    gate = gate_with()
    gate.low_priority_count_max = 2
    gate.reserve(batch_of([b"1"]))
    assert gate.verdict(with_priority(batch_of([b"2"]), priority)) == ADMITTED
    gate.reserve(batch_of([b"2"]))
    assert gate.verdict(with_priority(batch_of([b"3"]), priority)) == verdict
    assert gate.verdict(batch_of([b"3"])) == ADMITTED


def test_a_store_without_room_refuses_for_all_durable_queues_and_for_no_other() -> None:
    spool = SpoolGate(usage_bytes_max=10_000)
    spool.blocked = "the disk is full"

    assert gate_with(spool=spool).verdict(batch_of([b"1"])) == REFUSED_SPOOL_FULL
    assert gate_with(spool=None).verdict(batch_of([b"1"])) == ADMITTED


@pytest.mark.parametrize(
    ("verdict", "never", "when_enabled", "always"),
    [
        (REFUSED_SPOOL_FULL, True, True, True),
        (REFUSED_VPN_FULL, True, True, True),
        (REFUSED_SPOOL_COUNT, True, True, True),
        (REFUSED_QUEUE_COUNT, False, True, True),
        (REFUSED_LOW_PRIORITY, False, True, True),
        (REFUSED_QUEUE_FULL, False, True, True),
        (REFUSED_MESSAGE_TOO_LARGE, False, True, True),
        (REFUSED_SHUT_DOWN, False, False, True),
    ],
)
def test_who_hears_of_a_refusal(verdict: int, never: bool, when_enabled: bool, always: bool) -> None:
    """Solace 13.3."""
    told = [
        gate_with(reject_behavior=behavior).refuses_publisher(verdict)
        for behavior in (REJECT_NEVER, REJECT_WHEN_ENABLED, REJECT_ALWAYS)
    ]

    assert told == [never, when_enabled, always]


SIZES = st.lists(st.integers(0, 9), min_size=1, max_size=4)


@given(steps=st.lists(st.tuples(st.integers(0, 1), st.booleans(), SIZES), max_size=30))
def test_the_spool_counts_what_its_queues_count(steps: list[tuple[int, bool, list[int]]]) -> None:
    """Goal: usage is what was reserved and not released, for each queue and for all. Method: keep the batches."""
    node = SpoolGate(usage_bytes_max=100_000)
    spool = SpoolGate(usage_bytes_max=1200, refusal=REFUSED_VPN_FULL, parent=node)
    gates = [gate_with(spool=spool, usage_bytes_max=800) for _ in range(2)]
    held: list[list[tuple[int, int]]] = [[], []]
    for number, takes, sizes in steps:
        if takes:
            batch = batch_of([b"x" * size for size in sizes])
            if gates[number].verdict(batch) == ADMITTED:
                gates[number].reserve(batch)
                held[number].append((batch.count, batch.usage_bytes(durable=True)))
        elif held[number]:
            gates[number].release(*held[number].pop())
        for gate, batches in zip(gates, held, strict=True):
            assert gate.usage_count == sum(count for count, _ in batches)
            assert gate.usage_bytes == sum(size for _, size in batches) <= gate.usage_bytes_max
        assert (node.usage_bytes, node.usage_count) == (spool.usage_bytes, spool.usage_count)
        assert spool.usage_bytes == gates[0].usage_bytes + gates[1].usage_bytes <= spool.usage_bytes_max
    for gate in gates:
        gate.close()
    assert (spool.usage_bytes, node.usage_bytes, node.usage_count) == (0, 0, 0)
