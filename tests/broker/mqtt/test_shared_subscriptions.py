"""Shared subscriptions: each message to one member of a group (section 4.8.2)."""

import asyncio

import pytest

import support.mqtt.packets as mqtt
from sluicegate.actors.messages.directory import SHARED, CreateQueue, ListQueues
from sluicegate.actors.messages.queues import DescribeQueue
from support.broker.named_queues import shows
from support.broker.running_broker import RunningBroker
from support.mqtt.packets import Published
from support.mqtt.raw_client import DEADLINE_S, RawClient

EVERY_QOS = pytest.mark.parametrize("qos", [0, 1, 2])


async def everything(count: int, *clients: RawClient) -> list[list[bytes]]:
    """Return what each client gets, so many messages in all and no more, handshakes included."""
    found: list[list[bytes]] = [[] for _ in clients]
    complete = asyncio.Event()

    async def listen(client: RawClient, its: list[bytes]) -> None:
        while True:
            its += await client.payloads(1)
            if sum(map(len, found)) == count:
                complete.set()

    async with asyncio.timeout(2 * DEADLINE_S):
        listening = [asyncio.ensure_future(listen(*each)) for each in zip(clients, found, strict=True)]
        await complete.wait()
        for each in listening:
            each.cancel()
        await asyncio.wait(listening)
    for client in clients:
        await client.is_quiet()
    return found


async def publish_hundred(broker: RunningBroker, qos: int) -> list[bytes]:
    publisher = await broker.connect()
    payloads = [b"%03d" % number for number in range(100)]
    for payload in payloads:
        await publisher.publish("t", payload, qos=qos)
    return payloads


@EVERY_QOS
@pytest.mark.parametrize("level", [4, 5])
async def test_a_group_shares_and_others_get_everything(broker: RunningBroker, qos: int, level: int) -> None:
    """[4.8.2-3] and section 4.8.2; 3.1.1 clients may share too."""
    first, second, alone = [await broker.connect(level=level) for _ in range(3)]
    for member in (first, second):
        assert await member.subscribe("$share/g/t", qos=qos) == [qos]
    await alone.subscribe("t", qos=qos)
    payloads = await publish_hundred(broker, qos)
    one, other, all_of_them = await everything(200, first, second, alone)
    assert sorted(one + other) == payloads
    assert one
    assert other
    assert all_of_them == payloads


@EVERY_QOS
async def test_groups_of_different_names_are_independent(broker: RunningBroker, qos: int) -> None:
    """[4.8.2-1]: and so is the plain subscription of a member."""
    first, second = await broker.connect(level=5), await broker.connect(level=5)
    await first.subscribe("$share/g/t", "t", qos=qos)
    await second.subscribe("$share/h/t", qos=qos)
    payloads = await publish_hundred(broker, qos)
    both, one = await everything(300, first, second)
    assert sorted(both) == sorted(payloads * 2)
    assert one == payloads


@pytest.mark.parametrize("text", ["$share//t", "$share/g", "$share/g/", "$share/g+/t", "$share/g#/t", "$share/g/a#"])
@pytest.mark.parametrize("level", [4, 5])
async def test_a_malformed_group_is_refused(broker: RunningBroker, level: int, text: str) -> None:
    """[4.8.2-1] [4.8.2-2]."""
    client = await broker.connect(level=level)
    if level == 4 and text in ("$share/g+/t", "$share/g#/t", "$share/g/a#"):  # no filter of any kind [311:4.8.0-1]
        client.send(mqtt.subscribe((text, 0)))
        await client.is_closed()
    else:
        assert await client.subscribe(text) == [0x8F if level == 5 else 0x80]


async def test_no_local_on_a_shared_subscription_is_a_protocol_error(broker: RunningBroker) -> None:
    """[3.8.3-4]."""
    client = await broker.connect(level=5)
    client.send(mqtt.subscribe(("$share/g/t", mqtt.options(1, no_local=True)), level=5))
    await client.is_ended(0x82)


@EVERY_QOS
async def test_joining_a_group_brings_no_retained_messages(broker: RunningBroker, qos: int) -> None:
    """Section 3.8.4."""
    await (await broker.connect()).publish("t", retain=True)
    client = await broker.connect(level=5)
    await client.subscribe("$share/g/t", qos=qos)
    await client.is_quiet()


