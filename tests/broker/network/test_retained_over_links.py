"""Retained messages of a network: every broker has the last one of each topic, whoever was away when it was set."""

import asyncio
from typing import Self

import pytest

import support.mqtt.packets as mqtt
from sluicegate.actors.messages.spool import WriteTables
from sluicegate.gateway.operations.metrics import samples_of
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.network.retained.versions import Version
from sluicegate.protocols.network.retained.link import PARTS_AHEAD_MAX
from sluicegate.storage.errors import StoreFull
from sluicegate.storage.interface import CommitJob, Table, TableWrite
from sluicegate.storage.records.batch import encode_batch
from support.broker.blocked_store import BlockedStore
from support.broker.linked_brokers import Brokers, LinkedBroker, until
from support.mqtt.raw_client import RawClient


class FullStore:
    """Has a broker's store refuse all commits, for want of room, for the length of a `with` block."""

    def __init__(self, broker: LinkedBroker, patch: pytest.MonkeyPatch) -> None:
        self.refused_count = 0
        self._is_full = True
        store = broker.node.services.store
        self._commit = store.commit
        patch.setattr(store, "commit", self._carry_out)

    def _carry_out(self, job: CommitJob) -> int:
        if self._is_full:
            self.refused_count += 1
            raise StoreFull("disk", "no room in this test")
        return self._commit(job)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_full = False


async def retain(broker: LinkedBroker, topic: str, payload: bytes, *, qos: int = 1) -> None:
    """Set a retained message, or delete it by an empty one."""
    client = await broker.connect(f"{broker.named}-of-{topic.replace('/', '-')}", 5)
    await client.publish(topic, payload, retain=True, qos=qos)
    await client.round_trip()
    await client.vanish()


async def retained(client: RawClient, topic_filter: str, count: int) -> dict[str, bytes]:
    """Subscribe, and return the retained messages that come."""
    await client.subscribe(topic_filter)
    found = await client.messages(count)
    assert all(each.retain for each in found)
    return {each.topic: each.payload for each in found}


async def have(brokers: Brokers, expected: dict[str, bytes], *names: str) -> None:
    """Wait until these brokers, by default `a` and `b`, retain exactly this."""
    those = [brokers[name] for name in names or ("a", "b")]
    await until(lambda: all(each.retains() == expected for each in those), f"{expected} retained at {names}")


@pytest.mark.parametrize("level", [4, 5])
async def test_a_subscriber_of_the_neighbor_gets_what_is_retained(brokers: Brokers, level: int) -> None:
    await brokers.pair()
    await brokers.are_linked()
    await retain(brokers["a"], "plant/1", b"on")
    await have(brokers, {"plant/1": b"on"})

    subscriber = await brokers["b"].connect("subscriber", level)
    assert await retained(subscriber, "plant/+", 1) == {"plant/1": b"on"}


async def test_what_an_operator_deletes_is_deleted_at_the_neighbor(brokers: Brokers) -> None:
    await brokers.pair()
    await brokers.are_linked()
    await retain(brokers["a"], "plant/1", b"on")
    await have(brokers, {"plant/1": b"on"})

    await NodeOperations(brokers["b"].node).delete_retained("plant/1")

    await have(brokers, {})


async def test_retain_handling_is_that_of_local_messages(brokers: Brokers) -> None:
    """[5:3.8.3.1]: with Retain Handling 2 none is sent, with 1 only for a new subscription."""
    await brokers.pair()
    await brokers.are_linked()
    await retain(brokers["a"], "t", b"kept")
    await have(brokers, {"t": b"kept"})
    subscriber = await brokers["b"].connect("subscriber", 5)

    await subscriber.subscribe(("t", mqtt.options(1, retain_handling=2)))
    await subscriber.is_quiet()
    await subscriber.unsubscribe("t")
    await subscriber.subscribe(("t", mqtt.options(1, retain_handling=1)))
    assert await subscriber.payloads(1) == [b"kept"]
    await subscriber.subscribe(("t", mqtt.options(1, retain_handling=1)))
    await subscriber.is_quiet()


async def test_the_live_message_has_the_flag_for_those_who_want_it_as_published(brokers: Brokers) -> None:
    await brokers.pair()
    await brokers.are_linked()
    as_published = await brokers["b"].connect("as-published", 5)
    await as_published.subscribe(("t", mqtt.options(0, retain_as_published=True)))
    plain = await brokers["b"].connect("plain", 5)
    await plain.subscribe("t")
    await until(lambda: brokers["a"].wants("b") == {"t"})

    await retain(brokers["a"], "t", b"on", qos=0)

    assert [(each.payload, each.retain) for each in await as_published.messages(1)] == [(b"on", True)]
    assert [(each.payload, each.retain) for each in await plain.messages(1)] == [(b"on", False)]
    await have(brokers, {"t": b"on"})


