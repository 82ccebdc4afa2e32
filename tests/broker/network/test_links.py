"""Two brokers and the link between them: what crosses, and what becomes of it when the connection breaks."""

import asyncio
import gc
import os
import socket
from contextlib import suppress

import pytest

from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.gateway.operations.traces.tap import Tap
from sluicegate.protocols.network.link.links import ONE_LINK
from sluicegate.protocols.transport.loop.event_loop import running_sockets
from support.broker.client_traces import following
from support.broker.linked_brokers import Brokers, until
from support.broker.named_queues import create


async def test_a_direct_message_reaches_a_client_of_the_neighbor(brokers: Brokers) -> None:
    await brokers.pair()
    await brokers.are_linked()
    subscriber = await brokers["b"].connect("subscriber")
    await subscriber.subscribe("plant/#")
    await until(lambda: brokers["a"].wants("b") == {"plant/#"})

    publisher = await brokers["a"].connect("publisher")
    await publisher.publish("plant/1", b"hello")
    await publisher.publish("office/1", b"nobody's")
    await publisher.publish("plant/2", b"again")

    assert await subscriber.payloads(2) == [b"hello", b"again"]
    assert brokers["b"].neighbor("a").vpns[0].received_count == 2


async def test_equal_subscriptions_are_one_interest_until_the_last_of_them_ends(brokers: Brokers) -> None:
    await brokers.pair()
    await brokers.are_linked()
    one, other = [await brokers["b"].connect(name) for name in ("one", "other")]
    await one.subscribe("plant/+")
    await other.subscribe("plant/+", "office/#")
    await until(lambda: brokers["a"].wants("b") == {"plant/*", "office/#"})
    numbers = brokers["b"].neighbor("a").vpns[0].interests.sender.sent_number

    await one.unsubscribe("plant/+")
    await one.round_trip()
    assert brokers["b"].neighbor("a").vpns[0].interests.sender.sent_number == numbers

    await other.vanish()
    await until(lambda: brokers["a"].wants("b") == set())


async def test_subscriptions_from_before_the_link_are_told(brokers: Brokers) -> None:
    await brokers.add("b", "links.a.url=")
    subscriber = await brokers["b"].connect("subscriber")
    await subscriber.subscribe("plant/1", "plant/2")

    await brokers.add("a", f"links.b.url=flow://127.0.0.1:{brokers['b'].flow_port}")
    await brokers.are_linked()

    assert brokers["a"].wants("b") == {"plant/1", "plant/2"}


def taps() -> list[Tap]:
    """Return the taps on connections, of all brokers of this process."""
    return [each for each in gc.get_objects() if isinstance(each, Tap)]


async def test_a_link_that_begins_during_a_trace_writes_past_it(brokers: Brokers) -> None:
    await brokers.add("b", "links.a.url=")
    async with following(brokers["b"], ""):
        await brokers.add("a", f"links.b.url=flow://127.0.0.1:{brokers['b'].flow_port}")
        await brokers.are_linked()
        await until(lambda: all(each.is_over for each in taps()), "the end of what it follows of the link")
    gc.collect()
    assert taps() == []


async def test_asyncio_does_not_watch_the_connection_of_a_link(brokers: Brokers) -> None:
    """Over asyncio's transport each message would cost a second poll, and a round of asyncio's loop."""
    await brokers.add("b", "links.a.url=")
    port = brokers["b"].flow_port
    await brokers.add("a", f"links.b.url=flow://localhost:{port}")
    await brokers.are_linked()

    ports = set()
    for key in running_sockets().get_map().values():
        with socket.socket(fileno=os.dup(key.fd)) as held, suppress(OSError):  # some have no peer
            ports.add(held.getpeername()[1:2])
    assert (port,) not in ports


async def test_topics_of_one_broker_are_not_exported(brokers: Brokers) -> None:
    """Events, `$SYS` and what else begins with `$` or `#` is each broker's own."""
    await brokers.pair()
    await brokers.are_linked()
    subscriber = await brokers["b"].connect("subscriber")
    await subscriber.subscribe("$SYS/#", "plant/1")
    await create(brokers["b"], "orders", subscriptions=["orders/>"])

    await until(lambda: brokers["a"].wants("b") == {"plant/1", "orders/>"})


async def test_export_rules_keep_topics_and_queues_back(brokers: Brokers) -> None:
    rules = (
        'links.a.export_include=["plant/>", "orders/>"]',
        'links.a.export_exclude=["plant/secret/>"]',
        'links.a.export_exclude_queues=["internal"]',
    )
    await brokers.pair(b=rules)
    await brokers.are_linked()
    subscriber = await brokers["b"].connect("subscriber")
    await subscriber.subscribe("plant/secret/1", "office/1", "plant/1")
    await create(brokers["b"], "internal", subscriptions=["orders/internal"])
    await create(brokers["b"], "orders", subscriptions=["orders/new"])

    await until(lambda: brokers["a"].wants("b") == {"plant/1", "orders/new"})


