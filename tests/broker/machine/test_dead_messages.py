"""Dead messages on a machine with two brokers: whichever has the queue, they come to the one dead message queue."""

import support.mqtt.packets as mqtt
from sluicegate.gateway.operations.node import NodeOperations
from support.broker.linked_brokers import until
from support.broker.machine_brokers import MachineBrokers, client_at
from support.broker.named_queues import create, shown, shows
from support.broker.operator_views import event_texts

DMQ = "#DEAD_MSG_QUEUE"
IMPLEMENTATION_ERROR = 0x83


async def knows(machine: MachineBrokers, number: int, name: str = DMQ) -> None:
    """Wait until a broker knows a queue of the other one."""
    space = machine[number].node.default.space
    await until(lambda: space.queue_home(name) is not None, f"{number} knows {name}")


async def reject(machine: MachineBrokers, number: int, *payloads: bytes, queue: str = "q") -> None:
    """Publish messages to a queue of a broker, and refuse them."""
    client = await machine[number].connect(client_at(number), 5)
    await client.subscribe((f"$queue/{queue}", 1))
    for payload in payloads:
        await client.publish(f"$queue/{queue}", payload, qos=1)
        client.send(mqtt.puback((await client.message()).packet_id, IMPLEMENTATION_ERROR))
    await client.round_trip()
    await client.vanish()


async def contents(machine: MachineBrokers, number: int) -> list[str]:
    found = await NodeOperations(machine[number].node).browse_queue(DMQ)
    return [message.payload or "" for message in found]


async def test_the_default_dead_message_queue_takes_dead_messages_of_both_brokers(machine: MachineBrokers) -> None:
    await create(machine[2], DMQ)
    await knows(machine, 1)
    await create(machine[1], "q")
    await create(machine[2], "r")
    await reject(machine, 1, b"1", b"2")
    await reject(machine, 2, b"3", queue="r")
    await shows(machine[2], lambda view: view.ready_count == 3, DMQ)
    assert set(await contents(machine, 2)) == {"1", "2", "3"}
    assert set(await contents(machine, 1)) == {"1", "2", "3"}, "it is browsed at every broker"
    assert await event_texts(machine[1], "VPN_AD_DEAD_MSG_LOST") == []
    assert (await shown(machine[1])).warnings == ()


async def test_the_default_dead_message_queue_is_consumed_at_every_broker(machine: MachineBrokers) -> None:
    await create(machine[2], DMQ)
    await knows(machine, 1)
    await create(machine[1], "q")
    await reject(machine, 1, b"1")
    undertaker = await machine[1].connect(client_at(1), 5)
    assert await undertaker.subscribe((f"$queue/{DMQ}", 1)) == [1]
    assert (await undertaker.message()).payload == b"1"


async def test_dead_messages_wait_for_the_broker_that_has_the_queue(machine: MachineBrokers) -> None:
    await create(machine[2], DMQ)
    await knows(machine, 1)
    await create(machine[1], "q")
    await machine[2].stop()
    await reject(machine, 1, b"1", b"2")
    await shows(machine[1], lambda view: view.discards == {"rejected_to_dmq": 2})
    await machine.start(machine[2])
    await shows(machine[2], lambda view: view.ready_count == 2, DMQ)
    assert await contents(machine, 2) == ["1", "2"]


async def test_dead_messages_wait_until_the_other_broker_has_told_what_it_has(machine: MachineBrokers) -> None:
    """It may have got a dead message queue while this one was stopped."""
    await create(machine[1], "q")
    await machine[1].stop()
    await create(machine[2], DMQ)
    await machine[2].stop()
    one = machine[1]
    node = one.make_node()
    await node.start()
    await reject(machine, 1, b"1")
    await shows(one, lambda view: view.spooled_count == 1 and not view.discards)
    await machine.start(machine[2])
    await shows(machine[2], lambda view: view.ready_count == 1, DMQ)


async def test_without_a_dead_message_queue_on_the_machine_it_is_deleted(machine: MachineBrokers) -> None:
    await create(machine[1], "q")
    await reject(machine, 1, b"1")
    await shows(machine[1], lambda view: view.discards == {"rejected_discarded": 1})
    assert len((await shown(machine[1])).warnings) == 1


async def test_the_default_dead_message_queue_moves_to_the_other_broker(machine: MachineBrokers) -> None:
    await create(machine[2], DMQ)
    await knows(machine, 1)
    await create(machine[1], "q")
    await reject(machine, 1, b"1")
    await shows(machine[2], lambda view: view.ready_count == 1, DMQ)
    await NodeOperations(machine[2].node).move_queue(DMQ, "machine-1")
    await until(lambda: machine[1].node.default.space.has_queue(DMQ), "it is at the first")
    await reject(machine, 1, b"2")
    await shows(machine[1], lambda view: view.ready_count == 2, DMQ)
    assert sorted(await contents(machine, 1)) == ["1", "2"]
