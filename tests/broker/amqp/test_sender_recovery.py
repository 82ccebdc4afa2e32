"""AMQP senders that resume links with unsettled deliveries (2.6.13): nothing is lost or stored twice."""

import asyncio
import threading

import pytest

from sluicegate.protocols.amqp.codec.delivery_states import ACCEPTED, REJECTED, DeliveryState, read_state
from sluicegate.protocols.amqp.codec.performatives import Attach
from sluicegate.protocols.amqp.codec.termini import CONNECTION_CLOSE, LINK_DETACH, NEVER, SESSION_END, Target
from sluicegate.protocols.amqp.types.values import AmqpMap
from sluicegate.storage.interface import CommitJob
from support.amqp.client import DEADLINE_S, AmqpClient, AmqpClients, body
from support.broker.inside_client import InsideClient, until
from support.broker.running_broker import RunningBroker

OUT = 0


async def orders_of(broker: RunningBroker, **attributes: object) -> InsideClient:
    orders = InsideClient(broker, "orders")
    await orders.create(**attributes)
    return orders


async def attach(
    peer: AmqpClient,
    *unsure: bytes,
    policy: str = NEVER,
    timeout_s: int = 0,
    address: str = "orders",
    channel: int = 0,
    handle: int = OUT,
) -> Attach:
    """Attach the sender `out` with these deliveries unsettled."""
    target = Target(address, expiry_policy=policy, timeout_s=timeout_s)
    unsettled = AmqpMap([(tag, None) for tag in unsure]) if unsure else None
    return await peer.sender("out", target, handle=handle, unsettled=unsettled, channel=channel)


def known_in(answer: Attach) -> dict[bytes, DeliveryState]:
    """Return what the broker says of deliveries, by tag."""
    assert answer.unsettled is not None, "the link is not known"
    known: dict[bytes, DeliveryState] = {}
    for tag, value in answer.unsettled.pairs:
        state = read_state(value)
        assert isinstance(tag, bytes)
        assert state is not None
        known[tag] = state
    return known


async def stored(orders: InsideClient) -> list[bytes]:
    return list((await orders.read())[0].values())


