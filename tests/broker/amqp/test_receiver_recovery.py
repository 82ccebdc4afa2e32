"""AMQP receivers that resume links with unsettled deliveries (2.6.13), also over a restart of the broker."""

import random

import pytest

from sluicegate.actors.messages.directory import DeleteQueue
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.messaging.topics.syntax import DEAD_MESSAGE_QUEUE
from sluicegate.protocols.amqp.codec.delivery_states import ACCEPTED, MODIFIED, RECEIVED, REJECTED, DeliveryState
from sluicegate.protocols.amqp.codec.performatives import Attach, Detach
from sluicegate.protocols.amqp.codec.termini import LINK_DETACH, NEVER, SESSION_END, Source, Target
from sluicegate.protocols.amqp.datapath.receiver_recovery import AWAY_S_MAX, ResumableFlows
from sluicegate.protocols.amqp.types.values import AmqpMap, AmqpValue, Described, Scalar, ulong
from support.amqp.client import AmqpClient, AmqpClients
from support.amqp.received import Received
from support.broker.inside_client import InsideClient, until
from support.broker.operator_views import event_texts
from support.broker.running_broker import RunningBroker

IN = 1
DONE = DeliveryState(ACCEPTED)
COUNT = 200


async def queue(broker: RunningBroker, *payloads: bytes, **attributes: object) -> InsideClient:
    orders = InsideClient(broker, "orders")
    await orders.create(**{"access_type": "non-exclusive", **attributes})
    await orders.publish(*payloads)
    return orders


async def attach(
    peer: AmqpClient,
    states: dict[bytes, AmqpValue] | None = None,
    *,
    credit: int = 10,
    policy: str = NEVER,
    timeout_s: int = 0,
    incomplete: bool = False,
    rcv_second: bool = False,
    address: str = "orders",
) -> Attach:
    """Attach the receiver `in`, with what it says of deliveries."""
    return await peer.receiver(
        "in",
        Source(address, expiry_policy=policy, timeout_s=timeout_s),
        handle=IN,
        credit=credit,
        unsettled=AmqpMap(list(states.items())) if states else None,
        incomplete=incomplete,
        rcv_second=rcv_second,
    )


def tags_in(answer: Attach) -> set[AmqpValue]:
    return set() if answer.unsettled is None else {tag for tag, _ in answer.unsettled.pairs}


def shown(messages: list[Received]) -> list[tuple[AmqpValue, bool, int]]:
    return [(each.body, each.is_resumed, each.delivery_count) for each in messages]


async def count_in(orders: InsideClient) -> int:
    return (await orders.overview()).usage_count


async def none_waits(orders: InsideClient) -> bool:
    return await count_in(orders) == 0


async def lost(broker: RunningBroker, peer: AmqpClient) -> None:
    """Lose the connection, and have the broker see it."""
    peer.vanish()
    await until(lambda: not broker.node.amqp.open_connections(), "the end of the connection")


async def test_outcomes_take_effect_and_what_has_none_is_resumed(broker: RunningBroker, amqp: AmqpClients) -> None:
    """2.6.13; reference 17: an outcome of the client counts; without one it is resumed; unknown to it, it is new."""
    orders = await queue(broker, b"a", b"b", b"c", b"d")
    peer = await amqp.connect()
    await attach(peer)
    first, second, third, fourth = await peer.deliveries(4)
    await lost(broker, peer)

    peer = await amqp.connect()
    received = Described(ulong(RECEIVED), [Scalar(0x70, 0), ulong(0)])
    answer = await attach(peer, {first.tag: DONE.described(), second.tag: None, third.tag: received})
    assert tags_in(answer) == {second.tag, third.tag}
    again = await peer.deliveries(3)
    assert sorted(shown(again)) == [(b"b", True, 0), (b"c", True, 0), (b"d", False, 1)]
    assert {each.tag for each in again if each.is_resumed} == {second.tag, third.tag}
    assert fourth.tag not in [each.tag for each in again]
    assert await count_in(orders) == 3
    peer.settle(0, 2, DONE)
    await until(lambda: none_waits(orders), "an empty queue")
    assert broker.node.services.credit.used == 0


