"""AMQP subscriptions to topics: durable ones, shared ones, those with a selector, and how they end."""

import pytest

import support.mqtt.packets as mqtt
from sluicegate.actors.messages.directory import ListQueues, LocalQueue
from sluicegate.messaging.topics.subscription_index import subscription_bytes
from sluicegate.messaging.topics.syntax import Syntax, parse_filter
from sluicegate.protocols.amqp.codec.performatives import Attach, Detach
from sluicegate.protocols.amqp.codec.sections import APPLICATION_PROPERTIES
from sluicegate.protocols.amqp.codec.termini import COPY, NEVER, Source, Target
from sluicegate.protocols.amqp.links.filters import selector_filter
from sluicegate.protocols.amqp.messages.decode import BODY_DATA, body_bytes_of
from sluicegate.protocols.amqp.types.encoding import encode
from sluicegate.protocols.amqp.types.values import AmqpMap, Symbol, uint
from sluicegate.storage.errors import StoreDamaged, StoreFailed
from sluicegate.storage.interface import CommitJob
from support.amqp.client import AmqpClient, refused_with
from support.amqp.received import Received
from support.broker.blocked_store import BlockedStore
from support.broker.inside_client import until
from support.broker.named_queues import shows
from support.broker.running_broker import RunningBroker

TOPIC = "topic://news/eu"
SHARED_DURABLE = ["topic", "shared"]
GLOBAL_DURABLE = ["topic", "shared", "global"]


def durable(address: str = TOPIC, capabilities: list[str] | None = None) -> Source:
    return Source(address, durable=2, expiry_policy=NEVER, distribution_mode=COPY, capabilities=capabilities)


async def publish(broker: RunningBroker, *payloads: bytes, topic: str = TOPIC) -> None:
    client = await AmqpClient.open(broker.amqp_port, "publisher")
    await client.sender("s", topic)
    for payload in payloads:
        client.transfer(9, body_bytes_of(BODY_DATA, payload))
    await client.confirmed()
    await client.close()


async def subscriptions(broker: RunningBroker) -> list[LocalQueue]:
    return [each for each in await broker.node.default.queues.ask(ListQueues()) if each.kind == "amqp-subscription"]


async def count_becomes(broker: RunningBroker, count: int) -> None:
    async def is_so() -> bool:
        return len(await subscriptions(broker)) == count

    await until(is_so, f"{count} subscriptions")


def payloads(deliveries: list[Received]) -> list[bytes]:
    return [each.payload for each in deliveries]


async def test_a_durable_subscription_collects_while_its_client_is_away(broker: RunningBroker) -> None:
    """AMQP 3.5.3, test cases 32 and 68: the same container id and name is the same subscription."""
    client = await AmqpClient.open(broker.amqp_port, "reader")
    answer = await client.receiver("mine", durable())
    assert answer.source is not None
    assert (answer.source.durable, answer.source.expiry_policy) == (1, NEVER)
    client.vanish()
    await publish(broker, b"1", b"2", b"3")
    client = await AmqpClient.open(broker.amqp_port, "reader")
    await client.receiver("mine", durable(), credit=10)
    assert payloads(await client.deliveries(3)) == [b"1", b"2", b"3"]
    client.detach(0, closed=False)
    await client.awaited(Detach)
    await client.receiver("mine", durable(), handle=1, credit=10)
    assert payloads(await client.deliveries(3)) == [b"1", b"2", b"3"]
    await client.close()


async def test_a_durable_subscription_ends_when_its_link_is_closed(broker: RunningBroker) -> None:
    client = await AmqpClient.open(broker.amqp_port, "reader")
    await client.receiver("mine", durable())
    client.detach(0)
    await client.awaited(Detach)
    await count_becomes(broker, 0)
    await client.close()


async def test_looking_a_subscription_up_shows_its_source_and_closing_that_ends_it(broker: RunningBroker) -> None:
    """Test case 69, as JMS unsubscribes: an attach without a source, then a detach that closes."""
    client = await AmqpClient.open(broker.amqp_port, "reader")
    await client.receiver("mine", durable())
    assert await refused_with(client, await client.receiver("mine", None, handle=1)) == "amqp:resource-locked"
    client.detach(0, closed=False)
    await client.awaited(Detach)
    for handle, closed in ((2, False), (3, True)):
        answer = await client.receiver("mine", None, handle=handle)
        assert answer.source is not None
        assert (answer.source.address, answer.source.durable) == ("news/eu", 1)
        assert (answer.source.expiry_policy, answer.source.distribution_mode) == (NEVER, COPY)
        client.detach(handle, closed=closed)
        await client.awaited(Detach)
    await count_becomes(broker, 0)
    assert await refused_with(client, await client.receiver("mine", None, handle=4)) == "amqp:not-found"
    await client.close()