async def test_a_member_that_is_there_gets_what_an_absent_one_would(broker: RunningBroker) -> None:
    """Section 4.8.2: a server may send to another member when the chosen one is away."""
    absent = await broker.connect_durable("absent")
    present = await broker.connect_durable("present")
    for member in (absent, present):
        await member.subscribe("$share/g/t", qos=1)
    await absent.leave()
    publisher = await broker.connect()
    for number in range(10):
        await publisher.publish("t", b"%d" % number)
    assert await present.payloads(10) == [b"%d" % number for number in range(10)]


async def test_messages_wait_while_all_members_are_away(broker: RunningBroker) -> None:
    """Section 4.8.2: the group's messages are kept for its durable members."""
    for name in ("first", "second"):
        member = await broker.connect_durable(name)
        await member.subscribe("$share/g/t", qos=1)
        await member.leave()
    publisher = await broker.connect()
    for number in range(10):
        await publisher.publish("t", b"%d" % number)
    member = await broker.connect_durable("second")
    assert await member.payloads(10) == [b"%d" % number for number in range(10)]
    await member.is_quiet()


async def test_unacknowledged_messages_of_a_lost_member_go_to_another(broker: RunningBroker) -> None:
    """Section 4.8.2: a QoS 1 message may be sent to another member when the connection breaks."""
    lost, other = await broker.connect("lost", 5), await broker.connect("other", 5)
    await lost.subscribe("$share/g/t", qos=1)
    await (await broker.connect()).publish("t", b"work")
    assert (await lost.message()).payload == b"work"
    await other.subscribe("$share/g/t", qos=1)
    await lost.vanish()
    assert await other.payloads(1) == [b"work"]


async def test_a_qos_2_message_past_pubrec_stays_with_its_member(broker: RunningBroker) -> None:
    """[4.8.2-4] [4.8.2-5]: completed with the same client, given to nobody else."""
    member = await broker.connect_durable("member")
    await member.subscribe("$share/g/t", qos=2)
    await (await broker.connect()).publish("t", qos=2)
    message = await member.message()
    other = await broker.connect_durable("other")
    await other.subscribe("$share/g/t", qos=2)
    member.send(mqtt.pubrec(message.packet_id))
    assert await member.answered(mqtt.PUBREL, message.packet_id) == 0
    await member.vanish()
    await other.is_quiet()

    member = await broker.connect_durable("member")

    assert await member.answered(mqtt.PUBREL, message.packet_id) == 0
    member.send(mqtt.pubcomp(message.packet_id))
    await member.is_quiet()
    await other.is_quiet()


async def qos_2_message_in_flight(broker: RunningBroker, *, level: int = 5) -> Published:
    """A durable member "chosen" of a group of two gets a QoS 2 message and vanishes before it has said PUBREC."""
    chosen = await broker.connect_durable("chosen", level)
    await chosen.subscribe("$share/g/t", qos=2)
    await (await broker.connect()).publish("t", b"work", qos=2)
    message = await chosen.message()
    await chosen.round_trip()
    other = await broker.connect_durable("other")
    await other.subscribe("$share/g/t", qos=2)
    await chosen.vanish()
    await other.is_quiet()
    await other.leave()
    return message


@pytest.mark.parametrize("level", [4, 5])
@pytest.mark.parametrize("restarts", [False, True])
async def test_a_qos_2_message_that_was_sent_is_completed_with_the_same_client(
    broker: RunningBroker, level: int, restarts: bool
) -> None:
    """[4.8.2-4]: under its packet id, with DUP, also when the broker was restarted meanwhile."""
    sent = await qos_2_message_in_flight(broker, level=level)
    if restarts:
        await broker.restart()
    other = await broker.connect_durable("other")
    await other.is_quiet()

    chosen = await broker.connect_durable("chosen", level)

    again = await chosen.message()
    assert (again.payload, again.packet_id, again.dup, again.qos) == (b"work", sent.packet_id, True, 2)
    await chosen.completes(again)
    for number in range(4):  # and the group goes on
        await (await broker.connect()).publish("t", b"%d" % number, qos=2)
    found = [payload for payloads in await everything(4, chosen, other) for payload in payloads]
    assert sorted(found) == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_qos_2_message_of_a_member_whose_session_ends_is_not_redelivered(
    broker: RunningBroker, restarts: bool
) -> None:
    """[4.8.2-5]: it is dropped, and counted."""
    await qos_2_message_in_flight(broker)
    if restarts:
        await broker.restart()
    await broker.connect("chosen", 5)  # clean start
    other = await broker.connect_durable("other")
    await other.is_quiet()
    (queue,) = [each for each in await broker.node.default.queues.ask(ListQueues()) if each.name == "#share/g/t"]
    (partition,) = (await queue.cell.ask(DescribeQueue())).partitions
    assert partition.waiting_count == 0
    assert partition.discards == {"session_ended": 1}