async def test_the_later_of_two_messages_wins_at_every_broker(brokers: Brokers) -> None:
    await brokers.pair()
    await brokers.are_linked()
    await retain(brokers["a"], "t", b"first")
    await have(brokers, {"t": b"first"})
    await retain(brokers["b"], "t", b"second")
    await have(brokers, {"t": b"second"})
    await retain(brokers["b"], "t", b"")
    await have(brokers, {})


async def test_a_new_subscriber_gets_what_was_retained_just_before(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The live message was for nobody, and the retained one waits for the disk: SUBACK waits for it, too."""
    await brokers.pair()
    await brokers.are_linked()
    publisher = await brokers["a"].connect("publisher", 5)
    subscriber = await brokers["b"].connect("subscriber", 5)
    with BlockedStore(brokers["a"], monkeypatch) as store:
        publisher.send(mqtt.publish("t", b"on", level=5, qos=1, packet_id=1, retain=True))
        await publisher.round_trip()
        asked = asyncio.create_task(retained(subscriber, "t", 1))
        await until(lambda: brokers["a"].wants("b") == {"t"})
        await asyncio.sleep(0.05)
        assert not asked.done()
        store.let_go()
        assert await asked == {"t": b"on"}


async def test_a_deletion_that_is_written_again_holds_back_the_answer_whatever_else_is_refused(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is full: it refuses messages, and is given deletions again. A message refused is no deletion stored."""
    patient = "subscribe_wait_ms=60000"
    await brokers.pair(a=(f"links.b.{patient}",), b=(f"links.a.{patient}",))
    await brokers.are_linked()
    await retain(brokers["a"], "t", b"on")
    await have(brokers, {"t": b"on"})
    publisher = await brokers["a"].connect("publisher", 5)
    subscriber = await brokers["b"].connect("subscriber", 5)
    with FullStore(brokers["a"], monkeypatch) as store:
        publisher.send(mqtt.publish("t", b"", level=5, qos=1, packet_id=1, retain=True))
        await publisher.round_trip()
        asked = asyncio.create_task(subscriber.subscribe("t"))
        await until(lambda: brokers["a"].wants("b") == {"t"})
        refused_count = store.refused_count
        await until(lambda: store.refused_count > refused_count)
        other = await brokers["a"].connect("other", 5)
        assert await other.publish("u", b"on", retain=True, qos=1) >= 0x80
        await brokers["b"].connect("other", 5)  # the brokers have some turns
        await asyncio.sleep(0.05)
        assert not asked.done()
    assert await asked == [0]
    await subscriber.is_quiet()


async def test_a_broker_that_was_away_catches_up(brokers: Brokers) -> None:
    """With what was set, replaced and deleted meanwhile, on either side; it asks for nothing that it has."""
    await brokers.pair()
    await brokers.are_linked()
    for number in range(20):
        await retain(brokers["a"], f"plant/{number}", b"old")
    await have(brokers, {f"plant/{number}": b"old" for number in range(20)})
    proxy = await brokers.proxy("a", "b")
    proxy.cut()
    await until(lambda: not brokers["a"].neighbor("b").is_up and not brokers["b"].neighbor("a").is_up)

    await retain(brokers["a"], "plant/1", b"new")
    await retain(brokers["a"], "plant/2", b"")
    await retain(brokers["b"], "plant/3", b"")
    await retain(brokers["b"], "office/1", b"new")
    received = brokers["b"].neighbor("a").vpns[0].retained.received_count
    proxy.heal()
    await brokers.are_linked()

    expected = {f"plant/{number}": b"old" for number in range(20) if number not in (2, 3)}
    await have(brokers, {**expected, "plant/1": b"new", "office/1": b"new"})
    assert brokers["b"].neighbor("a").vpns[0].retained.received_count == received + 2


async def test_what_was_deleted_while_a_broker_was_down_does_not_come_back(brokers: Brokers) -> None:
    """Also after restarts of both, for deletions are stored until the neighbor knows them."""
    await brokers.pair()
    await brokers.are_linked()
    await retain(brokers["a"], "t", b"on")
    await retain(brokers["a"], "other", b"stays")
    await have(brokers, {"t": b"on", "other": b"stays"})
    await brokers["b"].stop()

    await retain(brokers["a"], "t", b"")
    await brokers["a"].restart()
    assert brokers["a"].node.vpns["default"].space.retained.tombstones.count == 1
    await brokers["b"].start()
    (await brokers.proxy("a", "b")).target_port = brokers["b"].flow_port
    await brokers.are_linked()

    await have(brokers, {"other": b"stays"})
    await until(lambda: brokers["a"].node.vpns["default"].space.retained.tombstones.count == 0)
    await brokers["a"].restart()
    assert brokers["a"].node.vpns["default"].space.retained.tombstones.count == 0


async def test_a_message_outlives_the_store_of_the_broker_that_took_it(brokers: Brokers) -> None:
    """A broker that begins with nothing gets the network's messages from its neighbor."""
    await brokers.pair()
    await brokers.are_linked()
    await retain(brokers["b"], "t", b"on")
    await have(brokers, {"t": b"on"})
    await brokers["b"].stop()
    await brokers.add("c", f"links.a.url=flow://127.0.0.1:{brokers['a'].flow_port}", start=False)
    await brokers["a"].stop()
    brokers["a"].settings = (*brokers["a"].settings, "links.c.url=")
    brokers["a"].reads_settings()
    await brokers["a"].start()
    brokers["c"].settings = (*brokers["c"].settings, f"links.a.url=flow://127.0.0.1:{brokers['a'].flow_port}")
    brokers["c"].reads_settings()
    await brokers["c"].start()
    await brokers.are_linked("a", "c")
    await have(brokers, {"t": b"on"}, "a", "c")


async def test_three_brokers_agree(brokers: Brokers) -> None:
    await brokers.pair(a=("links.c.url=",), b=("links.c.url=",))
    ports = {name: brokers[name].flow_port for name in ("a", "b")}
    await brokers.add("c", *[f"links.{name}.url=flow://127.0.0.1:{port}" for name, port in ports.items()])
    await brokers.are_linked("a", "b", "c")
    await asyncio.gather(*[retain(brokers[name], "t", name.encode()) for name in ("a", "b", "c")])
    await retain(brokers["a"], "of-a", b"1")
    await retain(brokers["b"], "of-b", b"2")
    await retain(brokers["c"], "of-c", b"3")
    await until(lambda: len({tuple(sorted(brokers[each].retains().items())) for each in "abc"}) == 1)
    assert brokers["a"].retains().keys() == {"t", "of-a", "of-b", "of-c"}

    await retain(brokers["c"], "of-a", b"")
    await until(lambda: all("of-a" not in brokers[each].retains() for each in "abc"))


async def test_topics_of_one_broker_and_excluded_ones_do_not_cross(brokers: Brokers) -> None:
    await brokers.pair(a=("links.b.export_exclude.0=secret/>",))
    await brokers.are_linked()
    await retain(brokers["a"], "secret/1", b"here")
    await retain(brokers["b"], "secret/2", b"there")
    await retain(brokers["b"], "$own/1", b"there")
    await retain(brokers["a"], "open/1", b"both")
    await until(lambda: "open/1" in brokers["b"].retains())
    assert brokers["b"].retains() == {"secret/2": b"there", "open/1": b"both"}
    await until(lambda: brokers["a"].neighbor("b").vpns[0].retained.excluded_count == 1)
    assert brokers["a"].retains() == {"secret/1": b"here", "open/1": b"both"}
    assert brokers["a"].node.vpns["default"].space.retained.get("$own/1") is None


async def test_a_neighbor_without_room_counts_what_it_does_not_retain(brokers: Brokers) -> None:
    await brokers.pair(b=("vpn.max_retained_message_count=1",))
    await brokers.are_linked()
    await retain(brokers["a"], "t/1", b"on")
    await have(brokers, {"t/1": b"on"})
    await retain(brokers["a"], "t/2", b"too many")
    await until(lambda: brokers["b"].neighbor("a").vpns[0].retained.no_room_count == 1)
    assert brokers["b"].retains() == {"t/1": b"on"}


async def test_a_broker_whose_clock_is_far_ahead_is_not_believed(brokers: Brokers) -> None:
    await brokers.pair()
    await brokers.are_linked()
    clock = brokers["a"].node.vpns["default"].space.retained.clock
    clock.saw(type(clock)("a").next(brokers["a"].node.services.clock.wall_ms() + 3_700_000))
    await retain(brokers["a"], "t", b"on")
    link = brokers["b"].neighbor("a").vpns[0].retained
    await until(lambda: link.receiver.ahead_count == 1)
    assert brokers["b"].retains() == {}
    events = brokers["b"].node.services.runtime.events.record.recent(0, 100)
    assert any(each.kind.name == "SYSTEM_NETWORK_CLOCK_AHEAD" for _, each in events)


async def test_what_was_retained_while_a_clock_was_wrong_crosses_when_both_agree_on_the_time(brokers: Brokers) -> None:
    """Else all that the broker retained from then on would be rejected, until clocks pass the wrong time."""
    await brokers.pair()
    await brokers.are_linked()
    a = brokers["a"]
    a.node.vpns["default"].space.retained.clock.saw(Version(a.node.services.clock.wall_ms() + 86_400_000, 0, "a"))
    await retain(a, "t", b"on")
    await retain(a, "gone", b"")
    await retain(a, "u", b"on")
    await until(lambda: brokers["b"].neighbor("a").vpns[0].retained.receiver.ahead_count == 3)
    assert brokers["b"].retains() == {}

    await a.restart()
    await brokers.are_linked()
    await have(brokers, {"t": b"on", "u": b"on"})
    await retain(a, "t", b"off")
    await have(brokers, {"t": b"off", "u": b"on"})
    stored = a.node.vpns["default"].space.retained.stored
    assert stored is not None
    stored.check()


async def test_a_row_of_an_earlier_release_is_read_and_travels(brokers: Brokers) -> None:
    await brokers.pair()
    old = MessageBatch(
        topic="t",
        topics=None,
        payloads=[b"old"],
        headers=None,
        qos=1,
        retain=True,
        publisher="till",
        received_ms=1_700_000_000_000,
        payload_bytes=3,
    )
    row = TableWrite(Table.RETAINED, b"t", encode_batch(old))
    brokers["a"].node.services.spool.inbox.post(WriteTables([row], None, 0))
    await retain(brokers["a"], "other", b"new")
    await brokers["a"].restart()
    await brokers.are_linked()

    await have(brokers, {"t": b"old", "other": b"new"})
    space = brokers["b"].node.vpns["default"].space
    assert space.retained.version_of("t") == Version(1_700_000_000_000, 0, "a")


async def test_operators_see_what_crosses_and_what_does_not(brokers: Brokers) -> None:
    await brokers.pair(b=("vpn.max_retained_message_count=1",))
    await brokers.are_linked()
    await retain(brokers["a"], "t/1", b"on")
    await have(brokers, {"t/1": b"on"})
    await retain(brokers["a"], "t/2", b"too many")
    link = brokers["b"].neighbor("a").vpns[0].retained
    await until(lambda: link.rejected_counts()["no_room"] == 1)

    (view,) = brokers["b"].node.links.link_view("a").message_vpns
    assert (view.retained_sent, view.retained_received, view.retained_rejected) == (0, 1, 1)
    assert brokers["a"].node.links.link_view("b").message_vpns[0].retained_sent == 2
    found = {(each.name, each.labels): each.value for each in samples_of(brokers["b"].node, [])}
    assert found["sluicegate_link_retained_received_total", ("a",)] == 1
    assert found["sluicegate_link_retained_rejected_total", ("a", "no_room")] == 1


async def test_many_messages_from_before_the_link_come_in_parts(brokers: Brokers) -> None:
    """More than the window of parts that are not acknowledged."""
    await brokers.add("b", "links.a.url=")
    client = await brokers["b"].connect("publisher", 5)
    for number in range(5000):
        client.send(mqtt.publish(f"plant/{number}", bytes(1000), level=5, qos=0, packet_id=0, retain=True))
    await client.round_trip()
    await brokers.add("a", f"links.b.url=flow://127.0.0.1:{brokers['b'].flow_port}")
    await brokers.are_linked()
    await until(lambda: len(brokers["a"].retains()) == 5000)
    link = brokers["b"].neighbor("a").vpns[0].retained
    assert (link.sent_count, brokers["a"].neighbor("b").vpns[0].retained.sent_count) == (5000, 0)
    assert link.sender.sent_number > PARTS_AHEAD_MAX


async def test_what_was_confirmed_outlives_crashes_of_each_broker_at_both(brokers: Brokers) -> None:
    await brokers.pair()
    await brokers.are_linked()
    expected: dict[str, bytes] = {}
    for number, name in enumerate(("a", "b", "a", "b")):
        for at in range(10):
            topic = f"plant/{at}"
            payload = b"" if at % 4 == number else f"{number} of {name}".encode()
            await retain(brokers[name], topic, payload)
            expected.pop(topic, None)
            if payload:
                expected[topic] = payload
        await brokers[name].crash()
        (await brokers.proxy("a", "b")).target_port = brokers["b"].flow_port
        await brokers.are_linked()
        await have(brokers, expected)