async def test_a_shared_durable_subscription_gives_each_message_to_one(broker: RunningBroker) -> None:
    """Test case 70: the part of the link's name before the bar is the subscription, known to its container."""
    clients = [await AmqpClient.open(broker.amqp_port, "team") for _ in range(2)]
    for client, name in zip(clients, ("work", "work|2"), strict=True):
        answer = await client.receiver(name, durable(capabilities=SHARED_DURABLE), credit=5)
        assert answer.source is not None
        assert answer.source.capabilities == SHARED_DURABLE
    assert len(await subscriptions(broker)) == 1
    await publish(broker, *[b"%d" % number for number in range(10)])
    got = [payloads(await client.deliveries(5)) for client in clients]
    assert sorted(got[0] + got[1]) == [b"%d" % number for number in range(10)]

    clients[0].detach(0)  # closed, but not the last
    await clients[0].awaited(Detach)
    assert len(await subscriptions(broker)) == 1
    clients[1].flow(0, 5, delivery_count=5)
    assert sorted(payloads(await clients[1].deliveries(5))) == sorted(got[0])
    clients[1].detach(0)
    await count_becomes(broker, 0)
    for client in clients:
        await client.close()


async def test_a_global_subscription_is_one_for_all_containers(broker: RunningBroker) -> None:
    """Test case 71; a lookup says with desired capabilities which one it means."""
    clients = [await AmqpClient.open(broker.amqp_port, container) for container in ("a", "b", "")]
    for client in clients:
        await client.receiver("work|global", durable(capabilities=GLOBAL_DURABLE), credit=1)
    await publish(broker, b"1", b"2", b"3")
    assert sorted(payloads([(await client.deliveries(1))[0] for client in clients])) == [b"1", b"2", b"3"]
    assert len(await subscriptions(broker)) == 1
    for client in clients:
        await client.close()
    last = await AmqpClient.open(broker.amqp_port, "c")
    answer = await last.receiver("work", None, desired=["shared", "global"])
    assert answer.source is not None
    assert answer.source.capabilities == GLOBAL_DURABLE
    last.detach(0)
    await count_becomes(broker, 0)
    await last.close()


@pytest.mark.accounts(ada="a", bob="b")
@pytest.mark.settings(
    "authentication.acl_profiles=[{name: apart, subscribe_topic_default_action: allow,"
    " subscribe_share_name_exceptions: [{topic: work}]}]",
    "authentication.users.1.acl_profile=apart",
)
async def test_a_subscription_is_not_ended_by_a_client_that_may_not_share_it(broker: RunningBroker) -> None:
    """Ending it is an attach, too: nobody else is there to say that it is wanted still."""
    ada = await AmqpClient.open(broker.amqp_port, "a", account=("ada", "a"))
    await ada.receiver("work", durable(capabilities=GLOBAL_DURABLE))
    await ada.close()
    bob = await AmqpClient.open(broker.amqp_port, "b", account=("bob", "b"))
    answer = await bob.receiver("work", None, desired=["shared", "global"])
    assert await refused_with(bob, answer) == "amqp:unauthorized-access"
    assert len(await subscriptions(broker)) == 1
    await bob.close()


async def test_a_shared_subscription_that_is_not_durable_goes_with_its_last_link(broker: RunningBroker) -> None:
    client = await AmqpClient.open(broker.amqp_port, "team")
    source = Source(TOPIC, capabilities=["shared"])
    for handle, name in enumerate(("work|volatile1", "work|volatile2")):
        answer = await client.receiver(name, source, handle=handle, credit=1)
        assert answer.source is not None
        assert answer.source.durable == 0
    await publish(broker, b"1", b"2")
    assert sorted(payloads(await client.deliveries(2))) == [b"1", b"2"]
    assert len(await subscriptions(broker)) == 1
    client.detach(0, closed=False)
    await client.awaited(Detach)
    assert len(await subscriptions(broker)) == 1
    client.detach(1, closed=False)
    await count_becomes(broker, 0)
    await client.close()


