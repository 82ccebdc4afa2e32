"""Which topics a queue collects: both syntaxes, exceptions, and what is no subscription (Solace 2.1 to 2.5)."""

import pytest

from sluicegate.messaging.queues.definition import QueueInvalid
from support.broker.named_queues import change, create, shown, shows
from support.broker.running_broker import RunningBroker


async def collected(broker: RunningBroker, *topics: str) -> list[str]:
    """Publish once on each topic, and return those that queue `q` has got, in order."""
    publisher = await broker.connect()
    for topic in topics:
        await publisher.publish(topic, topic.encode())
    waiting_count = (await shown(broker)).ready_count
    consumer = await broker.connect(level=5)
    await consumer.subscribe("$queue/q", qos=1)
    found = [payload.decode() for payload in await consumer.payloads(waiting_count)]
    await consumer.is_quiet()
    await consumer.unsubscribe("$queue/q")
    await consumer.vanish()
    await shows(broker, lambda view: not view.flows)
    return found


@pytest.mark.parametrize(
    ("subscriptions", "in_it", "out_of_it"),
    [
        (["orders/>", "!orders/test/>"], ["orders/eu/1", "orders/test"], ["orders/test/1", "orders/test/1/2"]),
        (["!orders/test/>", "orders/>"], ["orders/eu/1"], ["orders/test/1"]),
        (["a/b", "!a/*"], [], ["a/b"]),
        (["a/#", "!+/secret"], ["a", "a/b"], ["a/secret"]),
        (["a/>", "!a/tmp*/x"], ["a/tmp", "a/tmp1/y"], ["a/tmp/x", "a/tmp1/x"]),
        (["a/>", "b/>", "!>"], [], ["a/x", "b/x"]),
        (["a/>", "!#"], [], ["a/x"]),
        (["a/>", "!a/b", "!a/c"], ["a/d", "a/b/c"], ["a/b", "a/c"]),
        (["!a/b"], [], ["a/b", "a/c", "!a/b"]),
    ],
)
async def test_an_exception_wins_over_any_match(
    broker: RunningBroker, subscriptions: list[str], in_it: list[str], out_of_it: list[str]
) -> None:
    """Solace 2.3: whatever their order; wildcards of either syntax work in exceptions."""
    await create(broker, subscriptions=subscriptions)
    assert await collected(broker, *in_it, *out_of_it) == in_it


async def test_an_exception_is_in_force_as_soon_as_it_is_there(broker: RunningBroker) -> None:
    """Also for topics whose route was resolved before."""
    await create(broker, subscriptions=["a/>"])
    assert await collected(broker, "a/b", "a/c") == ["a/b", "a/c"]
    await change(broker, subscriptions=["a/>", "!a/b"])
    assert await collected(broker, "a/b", "a/c") == ["a/c"]
    await change(broker, subscriptions=["a/>"])
    await broker.restart()
    assert await collected(broker, "a/b", "a/c") == ["a/b", "a/c"]


@pytest.mark.parametrize(
    ("subscription", "reason"),
    [
        ("x" * 251, "it has 251 bytes; allowed: at most 250 bytes"),
        ("\u00e9" * 126, "it has 252 bytes; allowed: at most 250 bytes"),
        ("x" * 249 + "/#", "it has 251 bytes; allowed: at most 250 bytes"),
        ("/".join("a" * 129), "it has 257 bytes; allowed: at most 250 bytes"),
        ("!" + "x" * 251, "it has 251 bytes; allowed: at most 250 bytes"),
        ("a//b", "the level is empty"),
        ("!", "no filter after '!'"),
        ("#share/g/a", "a queue cannot be a member of a share"),
        ("$share/g/a", "a queue cannot be a member of a share"),
        ("!$share/g/#", "a queue cannot be a member of a share"),
        ("a+/#", "'+' beside other text"),
        ("#/a/#", "levels follow '#'"),
    ],
)
async def test_an_invalid_subscription_is_refused(broker: RunningBroker, subscription: str, reason: str) -> None:
    """Solace 2.1 and 2.5: nothing is made, and the queue may be asked for again."""
    with pytest.raises(QueueInvalid) as refusal:
        await create(broker, subscriptions=["ok", subscription])
    assert refusal.value.field == "subscriptions"
    assert reason in str(refusal.value)
    await create(broker, subscriptions=["ok"])


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("#pq/0123456789abcdef/00001", "starts with '#'"),
        ("#REPLAY_LOG_x", "starts with '#'"),
        ("#REPLAY_TOPICS_x", "starts with '#'"),
        ("/a", "starts or ends with '/'"),
        ("a/", "starts or ends with '/'"),
        ("a//b", "has an empty level"),
        ("a*", "'a*' contains '*'"),
        ("a>b", "'a>b' contains '>'"),
        ("a;b", "'a;b' contains ';'"),
        ("x" * 201, "it has 201 characters"),
        ("", "it is empty"),
    ],
)
async def test_a_reserved_or_impossible_name_is_refused(broker: RunningBroker, name: str, reason: str) -> None:
    """Solace 4.1 and 2.4: only reserved names begin with '#'."""
    with pytest.raises(QueueInvalid) as refusal:
        await create(broker, name)
    assert (refusal.value.field, reason in refusal.value.reason) == ("name", True)


async def test_the_dead_message_queue_may_be_created(broker: RunningBroker) -> None:
    """Solace 2.4: the one reserved name that people give."""
    assert (await create(broker, "#DEAD_MSG_QUEUE")).config.dead_msg_queue == ""
