"""Guaranteed messages of two linked brokers: stored for the neighbor, and once, whatever breaks in between."""

import asyncio
import random
from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from sluicegate.actors.messages.data import PublishFailed
from sluicegate.actors.messages.directory import FindQueue
from sluicegate.actors.network.link_batches import link_body
from sluicegate.gateway.operations.backups import show_backup, start_backup
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.errors import LinkNotFound, Refused
from sluicegate.gateway.views.node.backups import BackupState
from sluicegate.protocols.flow.codec.codes import LIMIT_EXCEEDED, PeerViolation
from sluicegate.protocols.flow.codec.frames.link import LinkStore
from sluicegate.protocols.network.guaranteed.arrivals import WAITING_MAX
from sluicegate.storage.backup.restore import restore_backup
from support.broker.linked_brokers import Brokers, until
from support.broker.named_queues import create, shown, shows
from support.broker.operator_views import event_texts, explained
from support.cores.messages import batch_of
from support.mqtt.raw_client import DEADLINE_S

MESSAGE_EXPIRY = 2  # the property
QUOTA_EXCEEDED = 0x97


def link_queue(network: Brokers, at: str, to: str) -> int:
    """Return the number of messages in a link queue."""
    sender = network[at].neighbor(to).vpns[0].queue_sender
    return int(sender.queue.target.gate.usage_count)


async def wanted(network: Brokers, topic_filter: str) -> None:
    """Wait until it is in force at a, and stored there, that b wants messages of a filter."""
    await until(lambda: topic_filter in network["a"].wants("b"), f"a knows of {topic_filter}")
    await network.are_linked()


async def test_a_session_gets_what_was_published_while_the_link_was_cut(network: Brokers) -> None:
    subscriber = await network["b"].connect("subscriber", 5)
    await subscriber.subscribe(("t", 1))
    await wanted(network, "t")
    proxy = await network.proxy("a", "b")
    proxy.cut()
    await until(lambda: not network["a"].neighbor("b").is_up, "the link is down")
    publisher = await network["a"].connect("publisher")
    for number in range(20):
        await publisher.publish("t", b"%d" % number, qos=1)
    assert link_queue(network, "a", "b") == 20
    proxy.heal()
    assert await subscriber.payloads(20) == [b"%d" % number for number in range(20)]
    await subscriber.is_quiet()
    await until(lambda: link_queue(network, "a", "b") == 0, "the link queue is empty")


async def cut(network: Brokers) -> None:
    """Cut the link."""
    (await network.proxy("a", "b")).cut()
    await until(lambda: not network["a"].neighbor("b").is_up, "the link is down")


async def heal(network: Brokers) -> None:
    """Let the brokers connect again."""
    (await network.proxy("a", "b")).heal()
    await network.are_linked()


async def queue_at_b(network: Brokers, **attributes: object) -> None:
    """Have a queue q at b that collects the topics of t."""
    await create(network["b"], "q", subscriptions=["t/>"], **attributes)
    await wanted(network, "t/>")


async def contents(network: Brokers, count: int) -> list[bytes]:
    """Wait until q at b has so many messages, and return them all."""
    await shows(network["b"], lambda view: view.spooled_count >= count)
    reader = await network["b"].connect("reader")
    await reader.subscribe(("$queue/q", 1))
    found = await reader.payloads(count)
    await reader.is_quiet()
    return found


async def publish(network: Brokers, numbers: range, *, qos: int = 1) -> None:
    publisher = await network["a"].connect("publisher")
    for number in numbers:
        assert await publisher.publish("t/1", b"%d" % number, qos=qos) < 0x80
    await publisher.vanish()


def payloads(numbers: range) -> list[bytes]:
    return [b"%d" % number for number in numbers]


async def test_a_queue_of_an_absent_neighbor_is_known_after_a_restart(network: Brokers) -> None:
    await queue_at_b(network)
    await cut(network)
    await network["a"].restart()
    await publish(network, range(10))
    assert link_queue(network, "a", "b") == 10
    await network["a"].crash()
    assert link_queue(network, "a", "b") == 10
    await heal(network)
    assert await contents(network, 10) == payloads(range(10))


async def test_a_will_that_is_due_at_the_start_is_stored_for_an_absent_neighbor(network: Brokers) -> None:
    """It is published before links begin."""
    await queue_at_b(network)
    await cut(network)
    will = mqtt.WillPart("t/1", b"gone", qos=1, properties=mqtt.will_delay(60))
    client = await network["a"].connect_durable("mortal", will=will)
    await client.vanish()
    await network["a"].stop()
    network["a"].clock.forward(120)
    await network["a"].start()
    await until(lambda: link_queue(network, "a", "b") == 1, "the will is stored")
    await heal(network)
    assert await contents(network, 1) == [b"gone"]