async def test_every_outcome_in_the_map_has_its_effect(broker: RunningBroker, amqp: AmqpClients) -> None:
    """2.6.13: as if it had come over the connection that was lost."""
    await queue(broker, b"a")
    peer = await amqp.connect()
    await attach(peer)
    message = await peer.delivery()
    await lost(broker, peer)
    peer = await amqp.connect()
    failed = DeliveryState(MODIFIED, delivery_failed=True)
    assert tags_in(await attach(peer, {message.tag: failed.described()})) == set()
    assert shown([await peer.delivery()]) == [(b"a", False, 1)]


async def test_a_message_that_was_late_and_came_again_is_resumed_once(broker: RunningBroker, amqp: AmqpClients) -> None:
    """Its client had two deliveries of it: they count as one from now on, and the link has all of its credit."""
    orders = await queue(broker, b"a", consumer_ack_timeout_ms=60_000)
    peer = await amqp.connect()
    await attach(peer)
    late = await peer.delivery()
    broker.clock.forward(65)
    await count_in(orders)  # gives the queue a turn
    again = await peer.delivery()
    await lost(broker, peer)

    peer = await amqp.connect()
    answer = await attach(peer, {late.tag: None, again.tag: None}, credit=1)
    assert tags_in(answer) == {again.tag}
    assert shown([await peer.delivery()]) == [(b"a", True, 1)]
    peer.settle(0, 0, DONE)
    await until(lambda: none_waits(orders), "an empty queue")
    assert broker.node.services.credit.used == 0