async def test_another_topic_begins_anew_unless_the_subscription_is_in_use(broker: RunningBroker) -> None:
    """Test case 72: with another topic JMS makes the subscription anew; while it is used, that is refused."""
    client = await AmqpClient.open(broker.amqp_port, "reader")
    await client.receiver("mine", durable())
    other = durable("topic://news/us")
    assert await refused_with(client, await client.receiver("mine", other, handle=1)) == "amqp:illegal-state"
    shared = durable(capabilities=SHARED_DURABLE)
    assert await refused_with(client, await client.receiver("mine", shared, handle=2)) == "amqp:illegal-state"
    await publish(broker, b"old")
    client.detach(0, closed=False)
    await client.awaited(Detach)
    await client.receiver("mine", other, handle=3)
    await publish(broker, b"new", topic="topic://news/us")
    client.flow(3, 10)
    assert payloads(await client.deliveries(1)) == [b"new"]
    await client.is_quiet()
    await client.close()


@pytest.mark.parametrize("is_durable", [False, True])
async def test_a_subscription_with_a_timeout_outlives_its_link_for_that_time(
    broker: RunningBroker, is_durable: bool
) -> None:
    """AMQP 3.5.6, test case 73: expiry begins when the link goes; who attaches again in time may change it."""
    client = await AmqpClient.open(broker.amqp_port, "reader")
    for handle, timeout_s in enumerate((3600, 1)):
        source = Source(TOPIC, durable=1 if is_durable else 0, expiry_policy="session-end", timeout_s=timeout_s)
        answer = await client.receiver("mine", source, handle=handle, credit=10)
        assert answer.source is not None
        assert (answer.source.expiry_policy, answer.source.timeout_s) == ("link-detach", timeout_s)
        if handle == 1:
            assert payloads(await client.deliveries(1)) == [b"meanwhile"]
        client.detach(handle, closed=False)
        await client.awaited(Detach)
        if handle == 0:
            await publish(broker, b"meanwhile")
    await count_becomes(broker, 0)
    await client.close()


async def test_dsub_addresses_are_durable_subscriptions(broker: RunningBroker) -> None:
    """As Solace has it: the link names the subscription, whatever durability its source asks for."""
    client = await AmqpClient.open(broker.amqp_port, "reader")
    answer = await client.receiver("mine", "dsub://news/>")
    assert answer.source is not None
    assert (answer.source.durable, answer.source.expiry_policy) == (1, NEVER)
    client.vanish()
    await publish(broker, b"1")
    client = await AmqpClient.open(broker.amqp_port, "reader")
    await client.receiver("mine", "dsub://news/>", credit=1)
    assert payloads(await client.deliveries(1)) == [b"1"]
    refused = await client.sender("s", "dsub://news/eu")
    assert refused.target is None
    await client.close()


async def test_a_durable_subscription_needs_a_container_id(broker: RunningBroker) -> None:
    client = await AmqpClient.open(broker.amqp_port, "")
    assert await refused_with(client, await client.receiver("mine", durable())) == "amqp:invalid-field"
    await client.close()


async def test_a_shared_subscription_may_ask_for_partitions(broker: RunningBroker) -> None:
    """Ours: its links own whole partitions, so a key is consumed in order by one of them."""
    client = await AmqpClient.open(broker.amqp_port, "reader")
    four, shared = AmqpMap([(Symbol("partition-count"), uint(4))]), ["topic", "shared"]
    await client.receiver("mine", Source(TOPIC, capabilities=shared), credit=100, properties=four)
    await client.receiver("mine|2", Source(TOPIC, capabilities=shared), handle=1, credit=100, properties=four)
    [queue] = await subscriptions(broker)
    view = await shows(broker, lambda view: [len(flow.partitions) for flow in view.flows] == [2, 2], name=queue.name)
    assert view.config.partition_count == 4
    publisher = await broker.connect("p", 5)
    for number in range(20):
        properties = mqtt.user_property("JMSXGroupID", f"key-{number % 5}")
        await publisher.publish("news/eu", b"%d %d" % (number % 5, number), properties=properties)
    got: dict[bytes, list[tuple[int, int]]] = {}
    for each in await client.deliveries(20):
        key, sent = each.payload.split()
        got.setdefault(key, []).append((each.handle, int(sent)))
    assert [len({handle for handle, _ in its}) for its in got.values()] == [1] * 5
    assert all(its == sorted(its) for its in got.values())
    await client.close()


