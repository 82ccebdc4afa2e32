"""The key of a message on a queue: what its publisher gave, else a level of its topic, or the publisher's client id."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.message.batch import AT_LEAST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.keys import (
    NO_HASH,
    KeySource,
    KeySourceInvalid,
    key_hash,
    key_hash_in,
    key_hashes,
    key_in,
    key_source_from,
)
from sluicegate.messaging.message.outcomes import FAILED
from sluicegate.messaging.partitions.explain import WaitReason, key_status
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.state.flows import ORDER_BY_KEY, DeliveryRules
from sluicegate.messaging.partitions.state.rescale_holds import RescaleHolds
from sluicegate.messaging.queues.assignment.slots import modulo_slots
from support.cores.messages import flow_of, published, sequences_of

LEVELS = st.lists(st.sampled_from(["a", "b", "", "device-7"]), min_size=1, max_size=4)
SECOND_LEVEL = KeySource(2)


def batch_on(topics: list[str], *, publisher: str = "p", headers: list[Headers | None] | None = None) -> MessageBatch:
    """Return a message on each topic."""
    return MessageBatch(
        topic=topics[0] if len(set(topics)) == 1 else "",
        topics=None if len(set(topics)) == 1 else topics,
        payloads=[b"m"] * len(topics),
        headers=headers,
        qos=AT_LEAST_ONCE,
        retain=False,
        publisher=publisher,
        received_ms=0,
        payload_bytes=len(topics),
    )


def key_by_hand(level: int, topic: str, publisher: str) -> str:
    """What the documentation says, in other words."""
    levels = [publisher] if level == 0 else topic.split("/")[level - 1 :]
    return levels[0] if levels else ""


@given(topics=st.lists(LEVELS.map("/".join), min_size=1, max_size=6), level=st.integers(0, 5), publisher=st.text())
def test_a_batch_has_the_hashes_that_its_rows_have_by_hand(topics: list[str], level: int, publisher: str) -> None:
    """Goal: a batch of one topic or many, at once or row by row, comes to the same. Method: keys taken by hand."""
    source, batch = KeySource(level), batch_on(topics, publisher=publisher)
    keys = [key_by_hand(level, topic, publisher) for topic in topics]

    assert [key_in(source, batch, row) or "" for row in range(batch.count)] == keys
    hashes = [key_hash(key) if key else NO_HASH for key in keys]
    assert key_hashes(source, batch) == hashes
    assert [key_hash_in(source, batch, row) for row in range(batch.count)] == hashes
    assert [key_hash_in(None, batch, row) for row in range(batch.count)] == [NO_HASH] * batch.count


def test_a_key_that_the_publisher_gave_comes_first() -> None:
    given_key = Headers(partition_key="given", key_hash=key_hash("given"))
    batch = batch_on(["a/b", "a/b"], headers=[given_key, Headers(priority=9)])

    assert [key_in(SECOND_LEVEL, batch, row) for row in range(2)] == ["given", "b"]
    assert [key_hash_in(SECOND_LEVEL, batch, row) for row in range(2)] == [key_hash("given"), key_hash("b")]


@pytest.mark.parametrize(("text", "level"), [("client-id", 0), ("topic-level:1", 1), ("topic-level:200", 200)])
def test_a_source_is_named_by_a_text(text: str, level: int) -> None:
    source = key_source_from(text)
    assert source is not None
    assert source.topic_level == level
    assert key_source_from("property") is None


@pytest.mark.parametrize("text", ["", "topic", "topic-level", "topic-level:0", "topic-level:01", "topic-level:201"])
def test_invalid_key_sources_are_refused_with_the_allowed_ones(text: str) -> None:
    with pytest.raises(KeySourceInvalid, match="topic-level:N with N from 1 to 200") as refused:
        key_source_from(text)
    assert repr(text) in str(refused.value)


# --- in a partition ---


def device_of(partition: int) -> str:
    return next(name for name in map(str, range(100)) if key_hash(name) % 2 == partition)


def delivered(ledger: Ledger, wall_ms: int = 0) -> list[int]:
    deliveries = ledger.deliver(wall_ms)
    ledger.check()
    return [sequence for each in deliveries for sequence in sequences_of(each)]


def ledger_of(topics: list[str], rules: DeliveryRules) -> Ledger:
    ledger = Ledger(durable=True, rules=rules)
    batch = batch_on(topics)
    ledger.append(batch, published(batch))
    return ledger


def test_a_failed_message_holds_up_those_of_its_topic_level_and_explain_says_so() -> None:
    """docs/concepts/partitions.md: order is kept by key, wherever the key comes from."""
    rules = DeliveryRules(redelivery_delay_ms=100, redelivery_delay_ms_max=100, order=ORDER_BY_KEY)
    rules.key_source = SECOND_LEVEL
    ledger = ledger_of(["t/one", "t/one", "t/two"], rules)
    ledger.attach(flow_of(1, limit=1), 1)
    assert delivered(ledger, 1) == [1]
    ledger.settle(1, 1, 2, FAILED)
    ledger.flows[1].flow.window.give(1)

    assert delivered(ledger, 2) == [3], "another key goes on"
    assert key_status(ledger, "one").reason is WaitReason.REDELIVERY_DELAY
    assert key_status(ledger, "one").waiting_count == 2
    assert key_status(ledger, "two").in_flight_count == 1


def test_messages_of_a_level_whose_slot_moved_wait_for_those_before_them() -> None:
    """decision 0021, for keys that no message carries."""
    rules = DeliveryRules()
    rules.key_source = SECOND_LEVEL
    moved, own = device_of(0), device_of(1)
    ledger = ledger_of([f"t/{moved}", f"t/{own}", "t"], rules)
    ledger.rescale_holds = RescaleHolds()
    ledger.rescale_holds.close(1, modulo_slots(2), [0])
    ledger.attach(flow_of(1), 1)

    assert delivered(ledger) == [2, 3], "the last one has no second level, and so no order to keep"
    assert key_status(ledger, moved).reason is WaitReason.RESCALE
    ledger.open_source(0)
    assert delivered(ledger) == [1]
