"""QoS 2 towards a client with a crash after every commit: no message comes twice, and packet ids are kept."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from sluicegate.actors.messages.directory import ListQueues
from sluicegate.actors.messages.queues import DescribeQueue
from sluicegate.gateway.config.load import load
from sluicegate.storage.interface import CommitJob
from support.broker.named_queues import create
from support.broker.running_broker import RunningBroker
from support.mqtt.packets import Published
from support.mqtt.raw_client import RawClient

SHARE = "$share/g/t"


async def taken(broker: RunningBroker, filter_text: str) -> tuple[RawClient, Published]:
    """Return a client with a QoS 2 message that it has not answered yet."""
    client = await broker.connect_durable("patient")
    await client.subscribe(filter_text, qos=2)
    await (await broker.connect("publisher")).publish("t", b"once", qos=2)
    return client, await client.message()


def keep_states(broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[Path]]:
    """From now on keep what is in the store after each commit; return what tells where."""
    data, commit = broker.config.data.path, broker.node.services.store.commit
    states: list[Path] = []

    def kept(job: CommitJob) -> int:
        next_number = commit(job)
        states.append(shutil.copytree(data, data.with_name(f"state-{len(states)}")))
        return next_number

    monkeypatch.setattr(broker.node.services.store, "commit", kept)
    return lambda: states


async def comes_back_in(broker: RunningBroker, state: Path) -> None:
    """Start from what was in the store at a moment."""
    shutil.rmtree(broker.config.data.path)
    state.rename(broker.config.data.path)
    await broker.start()


@pytest.mark.parametrize("filter_text", ["t", SHARE, "$queue/q"])
async def test_a_message_that_a_client_has_stays_its_own_until_it_is_released(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, filter_text: str
) -> None:
    """[4.3.3-1] [4.8.2-4]: another message under its id would be the same to the client, and be passed over.

    A named queue gives it to anybody, where the crash came before it was settled.
    """
    await create(broker, subscriptions=["t"])
    await create(broker, "e", subscriptions=["elsewhere"])
    client, sent = await taken(broker, filter_text)
    other = await broker.connect_durable("other")
    await other.subscribe(SHARE, qos=2)
    await other.is_quiet()  # no commit has just been made: the next one need not wait
    states = keep_states(broker, monkeypatch)
    # What is published in the same turn has it end with a commit of its own.
    client.send(mqtt.pubrec(sent.packet_id), mqtt.publish("elsewhere", level=5, qos=1, packet_id=99))
    assert await client.answered(mqtt.PUBREL, sent.packet_id) == 0
    await broker.stop()
    assert len(states()) > 1

    for state in states():
        await comes_back_in(broker, state)
        client = await broker.connect_durable("patient")
        told = await client.packet()
        if told.kind == mqtt.PUBLISH:  # by its id the client knows that it has it
            again = mqtt.published(told, 5)
            assert (again.packet_id, again.payload, again.dup) == (sent.packet_id, b"once", True)
        else:
            assert (told.kind, mqtt.packet_id_of(told)) == (mqtt.PUBREL, sent.packet_id)
        other = await broker.connect_durable("other")
        await other.is_quiet()
        await broker.stop()
    await broker.start()


async def test_a_message_that_a_full_window_keeps_a_member_from_completing_stays_with_it_while_it_is_away(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[4.8.2-4]: the id that it has not completed takes all of its window after the crash, and it leaves once more."""
    client, sent = await taken(broker, SHARE)
    other = await broker.connect_durable("other")
    await other.subscribe(SHARE, qos=2)
    await other.is_quiet()
    states = keep_states(broker, monkeypatch)
    client.send(mqtt.pubrec(sent.packet_id))
    assert await client.answered(mqtt.PUBREL, sent.packet_id) == 0
    known = states()[0]
    await broker.stop()

    await comes_back_in(broker, known)
    client = await broker.connect_durable("patient", properties=mqtt.receive_maximum(1))
    assert mqtt.packet_id_of(await client.packet()) == sent.packet_id
    await client.vanish()
    other = await broker.connect_durable("other")
    await other.is_quiet()

    client = await broker.connect_durable("patient")
    assert (await client.packet()).kind == mqtt.PUBREL
    client.send(mqtt.acknowledgement(mqtt.PUBCOMP, sent.packet_id))
    await client.is_quiet()
    (queue,) = [each for each in await broker.node.default.queues.ask(ListQueues()) if each.name == "#share/g/t"]
    (partition,) = (await queue.cell.ask(DescribeQueue())).partitions
    assert (partition.waiting_count, partition.discards) == (0, {})


async def test_messages_waiting_for_a_member_without_permission_are_delivered_to_none(broker: RunningBroker) -> None:
    """[4.8.2-5]: its subscription has ended, and with that the reason to keep the message."""
    client, _ = await taken(broker, SHARE)
    other = await broker.connect_durable("other")
    await other.subscribe(SHARE, qos=2)
    await client.vanish()
    await other.is_quiet()
    denied = "authentication.client_profiles=[{name: default, allow_shared_subscriptions_enabled: false}]"
    await broker.node.reload(load(settings=(*broker.settings, denied)))
    await (await broker.connect_durable("patient")).round_trip()
    (queue,) = [each for each in await broker.node.default.queues.ask(ListQueues()) if each.name == "#share/g/t"]
    (partition,) = (await queue.cell.ask(DescribeQueue())).partitions
    assert (partition.waiting_count, partition.discards) == (0, {"session_ended": 1})