async def test_a_qos_2_message_of_a_member_without_a_kept_session_is_not_redelivered(broker: RunningBroker) -> None:
    """[4.8.2-5]: its session ends with the connection."""
    brief, other = await broker.connect("brief", 5), await broker.connect("other", 5)
    await brief.subscribe("$share/g/t", qos=2)
    await (await broker.connect()).publish("t", b"work", qos=2)
    assert (await brief.message()).payload == b"work"
    await other.subscribe("$share/g/t", qos=2)
    await brief.vanish()
    await other.is_quiet()


async def test_a_returning_member_gets_its_messages_within_its_new_receive_maximum(broker: RunningBroker) -> None:
    """[4.8.2-4] [3.3.4-9]: what waits for it comes in order, as far as the credit goes."""
    chosen = await broker.connect_durable("chosen")
    await chosen.subscribe("$share/g/t", qos=2)
    publisher = await broker.connect()
    for number in range(5):
        await publisher.publish("t", b"%d" % number, qos=2)
    sent = [await chosen.message() for _ in range(5)]
    await chosen.vanish()

    chosen = await broker.connect_durable("chosen", properties=mqtt.receive_maximum(2))

    first, second = [await chosen.message() for _ in range(2)]
    await chosen.is_quiet()
    assert [first.packet_id, second.packet_id] == [each.packet_id for each in sent[:2]]
    await chosen.completes(first)
    await chosen.completes(second)
    assert await chosen.payloads(3) == [b"2", b"3", b"4"]


async def test_a_member_that_takes_over_its_own_session_completes_its_messages(broker: RunningBroker) -> None:
    """[4.8.2-4] [3.1.4-3]."""
    chosen = await broker.connect_durable("chosen")
    await chosen.subscribe("$share/g/t", qos=2)
    await (await broker.connect()).publish("t", b"work", qos=2)
    sent = await chosen.message()
    again = await (successor := await broker.connect_durable("chosen")).message()
    assert (again.packet_id, again.dup) == (sent.packet_id, True)
    await successor.completes(again)
    await successor.is_quiet()


@pytest.mark.parametrize("qos", [1, 2])
async def test_a_message_that_a_member_refuses_goes_to_no_other_member(broker: RunningBroker, qos: int) -> None:
    """[4.8.2-6]."""
    members = [await broker.connect(f"member-{number}", 5) for number in range(2)]
    for member in members:
        await member.subscribe("$share/g/t", qos=qos)
    await (await broker.connect()).publish("t", qos=qos)
    waiting = [asyncio.ensure_future(member.message()) for member in members]
    (done,), (idle,) = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    idle.cancel()
    message = await done
    chosen, other = members if done is waiting[0] else reversed(members)
    refuse = mqtt.puback if qos == 1 else mqtt.pubrec
    chosen.send(refuse(message.packet_id, 0x80))
    await chosen.is_quiet()
    await other.is_quiet()
    await chosen.vanish()
    await other.is_quiet()


async def test_a_message_too_large_for_a_member_does_not_hold_up_its_group(broker: RunningBroker) -> None:
    """[3.1.2-25] and section 4.8.2: a server may try another member; ours takes it as delivered."""
    small = await broker.connect("small", 5, properties=mqtt.maximum_packet_size(30))
    await small.subscribe("$share/g/t", qos=1)
    publisher = await broker.connect()
    await publisher.publish("t", b"x" * 100)
    await publisher.publish("t", b"short")
    assert await small.payloads(1) == [b"short"]


async def test_a_member_that_wants_no_more_than_qos_0_gets_what_is_published_to_its_group(
    broker: RunningBroker,
) -> None:
    """[3.8.4-3] [3.8.4-8]: the group's queue goes when nobody asks for guaranteed messages any more."""
    member = await broker.connect_durable("member")
    await member.subscribe("$share/g/t", qos=1)
    await member.subscribe("$share/g/t", qos=0)
    await broker.has_no_more_than(sessions=1, queues=0)
    publisher = await broker.connect()
    await publisher.publish("t", b"at once", qos=1)
    assert await member.payloads(1) == [b"at once"]
    await member.vanish()
    member = await broker.connect_durable("member")
    await publisher.publish("t", b"when it is back", qos=1)
    assert await member.payloads(1) == [b"when it is back"]