async def test_partitions_that_a_subscription_cannot_have_are_refused(broker: RunningBroker) -> None:
    client = await AmqpClient.open(broker.amqp_port, "reader")
    source = Source(TOPIC, capabilities=["topic", "shared"])
    for handle, (count, condition) in enumerate(((1001, "amqp:invalid-field"), (3, ""), (4, "amqp:illegal-state"))):
        asked = AmqpMap([(Symbol("partition-count"), uint(count))])
        answer = await client.receiver(f"mine|{handle}", source, handle=handle, properties=asked)
        if condition:
            assert await refused_with(client, answer) == condition
        else:
            assert answer.source is not None
    await client.close()


@pytest.mark.accounts(ann="a", ben="b")
async def test_the_subscription_of_another_user_is_neither_ended_nor_changed(broker: RunningBroker) -> None:
    """Decision 0036: it belongs to the user who made it, whoever else comes under its container id and name."""
    ann = await AmqpClient.open(broker.amqp_port, "reader", account=("ann", "a"))
    await ann.receiver("mine", durable())
    await ann.detached(0, closed=False)
    ben = await AmqpClient.open(broker.amqp_port, "reader", account=("ben", "b"))
    wanted = (
        None,  # to be looked up, and ended
        durable(),
        durable("topic://news/us"),  # it would begin anew
        Source(TOPIC, durable=2, expiry_policy="session-end", timeout_s=1),
    )
    for handle, source in enumerate(wanted):
        answer = await ben.receiver("mine", source, handle=handle)
        assert await refused_with(ben, answer) == "amqp:unauthorized-access"
        ben.detach(handle)
    await ben.close()
    [queue] = await subscriptions(broker)
    assert (queue.definition.config.owner, queue.definition.config.expires_unbound_s) == ("ann", 0)
    assert queue.definition.subscriptions == ("news/eu",)
    await ann.close()


@pytest.mark.parametrize("address", [TOPIC, "$share/group/news/eu"])
@pytest.mark.parametrize(
    "limit",
    [
        pytest.param(name, marks=pytest.mark.settings(f"authentication.client_profiles=[{{name: default, {name}: 2}}]"))
        for name in ("max_egress_flow_count", "max_subscription_count")
    ],
)
async def test_subscriptions_that_are_asked_for_at_once_are_counted_as_well(
    broker: RunningBroker, limit: str, address: str
) -> None:
    """2.4.1: a client need not wait for the answer to an attach, and has no more than its profile allows for that."""
    client = await AmqpClient.open(broker.amqp_port, "reader")
    for handle in range(5):
        asked = Attach(f"l{handle}", handle=handle, is_receiver=True, source=Source(address), target=Target("here"))
        client.send(asked.encode())
    answers = [await client.awaited(Attach) for _ in range(5)]
    assert len([each for each in answers if each.source is not None]) == 2, limit
    for _ in range(3):
        error = (await client.awaited(Detach)).error
        assert error is not None
        assert error.condition == "amqp:resource-limit-exceeded"
    await client.close()


@pytest.mark.settings(f"vpn.subscription_bytes_max={subscription_bytes(parse_filter('news/eu', Syntax.SMF))}")
async def test_a_durable_subscription_that_begins_anew_stays_within_the_quota(broker: RunningBroker) -> None:
    """What it counted for is its own to use again, and no more than that."""
    client = await AmqpClient.open(broker.amqp_port, "reader")
    for address in (TOPIC, "topic://news/us", TOPIC):
        assert (await client.receiver("sub", durable(address))).source is not None
        await client.detached(0, closed=False)
    longer = await client.receiver("sub", durable("topic://news/eu/" + "x" * 200))
    assert await refused_with(client, longer) == "amqp:resource-limit-exceeded"
    (kept,) = await subscriptions(broker)
    assert kept.definition.subscriptions == ("news/eu",)
    await client.close()


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


async def publish_quantities(broker: RunningBroker, *quantities: int) -> None:
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


async def test_a_subscription_gets_what_its_selector_selects(broker: RunningBroker) -> None:
    """Test case 66, of topics: what is in force is echoed."""
    client = await AmqpClient.open(broker.amqp_port, "reader")
    answer = await client.receiver("l", source(BIG), credit=10)
    assert answer.source is not None
    assert answer.source.filters == selector_filter(BIG)
    await client.receiver("all", source(""), handle=1, credit=10)
    await publish_quantities(broker, 1, 5, 2, 9)
    got = await client.deliveries(6)
    assert [each.payload for each in got if each.handle == 0] == [b"5", b"9"]
    assert [each.payload for each in got if each.handle == 1] == [b"1", b"5", b"2", b"9"]
    await client.close()


