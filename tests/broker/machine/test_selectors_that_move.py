"""The durable selectors of a queue's consumers move with it: they say what enters it while its consumers are away."""

from pathlib import Path

from sluicegate.actors.messages.router import ListSelectors, SelectorOverview
from support.broker.linked_brokers import until
from support.broker.machine_brokers import MachineBrokers, client_at
from support.broker.named_queues import shows
from support.broker.virtual_clients import consumer, publish

TOPIC = "VirtualTopic.O"
QUEUE = "Consumer.a.VirtualTopic.O"
AWARE = "virtual_destinations.virtual_topics=[{selector_aware: true}]"


async def selectors(machine: MachineBrokers, number: int) -> list[tuple[str, str, list[str]]]:
    known: list[SelectorOverview] = await machine[number].node.default.router.ask(ListSelectors())
    return [(each.queue, each.subscriber, each.selectors) for each in known]


async def move_to_first(machine: MachineBrokers) -> None:
    moves = machine[2].node.links.moves(machine[2].node.default)
    await moves.begin(QUEUE, "machine-1")
    await until(lambda: not moves.movers and not moves.moved, "the move")


async def test_a_queue_that_has_moved_takes_what_its_absent_consumers_select(tmp_path: Path) -> None:
    async with MachineBrokers(tmp_path, AWARE) as machine:
        client = await consumer(machine[2], QUEUE, "odd = 'yes'", client_id=client_at(2))
        known = [(QUEUE, client_at(2), ["odd = 'yes'"])]
        assert await selectors(machine, 2) == known
        await client.vanish()
        await publish(machine[2], TOPIC, b"before", odd="yes")

        await move_to_first(machine)

        assert await selectors(machine, 2) == []
        assert await selectors(machine, 1) == known
        for number in (1, 2):
            await publish(machine[number], TOPIC, b"even", odd="no")
            await publish(machine[number], TOPIC, b"odd", odd="yes")
        view = await shows(machine[1], lambda view: view.ready_count >= 3, QUEUE)
        assert view.ready_count == 3
        await machine[1].stop()
        await machine.start(machine[1])
        assert await selectors(machine, 1) == known