async def test_a_cut_link_comes_back_and_only_changes_are_told_again(brokers: Brokers) -> None:
    await brokers.pair()
    subscriber = await brokers["b"].connect("subscriber")
    await subscriber.subscribe(*[f"plant/{number}" for number in range(2000)])
    await brokers.are_linked()
    await until(lambda: len(brokers["a"].wants("b")) == 2000)
    to_b = await brokers.proxy("a", "b")

    to_b.cut()
    await until(lambda: not brokers["a"].neighbor("b").is_up and not brokers["b"].neighbor("a").is_up)
    await subscriber.subscribe("office/1")
    await subscriber.unsubscribe("plant/7")
    to_b.heal()
    await brokers.are_linked()

    assert len(brokers["a"].wants("b")) == 2000
    assert "office/1" in brokers["a"].wants("b")
    assert "plant/7" not in brokers["a"].wants("b")
    assert brokers["b"].neighbor("a").vpns[0].interests.sender.sent_number <= 3  # the two buckets, and that this is all
    publisher = await brokers["a"].connect("publisher")
    await publisher.publish("office/1", b"here")
    assert await subscriber.payloads(1) == [b"here"]


async def test_messages_for_a_neighbor_that_is_away_are_not_kept(brokers: Brokers) -> None:
    """Direct messages: at most once. The route has no neighbor while the link is down."""
    await brokers.pair()
    subscriber = await brokers["b"].connect("subscriber")
    await subscriber.subscribe("plant/1")
    await brokers.are_linked()
    to_b = await brokers.proxy("a", "b")
    publisher = await brokers["a"].connect("publisher")

    to_b.cut()
    await until(lambda: not brokers["a"].neighbor("b").is_up)
    await publisher.publish("plant/1", b"lost")
    await publisher.round_trip()
    to_b.heal()
    await brokers.are_linked()
    await publisher.publish("plant/1", b"after")

    assert await subscriber.payloads(1) == [b"after"]


async def test_a_neighbor_that_is_silent_is_gone_after_the_dead_time(brokers: Brokers) -> None:
    """Half-open: neither side is told that its bytes go nowhere any more."""
    short = "links.{}.dead_time_ms=1500"
    await brokers.pair(a=(short.format("b"),), b=(short.format("a"),))
    await brokers.are_linked()
    to_b = await brokers.proxy("a", "b")

    to_b.freeze()
    await until(lambda: not brokers["a"].neighbor("b").is_up and not brokers["b"].neighbor("a").is_up)
    assert "nothing received for" in brokers["a"].neighbor("b").reason
    assert "nothing received for" in brokers["b"].neighbor("a").reason

    to_b.cut()
    to_b.heal()
    await brokers.are_linked()


async def test_of_two_connections_the_one_of_the_first_name_stays(brokers: Brokers) -> None:
    """Both brokers know the other's address, and connect at the same time."""
    await brokers.pair(both=True)
    await brokers.are_linked()
    await until(lambda: brokers["a"].neighbor("b").is_dialed)
    await brokers.are_linked()

    assert not brokers["b"].neighbor("a").is_dialed
    to_a, to_b = await brokers.proxy("b", "a"), await brokers.proxy("a", "b")
    to_a.cut()  # if the other one stayed it would end now
    await asyncio.sleep(0.05)
    assert brokers["a"].is_linked_to("b")

    to_b.cut()
    to_a.heal()
    await until(lambda: not brokers["a"].neighbor("b").is_up)
    await brokers.are_linked()  # by the connection of `b`, as long as that of `a` cannot be made
    assert brokers["b"].neighbor("a").is_dialed


async def test_a_restarted_neighbor_is_told_everything(brokers: Brokers) -> None:
    await brokers.pair()
    subscriber = await brokers["a"].connect("subscriber")
    await subscriber.subscribe("plant/1", "plant/2")
    await brokers.are_linked()

    await brokers["b"].stop()
    await until(lambda: not brokers["a"].neighbor("b").is_up)
    assert brokers["a"].neighbor("b").reason == "the broker stops"
    await brokers["b"].start()
    await brokers.proxy("a", "b")  # its port is another one
    await brokers.are_linked()

    assert brokers["b"].wants("a") == {"plant/1", "plant/2"}


