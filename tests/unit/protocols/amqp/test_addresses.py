"""What addresses mean (3.5.1 leaves it to us): the forms that clients of several brokers write."""

import pytest

from sluicegate.protocols.amqp.codec.addresses import (
    QUEUE,
    TOPIC,
    AddressedNode,
    AddressRefused,
    destination_of_message,
    resolve,
)
from sluicegate.protocols.amqp.codec.delivery_states import DeliveryState
from sluicegate.protocols.amqp.limits import MIN_MAX_FRAME_SIZE


@pytest.mark.parametrize(
    ("address", "capabilities"),
    [
        ("a", []),
        ("a", ["queue"]),
        ("queue://a", []),
        ("QUEUE://a", ["queue"]),
        ("/queues/a", []),
        ("x::a", []),
        ("temp-queue://a", []),
        ("amqps://broker.example/a", []),
        ("amqp://broker.example:5672/queue://a", []),
    ],
)
def test_a_queue_has_many_forms(address: str, capabilities: list[str]) -> None:
    """Case 60: all of them are one queue."""
    assert resolve(address, capabilities) == AddressedNode(QUEUE, "a")


@pytest.mark.parametrize(
    ("address", "capabilities"),
    [
        ("a/b", ["topic"]),
        ("topic://a/b", []),
        ("Topic://a/b", ["topic"]),
        ("/exchanges/amq.topic/a.b", []),
        ("a/b", ["temporary-topic"]),
        ("amqp://broker.example/topic%3A%2F%2Fa/b", []),
    ],
)
def test_a_topic_has_many_forms(address: str, capabilities: list[str]) -> None:
    """Case 60: all of them are one topic."""
    assert resolve(address, capabilities) == AddressedNode(TOPIC, "a/b")


def test_parts_of_a_path_are_percent_encoded() -> None:
    """Case 61: so a queue's name may hold a slash."""
    assert resolve("/queues/a%2Fb", []) == AddressedNode(QUEUE, "a/b")
    assert resolve("amqps://h/a%20b", []) == AddressedNode(QUEUE, "a b")


@pytest.mark.parametrize(
    ("address", "capabilities", "condition"),
    [
        ("queue://a", ["topic"], "amqp:not-allowed"),
        ("topic://a", ["queue"], "amqp:not-allowed"),
        ("", [], "amqp:invalid-field"),
        ("queue://", [], "amqp:invalid-field"),
        ("amqps://host", [], "amqp:invalid-field"),
        ("amqps://host/", [], "amqp:invalid-field"),
        ("/exchanges/other/key", [], "amqp:not-implemented"),
    ],
)
def test_an_address_that_means_nothing_is_refused(address: str, capabilities: list[str], condition: str) -> None:
    with pytest.raises(AddressRefused) as refused:
        resolve(address, capabilities)
    assert refused.value.condition == condition


@pytest.mark.parametrize("to", ["topic://" + "+" * 100_000, "/exchanges/" + "x" * 100_000])
def test_a_refusal_of_a_long_address_fits_into_any_frame(to: str) -> None:
    """2.7.1: the smallest that a peer may take has 512 bytes; the reason is still there."""
    refusal = destination_of_message(to)
    assert isinstance(refusal, DeliveryState)
    assert refusal.error is not None
    assert len(refusal.encode()) < MIN_MAX_FRAME_SIZE - 50
    assert refusal.error.description.endswith(("allowed: at most 65535 bytes of UTF-8", "no exchanges but amq.topic"))