async def test_messages_of_an_absent_client_go_to_no_other_until_its_time_is_over(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """3.5.6: the terminus lasts for the timeout; then what it held goes back to the queue, its count one higher."""
    orders = await queue(broker, b"a", b"b")
    peer = await amqp.connect()
    answer = await attach(peer, policy=SESSION_END, timeout_s=20)
    assert isinstance(answer.source, Source)
    assert (answer.source.expiry_policy, answer.source.timeout_s) == (LINK_DETACH, 20)
    await peer.deliveries(2)
    await lost(broker, peer)
    other = await amqp.connect("other")
    await other.receiver("in", "orders", handle=IN, credit=100)
    await orders.publish(b"c")
    assert (await other.delivery()).body == b"c"
    broker.forward(19)
    await other.round_trip()
    assert other.nothing_waits(Received)
    broker.forward(2)
    assert shown(await other.deliveries(2)) == [(b"a", False, 1), (b"b", False, 1)]
    assert tags_in(await attach(await amqp.connect())) == set()


@pytest.mark.parametrize("is_connected", [True, False])
async def test_unsettled_messages_of_a_deleted_user_go_to_other_consumers_at_once(
    broker: RunningBroker, is_connected: bool
) -> None:
    """3.5.6: nobody comes back to the terminus, whether the client was still there or away already."""
    node = NodeOperations(broker.node)
    await queue(broker, b"a", b"b")
    for name in ("ada", "bob"):
        await node.create_user({"name": name, "password": "engine"})
    ada, bob, worker = [
        await AmqpClient.open(broker.amqp_port, each, account=(each, "engine") if each != "worker" else None)
        for each in ("ada", "bob", "worker")
    ]
    for peer in (ada, bob):
        await attach(peer, credit=1)
        await peer.delivery()
    bob.vanish()
    if not is_connected:
        ada.vanish()
    await until(lambda: len(broker.node.amqp.open_connections()) == 1 + is_connected, "the end of connections")
    await worker.receiver("in", "orders", handle=IN, credit=10)
    await node.delete_user("ada")
    assert shown([await worker.delivery()]) == [(b"a", False, 1)]
    await worker.is_quiet()  # bob may come back
    for peer in (ada, worker):
        peer.vanish()


async def test_a_link_that_does_not_ask_for_it_holds_nothing(broker: RunningBroker, amqp: AmqpClients) -> None:
    """3.5.6: by default a terminus ends with its session."""
    await queue(broker, b"a")
    peer = await amqp.connect()
    answer = await attach(peer, policy=SESSION_END)
    assert isinstance(answer.source, Source)
    assert (answer.source.expiry_policy, answer.source.timeout_s) == (SESSION_END, 0)
    message = await peer.delivery()
    peer.vanish()
    peer = await amqp.connect()
    assert tags_in(await attach(peer, {message.tag: None}, policy=SESSION_END)) == set()
    assert shown([await peer.delivery()]) == [(b"a", False, 1)]


async def test_the_time_that_is_granted_has_a_bound(broker: RunningBroker, amqp: AmqpClients) -> None:
    """The answer says what is in force (2.6.3)."""
    await queue(broker)
    peer = await amqp.connect()
    answer = await attach(peer, policy=NEVER)
    assert isinstance(answer.source, Source)
    assert (answer.source.expiry_policy, answer.source.timeout_s) == (LINK_DETACH, AWAY_S_MAX)


async def test_a_link_that_is_closed_lets_go_and_one_that_is_detached_does_not(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """2.6.6: closing destroys the terminus, detaching suspends the link."""
    await queue(broker, b"a")
    peer = await amqp.connect()
    await attach(peer)
    message = await peer.delivery()
    await peer.detached(IN, closed=False)
    assert tags_in(await attach(peer, {message.tag: None})) == {message.tag}
    assert (await peer.delivery()).is_resumed
    await peer.detached(IN, closed=True)
    assert tags_in(await attach(peer, {message.tag: None})) == set()
    assert shown([await peer.delivery()]) == [(b"a", False, 1)]


async def test_deliveries_to_be_resumed_are_released_when_their_link_is_closed(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """2.6.6: what a link holds that is closed is not settled."""
    await queue(broker, b"a", b"b")
    peer = await amqp.connect()
    await attach(peer)
    states: dict[bytes, AmqpValue] = {each.tag: None for each in await peer.deliveries(2)}
    await peer.detached(IN, closed=False)
    assert tags_in(await attach(peer, states, credit=0)) == states.keys()
    await peer.detached(IN, closed=True)
    await attach(peer)
    assert shown(await peer.deliveries(2)) == [(b"a", False, 1), (b"b", False, 1)]


async def test_a_client_that_is_back_before_it_is_seen_to_be_gone_has_what_it_held(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """2.6.1: the link is taken from where it was, with what it holds; there nothing can be settled any more."""
    orders = await queue(broker, b"a", b"b")
    old = await amqp.connect()
    await attach(old)
    first, second = await old.deliveries(2)
    peer = await amqp.connect()
    assert tags_in(await attach(peer, {first.tag: None, second.tag: None})) == {first.tag, second.tag}
    await old.is_detached("amqp:link:stolen")
    old.settle(0, 1, DONE)
    await old.round_trip()
    assert [each.is_resumed for each in await peer.deliveries(2)] == [True, True]
    assert await count_in(orders) == 2


async def test_another_queue_under_the_same_name_is_another_link(broker: RunningBroker, amqp: AmqpClients) -> None:
    """2.6.1; 3.5: then what the first one held is let go at once."""
    await queue(broker, b"a")
    await InsideClient(broker, "other").create()
    peer = await amqp.connect()
    await attach(peer)
    message = await peer.delivery()
    await lost(broker, peer)
    peer = await amqp.connect()
    assert tags_in(await attach(peer, {message.tag: None}, address="other")) == set()
    worker = await amqp.connect("worker")
    await worker.receiver("in", "orders", handle=IN, credit=100)
    assert shown([await worker.delivery()]) == [(b"a", False, 1)]


async def test_a_map_that_is_incomplete_resumes_nothing_and_nothing_new_comes(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """2.7.3 incomplete-unsettled: no new deliveries before the link is attached with a map that is complete."""
    orders = await queue(broker, b"a", b"b", b"c", access_type="exclusive")
    peer = await amqp.connect()
    await attach(peer)
    first, second, third = await peer.deliveries(3)
    await lost(broker, peer)
    await orders.publish(b"d")
    peer = await amqp.connect()
    answer = await attach(peer, {first.tag: DONE.described(), second.tag: None}, incomplete=True)
    assert tags_in(answer) == {third.tag}
    await peer.round_trip()
    assert peer.nothing_waits(Received)
    await peer.detached(IN, closed=False)
    assert tags_in(await attach(peer, {third.tag: None})) == {third.tag}
    assert sorted(shown(await peer.deliveries(3))) == [(b"b", False, 1), (b"c", True, 0), (b"d", False, 0)]


@pytest.mark.settings("spool.commit_interval_ms=1000")
async def test_an_outcome_that_is_not_stored_yet_when_the_connection_is_lost_is_stored_when_the_link_is_back(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """2.6.12, 2.6.13: of a receiver that settles second, what is in neither map is settled for ever."""
    orders = await queue(broker, b"a", b"b")
    peer = await amqp.connect()
    await attach(peer, rcv_second=True)
    first, second = await peer.deliveries(2)
    peer.settle(first.delivery_id, first.delivery_id, DONE, settled=False)
    await peer.round_trip()
    await lost(broker, peer)
    peer = await amqp.connect()
    states: dict[bytes, AmqpValue] = {first.tag: DONE.described(), second.tag: DONE.described()}
    assert tags_in(await attach(peer, states, rcv_second=True)) == set()
    await broker.crash()
    assert await count_in(orders) == 0


@pytest.mark.slow
async def test_a_rejection_that_cannot_reach_its_dead_message_queue_does_not_keep_a_link_away(
    broker: RunningBroker, amqp: AmqpClients, caplog: pytest.LogCaptureFixture
) -> None:
    """2.6.13: over a fault of the gateway, for as long as that lasts. The client gets the other messages."""
    dead = InsideClient(broker, DEAD_MESSAGE_QUEUE)
    await dead.create(subscriptions=[], access_type="non-exclusive", partition_count=2)
    orders = await queue(broker)
    await orders.publish(b"bad", keys=["key"])
    (await dead.handle()).target.slots = b""
    peer = await amqp.connect()
    await attach(peer, rcv_second=True)
    peer.settle((await peer.delivery()).delivery_id, state=DeliveryState(REJECTED), settled=False)
    await until(lambda: is_reported(broker), "the fault")
    await lost(broker, peer)

    await orders.publish(b"good")
    peer = await amqp.connect()
    assert (await attach(peer, rcv_second=True)).source is not None
    assert shown([await peer.delivery()]) == [(b"good", False, 0)]
    (await dead.handle()).target.slots = None
    caplog.clear()  # of the fault


async def is_reported(broker: RunningBroker) -> bool:
    return len(await event_texts(broker, "VPN_AD_DEAD_MSG_MOVE_FAILED")) == 1


async def test_resumed_deliveries_use_credit_and_can_be_resumed_again(broker: RunningBroker, amqp: AmqpClients) -> None:
    """2.6.7: a resumed delivery is a delivery; 2.6.13: one that was not is still unsettled."""
    orders = await queue(broker, *[b"%d" % number for number in range(6)])
    peer = await amqp.connect()
    await attach(peer, credit=6)
    states: dict[bytes, AmqpValue] = {each.tag: None for each in await peer.deliveries(6)}
    for credit in (0, 2, 4):
        await lost(broker, peer)
        peer = await amqp.connect()
        assert tags_in(await attach(peer, states, credit=credit)) == states.keys()
        again = await peer.deliveries(credit)
        assert [each.is_resumed for each in again] == [True] * credit
        await peer.round_trip()
        assert peer.nothing_waits(Received)
    await lost(broker, peer)
    peer = await amqp.connect()
    await attach(peer, states, credit=7)
    again = await peer.deliveries(6)
    assert [(each.body, each.tag) for each in again] == [(b"%d" % row, tag) for row, tag in enumerate(states)]
    peer.settle(0, 5, DONE)
    await until(lambda: none_waits(orders), "an empty queue")
    await orders.publish(b"new")
    assert shown([await peer.delivery()]) == [(b"new", False, 0)]
    assert broker.node.services.credit.used == 1


async def test_a_queue_that_is_deleted_meanwhile_takes_everything_along(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """A flow that the queue has let go of is not waited for; a queue of the same name is a new one."""
    await queue(broker, b"a")
    peer = await amqp.connect()
    await attach(peer)
    message = await peer.delivery()
    await lost(broker, peer)
    await broker.node.default.queues.ask(DeleteQueue("orders"))
    await queue(broker, b"b")
    peer = await amqp.connect()
    assert tags_in(await attach(peer, {message.tag: DONE.described()})) == set()
    assert shown([await peer.delivery()]) == [(b"b", False, 0)]


@pytest.mark.parametrize("bounds", [ResumableFlows(flows_max=1), ResumableFlows(deliveries_max=3)])
async def test_beyond_a_bound_a_link_lets_go_at_once(
    broker: RunningBroker, amqp: AmqpClients, bounds: ResumableFlows
) -> None:
    """What is kept for clients that are away is bounded: in links, and in deliveries over all of them."""
    broker.node.default.amqp_registry.resumable = bounds
    orders = await queue(broker, b"a", b"b")
    first, second = await amqp.connect("first"), await amqp.connect("second")
    await attach(first, credit=2)
    await first.deliveries(2)
    await orders.publish(b"c", b"d")
    await attach(second, credit=2)
    await second.deliveries(2)
    first.vanish()
    await until(lambda: len(broker.node.amqp.open_connections()) == 1, "the end of the first connection")
    await lost(broker, second)
    worker = await amqp.connect("worker")
    await worker.receiver("in", "orders", handle=IN, credit=10)
    assert shown(await worker.deliveries(2)) == [(b"c", False, 1), (b"d", False, 1)]
    await worker.is_quiet()


async def test_deliveries_settled_in_an_open_transaction_cannot_be_resumed(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """Reference 18: a detached link's deliveries are the queue's again, and the commit is rolled back."""
    await queue(broker, b"a")
    peer = await amqp.connect()
    await peer.coordinator(9)
    await attach(peer)
    message = await peer.delivery()
    txn = await peer.declare(9)
    peer.settle(message.delivery_id, message.delivery_id, DeliveryState(0x34, txn_id=txn, outcome=DONE))
    await peer.detached(IN, closed=False)
    assert tags_in(await attach(peer, {message.tag: None})) == set()
    assert (await peer.delivery()).body == b"a"
    assert (await peer.discharge(9, txn)).error is not None


async def test_a_link_may_be_closed_while_messages_are_on_their_way_to_it(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """2.6.13: a link that is closed does not come back; what crosses its detach is the queue's."""
    orders = await queue(broker)
    peer = await amqp.connect()
    for number in range(5):
        await attach(peer, credit=100)
        await peer.round_trip()
        peer.detach(IN, closed=True)
        await orders.publish(b"%d" % number)
        await peer.awaited(Detach)
    await until(lambda: broker.node.services.credit.used == 0, "nobody who holds a message")
    assert await count_in(orders) == 5


async def test_a_partitioned_queue_keeps_the_order_of_each_key(broker: RunningBroker, amqp: AmqpClients) -> None:
    """What is resumed comes before what follows it."""
    orders = await queue(broker, partition_count=3, partition_rebalance_delay_s=0)
    keys = [f"k{number % 5}" for number in range(30)]
    await orders.publish(*[b"%d" % number for number in range(30)], keys=keys)
    peer = await amqp.connect()
    await attach(peer, credit=15)
    states: dict[bytes, AmqpValue] = {each.tag: None for each in await peer.deliveries(15)}
    await lost(broker, peer)
    peer = await amqp.connect()
    await attach(peer, states, credit=30)
    seen: dict[int, list[int]] = {}
    for message in await peer.deliveries(30):
        assert isinstance(message.body, bytes)
        seen.setdefault(int(message.body) % 5, []).append(int(message.body))
    assert seen == {key: list(range(key, 30, 5)) for key in range(5)}


async def test_a_receiver_that_settles_second_does_everything_once(broker: RunningBroker, amqp: AmqpClients) -> None:
    """2.6.13, 2.8.3. Goal: exactly once, wherever the connection breaks. Method: it breaks a hundred times."""
    rng = random.Random(7)
    orders = await queue(broker, *[b"%d" % number for number in range(COUNT)])
    done: list[AmqpValue] = []
    held: dict[bytes, AmqpValue] = {}  # by tag, what the client has not settled
    outcomes: dict[bytes, DeliveryState] = {}
    for round_number in range(100):
        peer = await amqp.connect()
        states = {tag: outcomes[tag].described() if tag in outcomes else None for tag in held}
        known = tags_in(await attach(peer, states, credit=20, rcv_second=True))
        for tag in held.keys() - known:
            del held[tag]
            outcomes.pop(tag, None)
        left_open = 0  # received on this connection, and not done
        for _ in range(0 if round_number % 7 == 0 else rng.randint(1, 6)):
            if len(done) + left_open == COUNT:
                break
            message = await peer.delivery()
            assert message.is_resumed == (message.tag in held)
            if message.tag not in outcomes and rng.random() < 0.8:
                done.append(message.body)
                outcomes[message.tag] = DONE
                if rng.random() < 0.7:
                    peer.settle(message.delivery_id, message.delivery_id, DONE, settled=False)
            else:
                left_open += 1
            held[message.tag] = message.body
        if rng.random() < 0.5:
            await peer.round_trip()
        if rng.random() < 0.5:
            await lost(broker, peer)
        else:
            peer.vanish()
    peer = await amqp.connect()
    states = {tag: outcomes[tag].described() if tag in outcomes else None for tag in held}
    await attach(peer, states, credit=300, rcv_second=True)
    while len(done) < COUNT:
        message = await peer.delivery()
        done.append(message.body)
        peer.settle(message.delivery_id, message.delivery_id, DONE)
    assert sorted(done, key=str) == sorted([b"%d" % number for number in range(COUNT)], key=str)
    await until(lambda: none_waits(orders), "an empty queue")
    assert peer.nothing_waits(Detach)
    assert broker.node.services.credit.used == 0


@pytest.mark.settings("authentication.client_profiles=[{name: default, max_egress_flow_count: 1}]")
async def test_links_that_come_back_at_once_are_counted_as_well(broker: RunningBroker, amqp: AmqpClients) -> None:
    """2.4.1: a client need not wait for the answer to an attach; while the first one resumes it counts already."""
    await queue(broker, b"a")
    peer = await amqp.connect()
    await attach(peer)
    message = await peer.delivery()
    await lost(broker, peer)

    peer = await amqp.connect()
    for handle, name in enumerate(("in", "other")):
        asked = Attach(
            name,
            handle=handle,
            is_receiver=True,
            source=Source("orders", expiry_policy=NEVER),
            target=Target("here"),
            unsettled=AmqpMap([(message.tag, None)]) if name == "in" else None,
        )
        peer.send(asked.encode())
    answers = [await peer.awaited(Attach) for _ in range(2)]
    assert [each.name for each in answers if each.source is not None] == ["in"]
    error = (await peer.awaited(Detach)).error
    assert error is not None
    assert error.condition == "amqp:resource-limit-exceeded"


async def test_unsettled_messages_of_an_absent_client_count_as_delivered_after_a_restart(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """As what any client held by then: nobody comes back to what was kept."""
    orders = InsideClient(broker, "orders")
    await orders.create(access_type="non-exclusive")
    await orders.publish(b"a")
    peer = await amqp.connect()
    await peer.receiver("in", Source("orders", expiry_policy=NEVER), handle=1, credit=10)
    assert (await peer.delivery()).delivery_count == 0
    peer.vanish()
    await until(lambda: not broker.node.amqp.open_connections(), "the end of the connection")

    await broker.restart()

    other = await amqp.connect("other")
    await other.receiver("in", "orders", handle=1, credit=10)
    assert (await other.delivery()).delivery_count == 1


async def test_nothing_new_comes_after_a_restart_either_while_the_map_of_the_client_is_incomplete(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """2.7.3 incomplete-unsettled: the client would have to end the link. Nothing is known of it by then."""
    orders, source = InsideClient(broker, "orders"), Source("orders", expiry_policy=NEVER)
    await orders.create(access_type="non-exclusive")
    await orders.publish(b"a")
    peer = await amqp.connect()
    await peer.receiver("in", source, handle=1, credit=10)
    held = AmqpMap([((await peer.delivery()).tag, None)])

    await broker.restart()

    peer = await amqp.connect()
    await peer.receiver("in", source, handle=1, credit=10, unsettled=held, incomplete=True)
    await peer.is_quiet()
    await peer.detached(1, closed=False)
    await peer.receiver("in", source, handle=1, credit=10)
    assert (await peer.delivery()).delivery_count == 1