async def test_three_brokers_deliver_a_message_once_to_each(brokers: Brokers) -> None:
    """Split horizon: what came over a link goes over none."""
    await brokers.add("c", "links.a.url=", "links.b.url=")
    to_c = f"links.c.url=flow://127.0.0.1:{brokers['c'].flow_port}"
    await brokers.add("b", "links.a.url=", to_c)
    await brokers.add("a", f"links.b.url=flow://127.0.0.1:{brokers['b'].flow_port}", to_c)
    await brokers.are_linked("a", "b", "c")
    subscribers = {name: await brokers[name].connect(f"subscriber-{name}") for name in "abc"}
    for each in subscribers.values():
        await each.subscribe("plant/#")
    await until(lambda: all(brokers[one].wants(other) for one in "abc" for other in "abc" if one != other))

    publisher = await brokers["b"].connect("publisher")
    for number in range(10):
        await publisher.publish(f"plant/{number}", str(number).encode())

    for each in subscribers.values():
        assert await each.payloads(10) == [str(number).encode() for number in range(10)]
        await each.is_quiet()


async def test_a_message_vpn_is_linked_under_another_name(brokers: Brokers) -> None:
    await brokers.pair(
        a=("vpns.sales.enabled=true", "links.b.vpns.sales=shop", "listeners.mqtt.vpn=sales"),
        b=("vpns.shop.enabled=true", "links.a.vpns.shop=sales", "listeners.mqtt.vpn=shop"),
    )
    await brokers.are_linked()
    assert list(brokers["a"].neighbor("b").linked) == [1]
    subscriber = await brokers["b"].connect("subscriber")
    await subscriber.subscribe("plant/1")
    await until(lambda: brokers["a"].wants("b", "sales") == {"plant/1"})

    publisher = await brokers["a"].connect("publisher")
    await publisher.publish("plant/1", b"across")
    assert await subscriber.payloads(1) == [b"across"]


async def test_large_and_many_messages_cross(brokers: Brokers) -> None:
    """Batches are divided among frames, and come in their order."""
    await brokers.pair(a=("links.b.compress=true",))
    await brokers.are_linked()
    subscriber = await brokers["b"].connect("subscriber")
    await subscriber.subscribe("plant/#")
    await until(lambda: brokers["a"].wants("b") == {"plant/#"})
    publisher = await brokers["a"].connect("publisher")
    sent = [bytes([number]) * 50_000 for number in range(30)] + [b"x" * 3_000_000, b"last"]
    for payload in sent:
        await publisher.publish("plant/1", payload)

    assert await subscriber.payloads(len(sent)) == sent


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_message_keeps_what_its_publisher_said(brokers: Brokers, qos: int) -> None:
    await brokers.pair()
    await brokers.are_linked()
    subscriber = await brokers["b"].connect("subscriber", level=5)
    await subscriber.subscribe(("plant/1", 2))
    await until(lambda: brokers["a"].wants("b") == {"plant/1"})
    publisher = await brokers["a"].connect("publisher", level=5)
    await publisher.publish("plant/1", b"hello", qos=qos)

    message = await subscriber.message()
    assert (message.payload, message.qos) == (b"hello", qos)


class FailingRouter(LoopActor):
    """A router that makes a mistake in every request."""

    def on_receive(self, message: object) -> None:
        raise RuntimeError("a mistake")


async def test_what_the_router_fails_over_begins_the_exchange_anew(
    brokers: Brokers, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not acknowledged, and not taken for a message VPN that was deleted."""
    caplog.handler.addFilter(lambda record: "a mistake" not in record.getMessage())
    await brokers.pair()
    await brokers.are_linked()
    neighbor = brokers["a"].neighbor("b")
    interests = neighbor.vpns[0].interests
    runtime, router = brokers["a"].node.services.runtime, interests._router
    interests._router = runtime.spawn(FailingRouter, kind="router", name="failing", policy=ONE_LINK)
    subscriber = await brokers["b"].connect("subscriber")
    await subscriber.subscribe("plant/1")
    await until(lambda: "could not be put in force" in neighbor.reason, "the end of the connection")
    interests._router.stop()
    interests._router = router
    await until(lambda: "plant/1" in brokers["a"].wants("b"), "the subscription is in force")
    await brokers.are_linked()


async def test_a_neighbor_is_found_at_another_of_its_addresses(brokers: Brokers) -> None:
    """One of its replicas has the port open, the others are standbys."""
    await brokers.add("b", "links.a.url=")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    others = f"links.b.other_urls=['flow://127.0.0.1:{port}', 'flow://127.0.0.1:{brokers['b'].flow_port}']"
    await brokers.add("a", f"links.b.url=flow://127.0.0.1:{port}", others)
    await brokers.are_linked()
    wire = brokers["a"].neighbor("b").wire
    assert wire is not None
    assert wire.address == f"127.0.0.1:{brokers['b'].flow_port}"