async def test_each_message_is_stored_once_whatever_crashes(network: Brokers) -> None:
    await queue_at_b(network)
    numbers = range(0)
    for which in ("cut", "b", "a", "cut", "b", "a"):
        numbers = range(numbers.stop, numbers.stop + 40)
        await publish(network, numbers, qos=2)
        if which == "cut":
            await cut(network)
            (await network.proxy("a", "b")).heal()
        else:
            await network[which].crash()
            await network.proxy("a", "b")
        numbers = range(numbers.stop, numbers.stop + 40)
        await publish(network, numbers)
    await until(lambda: link_queue(network, "a", "b") == 0, "the link queue is empty")
    assert await contents(network, numbers.stop) == payloads(range(numbers.stop))


@pytest.mark.parametrize("seed", range(3))
async def test_cuts_at_any_moment_lose_and_double_nothing(network: Brokers, seed: int) -> None:
    rng = random.Random(seed)
    await queue_at_b(network)
    proxy = await network.proxy("a", "b")
    publishing = asyncio.create_task(publish(network, range(400)))
    for _ in range(4):
        await until(lambda: network["a"].neighbor("b").is_up, "the link is up")
        await asyncio.sleep(0.03 * rng.random())
        proxy.cut()
        proxy.heal()
    await publishing
    await until(lambda: link_queue(network, "a", "b") == 0, "the link queue is empty")
    assert await contents(network, 400) == payloads(range(400))


@pytest.mark.parametrize("which", ["the link", "a", "b"])
async def test_what_was_stored_and_not_answered_is_not_stored_again(network: Brokers, which: str) -> None:
    """Its answer is lost with the connection, and one of the brokers may crash as well."""
    await queue_at_b(network)
    proxy = await network.proxy("a", "b")
    proxy.freeze_answers()
    await publish(network, range(20))
    await shows(network["b"], lambda view: view.spooled_count == 20)
    assert link_queue(network, "a", "b") == 20
    proxy.cut()
    if which != "the link":
        await network[which].crash()
    await network.proxy("a", "b")
    await heal(network)
    await until(lambda: link_queue(network, "a", "b") == 0, "all are answered")
    assert network["b"].neighbor("a").vpns[0].arrivals.repeated_count == 20
    assert await contents(network, 20) == payloads(range(20))


async def test_a_client_without_a_session_gets_nothing_twice_when_answers_are_lost(network: Brokers) -> None:
    """Nothing of it is stored there, so the broker has to remember what it has delivered."""
    subscriber = await network["b"].connect("subscriber", 5)
    await subscriber.subscribe(("t/#", 2))
    await wanted(network, "t/#")
    proxy = await network.proxy("a", "b")
    proxy.freeze_answers()
    await publish(network, range(5), qos=2)
    assert await subscriber.payloads(5) == payloads(range(5))
    proxy.cut()
    await until(lambda: not network["a"].neighbor("b").is_up, "the link is down")
    await heal(network)
    await until(lambda: link_queue(network, "a", "b") == 0, "all are answered")
    await publish(network, range(5, 6), qos=2)
    assert await subscriber.payloads(1) == [b"5"]
    await subscriber.is_quiet()


async def test_a_restored_broker_sends_nothing_twice_and_loses_nothing_new(network: Brokers) -> None:
    """After the restore it gives sequences again that the lost part of its life has given to other messages."""
    await queue_at_b(network)
    proxy = await network.proxy("a", "b")
    proxy.freeze_answers()
    await publish(network, range(10))
    await shows(network["b"], lambda view: view.spooled_count == 10)
    await start_backup(network["a"].node, "b")
    async with asyncio.timeout(DEADLINE_S):
        while (view := await show_backup(network["a"].node)).state == BackupState.RUNNING:
            await asyncio.sleep(0.01)
    await publish(network, range(10, 20))
    await shows(network["b"], lambda view: view.spooled_count == 20)
    proxy.cut()
    broker = network["a"]
    await broker.stop()
    data: Path = broker.config.data.path
    data.rename(data.with_name("lost"))
    restore_backup(Path(view.folder), data, incarnation=4711, copied=lambda _: None)
    await broker.start()
    assert link_queue(network, "a", "b") == 10, "the others were confirmed after the backup"
    await publish(network, range(20, 30))
    await heal(network)
    await until(lambda: link_queue(network, "a", "b") == 0, "all are answered")
    assert await contents(network, 30) == payloads(range(30))
    [text] = await event_texts(network["b"], "SYSTEM_NETWORK_NEIGHBOR_RESTORED")
    assert "neighbor a is up: it has begun anew as 0000000000001267" in text