async def test_a_member_that_wants_no_more_than_qos_0_leaves_guaranteed_messages_to_the_others(
    broker: RunningBroker,
) -> None:
    """[3.8.4-3]: what it has not answered is given back, as with UNSUBSCRIBE; QoS 2 ids are released first."""
    member, other = await broker.connect_durable("member"), await broker.connect_durable("other")
    await member.subscribe("$share/g/t", qos=2)
    publisher = await broker.connect()
    await publisher.publish("t", b"given back", qos=1)
    assert (await member.message()).payload == b"given back"
    await other.subscribe("$share/g/t", qos=1)
    await member.subscribe("$share/g/t", qos=0)
    await publisher.publish("t", b"next", qos=1)
    assert sorted(await other.payloads(2)) == [b"given back", b"next"]
    await member.is_quiet()


async def test_leaving_a_group_ends_its_share(broker: RunningBroker) -> None:
    """[3.10.4-1]: by its whole text."""
    first, second = await broker.connect("first", 5), await broker.connect("second", 5)
    for member in (first, second):
        await member.subscribe("$share/g/t", qos=1)
    assert await first.unsubscribe("t", "$share/g/t") == [0x11, 0x00]
    publisher = await broker.connect()
    for number in range(4):
        await publisher.publish("t", b"%d" % number)
    assert len(await second.messages(4)) == 4
    await first.is_quiet()