async def test_an_absent_durable_subscription_queues_only_selected_messages(broker: RunningBroker) -> None:
    """AMQP 3.5.3; over a restart the selector stays, and a look-up shows it."""
    client = await AmqpClient.open(broker.amqp_port, "reader")
    await client.receiver("mine", source(BIG, durable=True))
    client.vanish()
    await publish_quantities(broker, 1, 5)
    assert await waiting_count(broker) == 1
    await broker.restart()
    await publish_quantities(broker, 2, 9)
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
    await publish_quantities(broker, 5)

    async def is_unused() -> bool:
        return not broker.node.amqp.open_connections()

    await until(is_unused, "the end of the connection")
    client = await AmqpClient.open(broker.amqp_port, "reader")
    await client.receiver("mine", source("qty < 3", durable=True, shared=True), credit=10)
    assert await waiting_count(broker) == 0
    await publish_quantities(broker, 9, 1)
    assert [each.payload for each in await client.deliveries(1)] == [b"1"]
    await client.close()


async def test_a_subscription_that_cannot_be_stored_refuses_its_link_only(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AMQP 2.6.3: a full disk is the link's matter; the connection goes on."""
    store = broker.node.services.store
    commit = store.commit

    def commit_or_fail(job: CommitJob) -> int:
        if job.table_writes:
            raise StoreFailed("no space left on device")
        return commit(job)

    client = await AmqpClient.open(broker.amqp_port, "reader")
    monkeypatch.setattr(store, "commit", commit_or_fail)
    answer = await client.receiver("mine", source("", durable=True))
    assert await refused_with(client, answer) == "amqp:resource-limit-exceeded"
    monkeypatch.undo()
    client.detach(0)
    answer = await client.receiver("mine", source("", durable=True), handle=1)
    assert answer.source is not None
    await client.close()


@pytest.mark.parametrize("looks_up", [False, True])
async def test_a_closing_detach_is_answered_when_the_deletion_is_stored(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, looks_up: bool
) -> None:
    """AMQP 2.6.6: what a client has ended does not come back. Both ways of JMS: by its consumer, and by its name."""
    client = await AmqpClient.open(broker.amqp_port, "reader")
    await client.receiver("mine", durable())
    if looks_up:
        await client.detached(0, closed=False)
        await client.receiver("mine", None)
    with BlockedStore(broker, monkeypatch) as store:
        client.detach(0)
        await client.is_quiet()
        store.let_go()
        assert (await client.awaited(Detach)).error is None
    client.vanish()
    await broker.crash()
    assert await subscriptions(broker) == []


async def test_a_closing_detach_says_that_the_deletion_is_not_stored(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AMQP 2.8.15: the link is gone, the client knows that the subscription may be back, and its session goes on."""
    client = await AmqpClient.open(broker.amqp_port, "reader")
    await client.receiver("mine", durable())

    def fail(_: CommitJob) -> int:
        raise StoreDamaged("data.mdb is damaged")

    monkeypatch.setattr(broker.node.services.store, "commit", fail)
    client.detach(0)
    detach = await client.awaited(Detach)
    assert detach.error is not None
    assert (detach.closed, detach.error.condition) == (True, "amqp:internal-error")
    assert "the end of the subscription 'mine' is not stored" in (detach.error.description or "")
    await client.is_quiet()
    client.vanish()


async def test_a_link_on_the_handle_of_one_that_is_being_closed_comes_behind_it(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AMQP 2.7.1: a client need not wait for the answer to its detach before it uses the handle again."""
    client = await AmqpClient.open(broker.amqp_port, "reader")
    await client.receiver("mine", durable())
    with BlockedStore(broker, monkeypatch) as store:
        client.detach(0)
        again = Attach("mine", handle=0, is_receiver=True, source=durable(), target=Target("here"))
        client.send(again.encode())
        await client.is_quiet()
        store.let_go()
        while not isinstance(first := await client.heard(), Detach | Attach):
            pass
    assert isinstance(first, Detach)
    answer = await client.awaited(Attach)
    assert answer.source is not None
    assert len(await subscriptions(broker)) == 1
    await client.close()