async def test_a_neighbor_that_comes_back_has_not_begun_anew(network: Brokers) -> None:
    await queue_at_b(network)
    await publish(network, range(10))
    await until(lambda: link_queue(network, "a", "b") == 0, "all are answered")
    await network["a"].restart()
    await network.are_linked()
    await network["b"].restart()
    await network.proxy("a", "b")  # its port is another one
    await network.are_linked()
    assert await event_texts(network["b"], "SYSTEM_NETWORK_NEIGHBOR_RESTORED") == []


async def test_time_in_the_link_queue_is_life_that_is_spent(network: Brokers) -> None:
    await queue_at_b(network)
    await cut(network)
    publisher = await network["a"].connect("publisher", 5)
    expiry = mqtt.message_expiry(8)
    await publisher.publish("t/1", b"m", properties=expiry)
    network["a"].forward(2)
    await heal(network)
    await shows(network["b"], lambda view: view.spooled_count == 1)
    reader = await network["b"].connect("reader", 5)
    await reader.subscribe(("$queue/q", 1))
    [message] = await reader.messages(1)
    assert dict(message.properties)[MESSAGE_EXPIRY] in (5, 6)


async def test_an_expired_message_does_not_cross(network: Brokers) -> None:
    await queue_at_b(network)
    await cut(network)
    publisher = await network["a"].connect("publisher", 5)
    await publisher.publish("t/1", b"old", properties=mqtt.message_expiry(1))
    network["a"].forward(2)
    await heal(network)
    await publisher.publish("t/1", b"new")
    assert await contents(network, 1) == [b"new"]


async def test_what_is_confirmed_is_taken_beyond_the_limit_of_a_queue(network: Brokers) -> None:
    await queue_at_b(network, max_msg_spool_usage=1)
    publisher = await network["a"].connect("publisher")
    for _ in range(12):
        await publisher.publish("t/1", bytes(200_000))
    view = await shows(network["b"], lambda view: view.spooled_count == 12)
    assert view.spooled_bytes > 1024 * 1024
    assert network["b"].neighbor("a").vpns[0].vpn.publisher.overrun_count >= 6


async def test_only_messages_beyond_the_limit_of_a_queue_are_counted_as_such(network: Brokers) -> None:
    """Those that come together with them are not."""
    await queue_at_b(network)
    broker = network["b"]
    gate = (await broker.node.default.queues.ask(FindQueue("q"))).target.gate
    gate.usage_count_max = 3
    vpn = broker.neighbor("a").vpns[0]
    body = link_body(batch_of([b"%d" % number for number in range(5)], topic="t/1"))
    vpn.received(LinkStore(1, 0, 1, 0, 1, body, False))
    await shows(broker, lambda view: view.spooled_count == 5)
    assert vpn.vpn.publisher.overrun_count == 2


async def test_a_queue_that_is_shut_down_does_not_hold_up_others(network: Brokers) -> None:
    await queue_at_b(network)
    await create(network["b"], "shut", subscriptions=["t/>"], ingress_enabled=False)
    await publish(network, range(3))
    assert await contents(network, 3) == payloads(range(3))
    assert (await shown(network["b"], "shut")).spooled_count == 0


async def test_a_full_link_queue_refuses_or_discards_as_configured(network: Brokers) -> None:
    await queue_at_b(network)
    await create(network["a"], "local", subscriptions=["t/>"])
    sender = network["a"].neighbor("b").vpns[0].queue_sender
    await cut(network)
    sender.queue.target.gate.usage_bytes_max = 0
    publisher = await network["a"].connect("publisher", 5)
    assert await publisher.publish("t/1", b"refused") == QUOTA_EXCEEDED
    assert (await shown(network["a"], "local")).spooled_count == 0

    broker = network["a"]
    broker.settings = (*broker.settings, "links.b.when_full=discard")
    broker.reads_settings()
    await broker.node.reload(broker.config)
    gate = sender.queue.target.gate
    gate.usage_bytes_max = 0
    assert await publisher.publish("t/1", b"kept here") == 0
    assert (await shown(network["a"], "local")).spooled_count == 1
    assert sum(gate.drops.values()) == 1