async def test_a_qos_2_message_of_a_client_that_is_away_outlives_a_failing_queue(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """[4.8.2-4]: its partition is read back from the store, and forgets whom it waited for; nothing is lost.

    The failure is a message that no partition knows.
    """
    caplog.handler.addFilter(lambda record: "actor sluicegate/default/queues/" not in record.getMessage())
    sent = await qos_2_message_in_flight(broker)
    [queue] = [each for each in await broker.node.default.queues.ask(ListQueues()) if each.name.startswith("#share/")]
    [partition] = queue.cell.children or {}
    failures_count = partition.overview().restarts_count + 6
    for _ in range(6):
        partition.inbox.post(object())
    async with asyncio.timeout(DEADLINE_S):
        while partition.overview().restarts_count < failures_count or partition.suspended:
            await asyncio.sleep(0.01)
    other = await broker.connect_durable("other")
    got = (await other.messages(1))[0]
    assert (got.payload, got.qos) == (b"work", 2)

    chosen = await broker.connect_durable("chosen")

    assert await chosen.answered(mqtt.PUBREL, sent.packet_id) == 0
    chosen.send(mqtt.pubcomp(sent.packet_id))
    await chosen.is_quiet()
    assert sent.payload == b"work"
    await (await broker.connect()).publish("t", b"next", qos=2)
    [its, others] = await everything(1, chosen, other)
    assert its + others == [b"next"]


@pytest.mark.settings("authentication.client_profiles=[{name: default, allow_shared_subscriptions_enabled: false}]")
async def test_a_client_whose_profile_does_not_allow_it_joins_no_group(broker: RunningBroker) -> None:
    """Solace 2.5: 403 Shared Subscription Permission Denied; SUBACK 0x87."""
    client = await broker.connect(level=5)
    client.send(mqtt.subscribe(("$share/g/t", 1), ("t", 0), packet_id=77, level=5))
    answer = await client.awaited(mqtt.SUBACK)
    assert mqtt.suback_codes(answer, 5) == [0x87, 0]
    assert b"403 Shared Subscription Permission Denied" in answer.body


def partitions(count: str) -> bytes:
    return mqtt.user_property("partition-count", count)


async def refusal(client: RawClient, text: str, qos: int, properties: bytes) -> str:
    """Subscribe in vain; return the Reason String."""
    client.send(mqtt.subscribe((text, qos), packet_id=77, level=5, properties=properties))
    answer = await client.awaited(mqtt.SUBACK)
    assert mqtt.suback_codes(answer, 5) == [0x83]
    return answer.body.decode(errors="replace")


@pytest.mark.parametrize("durable", [False, True])
async def test_a_group_may_ask_for_partitions_and_has_order_by_key(broker: RunningBroker, durable: bool) -> None:
    """Members own whole partitions: a key has one member, whatever the others do."""
    connect = broker.connect_durable if durable else broker.connect
    clients = [await connect(name, 5) for name in ("a", "b")]
    assert await clients[0].subscribe("$share/g/t", qos=1, properties=partitions("8")) == [1]
    assert await clients[1].subscribe("$share/g/t", qos=1) == [1]
    view = await shows(  # after the rebalance delay
        broker, lambda view: sorted(len(flow.partitions) for flow in view.flows) == [4, 4], name="#share/g/t"
    )
    assert (view.config.partition_count, view.durable) == (8, durable)
    publisher = await broker.connect(level=5)
    for number in range(60):
        properties = mqtt.user_property("JMSXGroupID", f"key-{number % 12}")
        await publisher.publish("t", b"%d %d" % (number % 12, number), properties=properties)
    found = [[payload.split() for payload in its] for its in await everything(60, *clients)]
    keys = [{key for key, _ in its} for its in found]
    assert not keys[0] & keys[1]
    for its in found:
        for key in {key for key, _ in its}:
            numbers = [int(number) for each, number in its if each == key]
            assert numbers == sorted(numbers)


async def test_a_group_keeps_its_partitions_over_a_restart(broker: RunningBroker) -> None:
    member = await broker.connect_durable("a")
    await member.subscribe("$share/g/t", qos=2, properties=partitions("4"))
    await member.leave()
    publisher = await broker.connect(level=5)
    for number in range(8):
        properties = mqtt.user_property("JMSXGroupID", f"key-{number}")
        await publisher.publish("t", b"%d" % number, qos=2, properties=properties)
    await broker.restart()
    member = await broker.connect_durable("a")
    messages = []
    for _ in range(8):
        message = await member.message()
        await member.completes(message)
        messages.append(message.payload)
    assert sorted(messages) == [b"%d" % number for number in range(8)]


async def test_a_queue_that_a_crash_left_without_members_is_deleted(broker: RunningBroker) -> None:
    """The session of the last member is deleted with one commit, and the queue of the group with a later one."""
    queues = broker.node.default.queues
    member = await broker.connect_durable("a")
    await member.subscribe("$share/g/t", qos=1)
    (handle,) = [each for each in await queues.ask(ListQueues()) if each.name == "#share/g/t"]
    await member.unsubscribe("$share/g/t")
    await queues.ask(CreateQueue(handle.definition, SHARED, durable=True, must_be_new=False))
    await broker.restart()
    assert "#share/g/t" not in [each.name for each in await broker.node.default.queues.ask(ListQueues())]


async def test_an_invalid_number_of_partitions_is_refused_and_joins_no_group(broker: RunningBroker) -> None:
    first, other = await broker.connect("a", 5), await broker.connect("b", 5)
    assert "'1001' is no number of partitions; allowed: one, 1 to 1000" in await refusal(
        first, "$share/g/t", 1, partitions("1001")
    )
    assert "'2, 3' is no number" in await refusal(first, "$share/g/t", 1, partitions("2") + partitions("3"))
    assert "partitions at QoS 0, where there is no queue" in await refusal(first, "$share/g/t", 0, partitions("2"))
    assert await first.subscribe("$share/g/t", qos=1, properties=partitions("2")) == [1]
    assert await first.subscribe("$share/g/t", qos=1, properties=partitions("2")) == [1]
    text = await refusal(other, "$share/g/t", 1, partitions("3"))
    assert "the shared subscription has 2 partitions, not 3" in text
    assert await other.unsubscribe("$share/g/t") == [0x11]
    publisher = await broker.connect(level=5)
    await publisher.publish("t", b"direct", qos=0)
    assert await first.payloads(1) == [b"direct"]
    await other.is_quiet()


async def test_a_member_whose_wish_for_guaranteed_messages_is_refused_stays_what_it_was(broker: RunningBroker) -> None:
    """It consumes no queue, so none is kept for it when the others have gone."""
    leaves, stays = await broker.connect("a", 5), await broker.connect("b", 5)
    assert await leaves.subscribe("$share/g/t", qos=1, properties=partitions("2")) == [1]
    assert await stays.subscribe("$share/g/t", qos=0) == [0]
    assert "has 2 partitions, not 3" in await refusal(stays, "$share/g/t", 1, partitions("3"))
    await leaves.unsubscribe("$share/g/t")
    publisher = await broker.connect(level=5)
    await publisher.publish("t", b"guaranteed", qos=1)
    assert await stays.payloads(1) == [b"guaranteed"]
