"""The gate of a queue: what it refuses, who hears of it, and what it counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.admission import (
    ADMITTED,
    REFUSED_MESSAGE_TOO_LARGE,
    REFUSED_QUEUE_FULL,
    REFUSED_SHUT_DOWN,
    REFUSED_SPOOL_FULL,
    REJECT_ALWAYS,
    REJECT_NEVER,
    REJECT_WHEN_ENABLED,
    QueueGate,
    SpoolGate,
)
from unit.cores.messages import batch_of


def gate_with(
    *,
    spool: SpoolGate | None = None,
    usage_bytes_max: int = 1000,
    message_bytes_max: int = 1000,
    reject_behavior: int = REJECT_WHEN_ENABLED,
) -> QueueGate:
    return QueueGate(
        spool,
        usage_bytes_max=usage_bytes_max,
        message_bytes_max=message_bytes_max,
        reject_behavior=reject_behavior,
    )


def test_a_queue_takes_messages_up_to_its_quota_and_not_a_byte_more() -> None:
    gate = gate_with(usage_bytes_max=10)
    gate.reserve(batch_of([b"123456"]))

    assert gate.verdict(batch_of([b"1234"])) == ADMITTED
    assert gate.verdict(batch_of([b"12345"])) == REFUSED_QUEUE_FULL


def test_the_size_limit_is_for_each_message_of_a_batch() -> None:
    gate = gate_with(message_bytes_max=4)

    assert gate.verdict(batch_of([b"1234", b"1234"])) == ADMITTED
    assert gate.verdict(batch_of([b"1", b"12345"])) == REFUSED_MESSAGE_TOO_LARGE


def test_the_spool_is_asked_before_the_queue_and_the_queue_before_the_ingress() -> None:
    """Solace 6.3: the checks in their order."""
    spool = SpoolGate(usage_bytes_max=5)
    gate = gate_with(spool=spool, usage_bytes_max=5, message_bytes_max=5)
    gate.ingress_enabled = False
    large = batch_of([b"123456"])
    verdicts = [gate.verdict(large)]
    spool.usage_bytes_max = 1000
    verdicts.append(gate.verdict(large))
    gate.usage_bytes_max = 1000
    verdicts.append(gate.verdict(large))
    gate.message_bytes_max = 1000
    verdicts.append(gate.verdict(large))

    assert verdicts == [REFUSED_SPOOL_FULL, REFUSED_QUEUE_FULL, REFUSED_MESSAGE_TOO_LARGE, REFUSED_SHUT_DOWN]


def test_a_store_without_room_refuses_for_all_durable_queues_and_for_no_other() -> None:
    spool = SpoolGate(usage_bytes_max=1000)
    spool.blocked = "the disk is full"

    assert gate_with(spool=spool).verdict(batch_of([b"1"])) == REFUSED_SPOOL_FULL
    assert gate_with(spool=None).verdict(batch_of([b"1"])) == ADMITTED


@pytest.mark.parametrize(
    ("verdict", "never", "when_enabled", "always"),
    [
        (REFUSED_SPOOL_FULL, True, True, True),
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
    spool = SpoolGate(usage_bytes_max=60)
    gates = [gate_with(spool=spool, usage_bytes_max=40) for _ in range(2)]
    held: list[list[tuple[int, int]]] = [[], []]
    for number, takes, sizes in steps:
        if takes:
            batch = batch_of([b"x" * size for size in sizes])
            if gates[number].verdict(batch) == ADMITTED:
                gates[number].reserve(batch)
                held[number].append((batch.count, batch.payload_bytes))
        elif held[number]:
            gates[number].release(*held[number].pop())
        for gate, batches in zip(gates, held, strict=True):
            assert gate.usage_count == sum(count for count, _ in batches)
            assert gate.usage_bytes == sum(size for _, size in batches) <= gate.usage_bytes_max
        assert spool.usage_bytes == gates[0].usage_bytes + gates[1].usage_bytes <= spool.usage_bytes_max
    for gate in gates:
        gate.close()
    assert spool.usage_bytes == 0