async def test_a_message_vpn_without_room_at_the_neighbor_holds_up_the_link_until_there_is(network: Brokers) -> None:
    await queue_at_b(network)
    gate = network["b"].node.default.gate
    limit = gate.usage_bytes_max
    gate.bound(0)
    await publish(network, range(5))
    arrivals = network["b"].neighbor("a").vpns[0].arrivals
    await until(lambda: arrivals.waiting_count == 5, "all wait")
    assert link_queue(network, "a", "b") == 5
    counts = network["b"].node.services.runtime.events.record.counts
    await until(lambda: counts.get("SYSTEM_NETWORK_LINK_WAITS_FOR_ROOM", 0) == 1, "an event")
    assert "SYSTEM_NETWORK_LINK_WAITS_FOR_ROOM_CLEAR" not in counts
    gate.bound(limit)
    assert await contents(network, 5) == payloads(range(5))
    await until(lambda: counts.get("SYSTEM_NETWORK_LINK_WAITS_FOR_ROOM_CLEAR", 0) == 1, "its end")
    assert counts["SYSTEM_NETWORK_LINK_WAITS_FOR_ROOM"] == 1


async def test_a_neighbor_that_sends_on_without_answers_is_cut_off(network: Brokers) -> None:
    """A broker has a window of messages on their way; without room here they would fill the memory."""
    await queue_at_b(network)
    broker = network["b"]
    broker.node.default.gate.bound(0)
    vpn = broker.neighbor("a").vpns[0]
    lineages = len(vpn.kept.sequences)
    body = link_body(batch_of([b"x"] * (WAITING_MAX // 16), topic="t/1"))
    for lineage in range(16):
        vpn.received(LinkStore(1, 0, 1000 + lineage, 0, 1, body, False))
    with pytest.raises(PeerViolation, match=f"messages without an answer; at most {WAITING_MAX}"):
        vpn.received(LinkStore(1, 0, 1016, 0, 1, body, False))
    assert len(vpn.kept.sequences) == lineages, "nothing of them is stored"
    wire = broker.neighbor("a").wire
    assert wire is not None
    wire.end(LIMIT_EXCEEDED, "it is cut off")  # as its connection does then
    await until(lambda: vpn.arrivals.waiting_count == 0, "what has waited is forgotten")
    await network.are_linked()


async def test_a_neighbor_that_reads_nothing_makes_no_answers_pile_up(network: Brokers) -> None:
    """It may send messages that are known as often as it likes: they are answered once it reads."""
    await queue_at_b(network)
    await publish(network, range(3))
    assert await contents(network, 3) == payloads(range(3))
    neighbor = network["b"].neighbor("a")
    vpn, wire = neighbor.vpns[0], neighbor.wire
    assert wire is not None
    [lineage] = vpn.kept.sequences
    first = vpn.kept.sequences[lineage].floor + 1
    body = link_body(batch_of([b"0", b"1", b"2"], topic="t/1"))
    counters = network["b"].node.flow.counters
    wire.paused()
    before = counters.bytes_sent
    for _ in range(100):
        vpn.received(LinkStore(1, 0, lineage, 0, first, body, True))
        await asyncio.sleep(0)
    assert counters.bytes_sent - before < 100, "signs of life at most"
    wire.resumed()
    await until(lambda: counters.bytes_sent - before >= 32, "one answer")
    assert counters.bytes_sent - before < 200


async def test_messages_that_the_store_refuses_end_the_connection_in_a_turn_of_the_link_s(network: Brokers) -> None:
    """The spool's turn is vital: what fails there ends the broker."""
    await queue_at_b(network)
    await network.are_linked()
    neighbor = network["b"].neighbor("a")
    arrivals = neighbor.vpns[0].arrivals
    sequences = arrivals._kept.new_sequences(5)
    sequences.begin(1, 2)
    arrivals._storing[7] = (sequences, 1, 2)
    arrivals.post(PublishFailed(7, "a test has said so"))
    assert neighbor.is_up
    await until(lambda: not neighbor.is_up, "the end of the connection")
    await network.are_linked()


async def test_answers_fit_into_the_frames_that_the_neighbor_takes(brokers: Brokers) -> None:
    """4 KiB at the least, of `flow.max_frame_size`."""
    await brokers.pair(b=("flow.max_frame_size=4 KiB",))
    await brokers.are_linked()
    vpn = brokers["a"].neighbor("b").vpns[0]
    for number in range(4000):
        vpn.arrivals._answers.add(2 * number + 10, 2 * number + 11)
    vpn.resumed()
    await until(lambda: not vpn.arrivals._answers, "all answers are sent")
    subscriber = await brokers["a"].connect("long", 5)
    await subscriber.subscribe(("t/" + "x" * 5000, 0), ("u", 0))
    await until(lambda: "u" in brokers["b"].wants("a"), "what fits is told")
    events = brokers["a"].node.services.runtime.events.record.counts
    assert events["SYSTEM_NETWORK_INTEREST_LEFT_OUT"] == 1
    for number in range(100):
        vpn.mesh.joined(f"{number}-" + "n" * 60, None)
    publisher = await brokers["a"].connect("publisher", 5)
    await publisher.subscribe(("v", 0))
    await until(lambda: "v" in brokers["b"].wants("a"), "the names of neighbors that fit are told")
    assert brokers["a"].neighbor("b").counts.connects == 1


async def test_a_link_that_begins_anew_goes_on(network: Brokers) -> None:
    await queue_at_b(network)
    await publish(network, range(5))
    broker = network["b"]
    neighbor = broker.neighbor("a")
    broker.settings = (*broker.settings, "links.a.dead_time_ms=4000")
    broker.reads_settings()
    await broker.node.reload(broker.config)
    assert broker.neighbor("a") is not neighbor
    await publish(network, range(5, 10))
    assert await contents(network, 10) == payloads(range(10))


async def test_direct_subscribers_get_guaranteed_messages_in_one_order(network: Brokers) -> None:
    """They come out of the link queue too, so a direct one does not overtake."""
    await queue_at_b(network)
    subscriber = await network["b"].connect("direct")
    await subscriber.subscribe(("t/#", 0))
    await wanted(network, "t/>")
    known = network["a"].neighbor("b").vpns[0].interests.receiver.interests
    await until(lambda: known.count == 3, "a knows of both, and of the queue")
    await network.are_linked()
    await publish(network, range(20))
    assert await subscriber.payloads(20) == payloads(range(20))
    await subscriber.is_quiet()


async def test_clients_cannot_reach_a_link_queue(network: Brokers) -> None:
    await queue_at_b(network)
    await cut(network)
    await publish(network, range(2))
    client = await network["a"].connect("client", 5)
    assert (await client.subscribe(("$queue/#link/b", 1)))[0] >= 0x80
    assert [code >= 0x80 for code in await client.subscribe(("#P2P/QUE/#link/b", 1))] == [True]
    assert link_queue(network, "a", "b") == 2


# --- operators ---


async def test_a_neighbor_is_forgotten_with_force_if_messages_wait_for_it(network: Brokers) -> None:
    await queue_at_b(network)
    await cut(network)
    await publish(network, range(3))
    broker, operations = network["a"], NodeOperations(network["a"].node)
    with pytest.raises(Refused, match="there is a link to b"):
        await operations.forget_neighbor("b", force=True)
    with pytest.raises(Refused, match="of a link"):
        await operations.delete_queue("#link/b")
    with pytest.raises(Refused, match="of a link"):
        await operations.update_queue("#link/b", {"ingress_enabled": False})

    settings = broker.settings
    broker.settings = (*settings, "links.b.enabled=false")
    broker.reads_settings()
    await broker.node.reload(broker.config)
    with pytest.raises(Refused, match="3 messages wait for b"):
        await operations.forget_neighbor("b", force=False)
    await operations.forget_neighbor("b", force=True)
    assert "#link/b" not in await operations.queue_names()
    with pytest.raises(LinkNotFound):
        await operations.forget_neighbor("c", force=True)

    broker.settings = settings
    broker.reads_settings()
    await broker.restart()
    assert network["a"].wants("b") == set(), "nothing is left in the store"
    await heal(network)
    await publish(network, range(3, 6))
    assert await contents(network, 3) == payloads(range(3, 6))


async def test_operators_see_what_waits_for_a_neighbor(network: Brokers) -> None:
    await queue_at_b(network)
    await cut(network)
    await publish(network, range(3))
    view = await NodeOperations(network["a"].node).show_link("b")
    [vpn] = view.message_vpns
    assert (vpn.queue_name, vpn.queued_count, vpn.in_flight_count) == ("#link/b", 3, 0)
    assert vpn.queue_quota_bytes == 64 * 1024 * 1024
    explanation = await explained(network["a"], "t/1")
    assert [(each.kind, each.name) for each in explanation.destinations] == [("neighbor", "b")]
    await heal(network)
    await until(lambda: link_queue(network, "a", "b") == 0, "it is delivered")
    samples = await NodeOperations(network["a"].node).metrics_snapshot()
    found = {each.name: each.value for each in samples if each.labels[:1] == ("b",)}
    assert found["sluicegate_link_guaranteed_stored_total"] == 3
