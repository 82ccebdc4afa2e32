"""AMQP subscriptions to topics with a selector: what it does not select takes no place in them."""

import pytest

from sluicegate.actors.messages.directory import ListQueues
from sluicegate.protocols.amqp.codec.performatives import Attach, Detach
from sluicegate.protocols.amqp.codec.sections import APPLICATION_PROPERTIES
from sluicegate.protocols.amqp.codec.termini import COPY, NEVER, Source
from sluicegate.protocols.amqp.links.filters import selector_filter
from sluicegate.protocols.amqp.messages.decode import BODY_DATA, body_bytes_of
from sluicegate.protocols.amqp.types.encoding import encode
from sluicegate.protocols.amqp.types.values import AmqpMap
from sluicegate.storage.errors import StoreFailed
from sluicegate.storage.interface import CommitJob
from support.amqp.client import AmqpClient
from support.broker.inside_client import until
from support.broker.running_broker import RunningBroker

TOPIC = "topic://news/eu"
BIG = "qty > 3"


def source(selector: str, *, durable: bool = False, shared: bool = False) -> Source:
    return Source(
        TOPIC,
        durable=2 if durable else 0,
        expiry_policy=NEVER if durable else "session-end",
        distribution_mode=COPY,
        filters=selector_filter(selector),
        capabilities=["topic", "shared"] if shared else ["topic"],
    )


async def publish(broker: RunningBroker, *quantities: int) -> None:
    """Publish messages that say how much they are."""
    client = await AmqpClient.open(broker.amqp_port, "publisher")
    await client.sender("s", TOPIC)
    for quantity in quantities:
        said = b"\x00\x53" + bytes((APPLICATION_PROPERTIES,)) + encode(AmqpMap([("qty", quantity)]))
        client.transfer(9, said + body_bytes_of(BODY_DATA, b"%d" % quantity))
    await client.confirmed()
    await client.close()


async def waiting_count(broker: RunningBroker) -> int:
    queues = [each for each in await broker.node.default.queues.ask(ListQueues()) if each.kind == "amqp-subscription"]
    return sum(each.target.gate.usage_count for each in queues)


async def refused_with(client: AmqpClient, answer: Attach) -> str:
    assert answer.source is None
    detach = await client.awaited(Detach)
    assert detach.error is not None
    return detach.error.condition


async def test_a_subscription_gets_what_its_selector_selects(broker: RunningBroker) -> None:
    """Test case 66, of topics: what is in force is echoed."""
    client = await AmqpClient.open(broker.amqp_port, "reader")
    answer = await client.receiver("l", source(BIG), credit=10)
    assert answer.source is not None
    assert answer.source.filters == selector_filter(BIG)
    await client.receiver("all", source(""), handle=1, credit=10)
    await publish(broker, 1, 5, 2, 9)
    got = await client.deliveries(6)
    assert [each.payload for each in got if each.handle == 0] == [b"5", b"9"]
    assert [each.payload for each in got if each.handle == 1] == [b"1", b"5", b"2", b"9"]
    await client.close()


async def test_what_is_not_selected_takes_no_place_in_a_subscription_that_is_away(broker: RunningBroker) -> None:
    """AMQP 3.5.3; over a restart the selector stays, and a look-up shows it."""
    client = await AmqpClient.open(broker.amqp_port, "reader")
    await client.receiver("mine", source(BIG, durable=True))
    client.vanish()
    await publish(broker, 1, 5)
    assert await waiting_count(broker) == 1
    await broker.restart()
    await publish(broker, 2, 9)
    assert await waiting_count(broker) == 2
    client = await AmqpClient.open(broker.amqp_port, "reader")
    shown = await client.receiver("mine", None)
    assert shown.source is not None
    assert shown.source.filters == selector_filter(BIG)
    client.detach(0, closed=False)
    await client.awaited(Detach)
    await client.receiver("mine", source(BIG, durable=True), handle=1, credit=10)
    assert [each.payload for each in await client.deliveries(2)] == [b"5", b"9"]
    await client.close()


async def test_another_selector_begins_an_unused_subscription_anew(broker: RunningBroker) -> None:
    """Test case 72: while a link uses it, another selector is refused."""
    client = await AmqpClient.open(broker.amqp_port, "reader")
    await client.receiver("mine", source(BIG, durable=True, shared=True))
    answer = await client.receiver("mine|2", source("qty < 3", durable=True, shared=True), handle=1)
    assert await refused_with(client, answer) == "amqp:illegal-state"
    client.vanish()
    await publish(broker, 5)

    async def is_unused() -> bool:
        return not broker.node.amqp.open_connections()

    await until(is_unused, "the end of the connection")
    client = await AmqpClient.open(broker.amqp_port, "reader")
    await client.receiver("mine", source("qty < 3", durable=True, shared=True), credit=10)
    assert await waiting_count(broker) == 0
    await publish(broker, 9, 1)
    assert [each.payload for each in await client.deliveries(1)] == [b"1"]
    await client.close()


async def test_a_subscription_that_cannot_be_stored_refuses_its_link_only(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AMQP 2.6.3: a full disk is the link's matter; the connection goes on."""
    store = broker.node.store
    commit = store.commit

    def commit_or_fail(job: CommitJob) -> None:
        if job.table_writes:
            raise StoreFailed("no space left on device")
        commit(job)

    client = await AmqpClient.open(broker.amqp_port, "reader")
    monkeypatch.setattr(store, "commit", commit_or_fail)
    answer = await client.receiver("mine", source("", durable=True))
    assert await refused_with(client, answer) == "amqp:resource-limit-exceeded"
    monkeypatch.undo()
    client.detach(0)
    answer = await client.receiver("mine", source("", durable=True), handle=1)
    assert answer.source is not None
    await client.close()