async def test_a_sender_that_comes_back_learns_what_arrived_and_sends_again_what_did_not(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """2.6.13; reference 17: a known tag is answered and not stored again, an unknown one is sent whole."""
    orders = await orders_of(broker)
    peer = await amqp.connect()
    await attach(peer)
    sent = [peer.transfer(OUT, body(tag), tag=tag.encode()) for tag in ("a", "b", "c")]
    for delivery_id in sent:
        await peer.outcome(delivery_id)
    peer.vanish()

    peer = await amqp.connect()
    known = known_in(await attach(peer, b"b", b"c", b"d"))
    assert {tag: state.code for tag, state in known.items()} == {b"b": ACCEPTED, b"c": ACCEPTED}
    peer.transfer(OUT, b"", tag=b"b", resume=True, settled=True, state=DeliveryState(ACCEPTED))
    again = peer.transfer(OUT, body("c"), tag=b"c", resume=True)
    lost = peer.transfer(OUT, body("d"), tag=b"d", resume=True)
    assert (await peer.outcome(again)).code == ACCEPTED
    assert (await peer.outcome(lost)).code == ACCEPTED
    assert await stored(orders) == [b"a", b"b", b"c", b"d"]


@pytest.mark.settings("spool.commit_interval_ms=1000")
async def test_the_attach_of_a_resumed_link_knows_a_delivery_that_was_not_stored_at_the_disconnect(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """2.6.13: the attach waits for the outcome of what had arrived."""
    orders = await orders_of(broker)
    peer = await amqp.connect()
    await attach(peer)
    await peer.outcome(peer.transfer(OUT, body("a"), tag=b"a"))
    peer.transfer(OUT, body("b"), tag=b"b")
    await peer.round_trip()
    peer.vanish()

    peer = await amqp.connect()
    assert known_in(await attach(peer, b"b"))[b"b"].code == ACCEPTED
    assert await stored(orders) == [b"a", b"b"]


async def test_nothing_comes_over_the_old_connection_while_the_attach_waits_for_outcomes(
    broker: RunningBroker, amqp: AmqpClients, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2.6.13: what the answer does not list is sent again, so it must not arrive between the two as well."""
    orders = await orders_of(broker)
    old, peer = await amqp.connect(), await amqp.connect()
    await attach(old)
    store, may_commit = broker.node.services.store, threading.Event()
    commit = store.commit

    def commit_later(job: CommitJob) -> int:
        assert may_commit.wait(DEADLINE_S)
        return commit(job)

    monkeypatch.setattr(store, "commit", commit_later)
    monkeypatch.setattr(store, "is_at_hand", lambda _: False)  # the loop would wait by itself
    try:
        old.transfer(OUT, body("a"), tag=b"a")
        await old.round_trip()
        attaching = asyncio.ensure_future(attach(peer, b"a", b"b"))
        await old.is_detached("amqp:link:stolen")
        assert not attaching.done()
    finally:
        may_commit.set()
    assert set(known_in(await attaching)) == {b"a"}
    await peer.outcome(peer.transfer(OUT, body("b"), tag=b"b", resume=True))
    assert await stored(orders) == [b"a", b"b"]


async def test_a_rejected_delivery_is_reported_as_such(broker: RunningBroker, amqp: AmqpClients) -> None:
    """2.6.13: the outcome comes back, whatever it was."""
    await orders_of(broker, max_msg_size=100)
    peer = await amqp.connect()
    await attach(peer)
    assert (await peer.outcome(peer.transfer(OUT, body("x" * 200), tag=b"large"))).code == REJECTED
    peer.vanish()

    peer = await amqp.connect()
    state = known_in(await attach(peer, b"large"))[b"large"]
    assert state.error is not None
    assert state.error.condition == "amqp:link:message-size-exceeded"
    delivery_id = peer.transfer(OUT, body("x" * 200), tag=b"large", resume=True)
    assert (await peer.outcome(delivery_id)).code == REJECTED


async def test_deliveries_that_the_sender_has_settled_are_forgotten(broker: RunningBroker, amqp: AmqpClients) -> None:
    """2.6.13: a delivery that the sender has settled is in neither map."""
    await orders_of(broker)
    peer = await amqp.connect()
    await attach(peer)
    for tag in (b"a", b"b"):
        await peer.outcome(peer.transfer(OUT, body("x"), tag=tag))
    peer.vanish()
    peer = await amqp.connect()
    await attach(peer, b"b")
    peer.vanish()
    peer = await amqp.connect()
    assert set(known_in(await attach(peer, b"a", b"b"))) == {b"b"}


async def test_a_link_that_does_not_ask_for_it_is_not_remembered(broker: RunningBroker, amqp: AmqpClients) -> None:
    """3.5.6: by default a terminus ends with its session; then a resumed delivery has nothing to resume."""
    await orders_of(broker)
    peer = await amqp.connect()
    answer = await attach(peer, policy=SESSION_END)
    assert isinstance(answer.target, Target)
    assert (answer.target.expiry_policy, answer.target.timeout_s) == (SESSION_END, 0)
    await peer.outcome(peer.transfer(OUT, body("a"), tag=b"a"))
    peer.vanish()
    peer = await amqp.connect()
    assert (await attach(peer, b"a", policy=SESSION_END)).unsettled is None
    peer.transfer(OUT, body("a"), tag=b"a", resume=True)
    await peer.is_detached("amqp:not-implemented")


@pytest.mark.parametrize("policy", [LINK_DETACH, SESSION_END, CONNECTION_CLOSE])
async def test_the_time_of_a_link_begins_when_its_policy_says(
    broker: RunningBroker, amqp: AmqpClients, policy: str
) -> None:
    """Case 73, 3.5.6: link-detach, session-end, connection-close; who is back before the timeout has lost nothing."""
    await orders_of(broker)
    ends = (LINK_DETACH, SESSION_END, CONNECTION_CLOSE)
    peer = await amqp.connect()
    await peer.begin(1)
    await attach(peer, policy=policy, timeout_s=10, channel=1)
    for away_s, ended in [*[(2, each) for each in ends], *[(20, each) for each in ends]]:
        if ended == LINK_DETACH:
            await peer.detached(OUT, closed=False, channel=1)
        elif ended == SESSION_END:
            await peer.ended(1)
        else:
            peer.vanish()
            await until(lambda: not broker.node.amqp.open_connections(), "the end of the connection")
        broker.clock.forward(away_s)
        if ended == CONNECTION_CLOSE:
            peer = await amqp.connect()
        if ended != LINK_DETACH:
            await peer.begin(1)
        answer = await attach(peer, b"a", policy=policy, timeout_s=10, channel=1)
        assert isinstance(answer.target, Target)
        assert (answer.target.expiry_policy, answer.target.timeout_s) == (policy, 10)
        has_begun = ends.index(ended) >= ends.index(policy)
        assert (answer.unsettled is not None) == (away_s < 10 or not has_begun)


async def test_the_end_of_a_connection_that_had_a_link_before_does_not_begin_its_time(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """3.5.6: it is the connection that ends over which the link was attached last."""
    await orders_of(broker)
    old, peer = await amqp.connect(), await amqp.connect()
    await attach(old, policy=CONNECTION_CLOSE, timeout_s=10)
    await old.outcome(old.transfer(OUT, body("a"), tag=b"a"))
    await attach(peer, b"a", policy=CONNECTION_CLOSE, timeout_s=10)
    await peer.detached(OUT, closed=False)
    old.vanish()
    await until(lambda: len(broker.node.amqp.open_connections()) == 1, "the end of the old connection")
    broker.clock.forward(20)
    assert set(known_in(await attach(peer, b"a", policy=CONNECTION_CLOSE, timeout_s=10))) == {b"a"}


async def test_a_link_that_is_closed_is_forgotten(broker: RunningBroker, amqp: AmqpClients) -> None:
    """2.6.6: closing destroys the terminus."""
    await orders_of(broker)
    peer = await amqp.connect()
    await attach(peer)
    await peer.detached(OUT, closed=True)
    assert (await attach(peer, b"a")).unsettled is None


async def test_a_link_is_known_by_container_name_and_address(broker: RunningBroker, amqp: AmqpClients) -> None:
    """2.6.1; 3.5: another container's link, or one to another node, is another link."""
    await orders_of(broker)
    await InsideClient(broker, "other").create()
    peer = await amqp.connect("one")
    await attach(peer)
    await peer.outcome(peer.transfer(OUT, body("a"), tag=b"a"))
    peer.vanish()
    assert (await attach(await amqp.connect("two"), b"a")).unsettled is None
    peer = await amqp.connect("one")
    assert (await attach(peer, b"a", address="other")).unsettled is None


async def test_a_link_that_comes_back_before_its_old_connection_is_seen_to_be_gone_keeps_what_is_known(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """2.6.1: the link is where it was attached last; the end of the old connection does it no harm."""
    orders = await orders_of(broker)
    old = await amqp.connect()
    await attach(old)
    await old.outcome(old.transfer(OUT, body("a"), tag=b"a"))
    peer = await amqp.connect()
    assert set(known_in(await attach(peer, b"a"))) == {b"a"}
    old.vanish()
    await peer.outcome(peer.transfer(OUT, body("b"), tag=b"b"))
    peer.vanish()
    peer = await amqp.connect()
    assert set(known_in(await attach(peer, b"a", b"b"))) == {b"a", b"b"}
    assert await stored(orders) == [b"a", b"b"]
