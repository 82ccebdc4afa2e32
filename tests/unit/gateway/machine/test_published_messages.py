"""Which broker of a machine publishes what an operator publishes."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from sluicegate.gateway.machine.channel import Unanswered
from sluicegate.gateway.machine.operations.clients import ClientOperations
from sluicegate.gateway.observability.metrics.metric import Sample
from sluicegate.gateway.views.clients.messaging import PublishedView, message_from_dict
from sluicegate.gateway.views.errors import QueueNotFound
from sluicegate.gateway.views.node.runtime import ReloadView


class Broker:
    """One that publishes, and that has one queue, or hangs when it is asked for one."""

    absence = ""
    is_retired = False
    left = None

    def __init__(self, name: str, queue: str | None) -> None:
        self.name = name
        self._queue = queue
        self.published_count = 0

    def doubt(self) -> None:
        raise AssertionError("nothing is changed")

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


class Machine:
    """The brokers, asked in this order."""

    def __init__(self, *queues: str | None) -> None:
        self.two = [Broker(f"broker-{at}", queue) for at, queue in enumerate(queues, 1)]
        self.brokers: Sequence[Broker] = self.two
        self.changing = asyncio.Lock()

    async def reload(self) -> list[ReloadView]:
        raise AssertionError("nothing is reloaded")

    def samples(self) -> list[Sample]:
        return []


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
    machine = Machine(*queues)
    published = asyncio.run(ClientOperations(machine, "default").publish_message(message_from_dict(asked)))
    assert published.published_count == 1
    assert [each.published_count for each in machine.two] == counts
