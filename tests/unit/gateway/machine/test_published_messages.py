"""Which broker of a machine publishes what an operator publishes."""

import asyncio
from typing import Any

import pytest

from sluicegate.gateway.machine.channel import Unanswered
from sluicegate.gateway.machine.operations.clients import ClientOperations
from sluicegate.gateway.views.clients.messaging import PublishedView, message_from_dict
from sluicegate.gateway.views.errors import QueueNotFound
from support.operations.scripted_machine import ScriptedBroker, ScriptedMachine


class Broker(ScriptedBroker):
    """One that publishes, and that has one queue, or hangs when it is asked for one."""

    def __init__(self, name: str, queue: str | None) -> None:
        super().__init__(name)
        self._queue = queue
        self.published_count = 0

    async def ask(self, verb: str, *arguments: Any) -> Any:
        (call,) = arguments
        if call.name == "publish_message":
            self.published_count += 1
            return PublishedView(published_count=1, unmatched_count=0, refused_count=0, refusal="")
        assert call.name == "show_queue_here"
        if self._queue is None:
            raise Unanswered
        if call.arguments != (self._queue,):
            raise QueueNotFound(call.arguments[0])
        return None


@pytest.mark.parametrize(
    ("asked", "queues", "counts"),
    [
        ({"queue": "orders"}, ("orders", "bills"), [1, 0]),
        ({"queue": "bills"}, ("orders", "bills"), [0, 1]),
        ({"queue": "bills"}, (None, "bills"), [0, 1]),
        ({"queue": "of-another-machine"}, ("orders", "bills"), [1, 0]),
        ({"queue": "bills"}, ("orders", None), [1, 0]),
        ({"topic": "bills"}, ("orders", "bills"), [1, 0]),
    ],
)
def test_the_broker_that_has_the_queue_publishes_else_the_first(
    asked: dict[str, Any], queues: tuple[str | None, ...], counts: list[int]
) -> None:
    """The others hear of a new queue a moment later, and would refuse what is published to it before."""
    brokers = [Broker(f"broker-{at}", queue) for at, queue in enumerate(queues, 1)]
    operations = ClientOperations(ScriptedMachine(brokers), "default")
    published = asyncio.run(operations.publish_message(message_from_dict(asked)))
    assert published.published_count == 1
    assert [each.published_count for each in brokers] == counts
