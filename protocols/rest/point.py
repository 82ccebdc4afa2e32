"""A REST delivery point: the messages of its queues go to whichever of its REST consumers has a connection free.

2xx is *accepted*; a status that the consumer says not to retry is *rejected*, and so is a message that makes no request
target; anything else, and no answer, has *failed*. While no consumer can be reached messages wait, and it counts as no
try.
"""

import logging
from collections import deque
from dataclasses import dataclass
from typing import Final

from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.cell import ActorCell
from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.outcomes import ACCEPTED, FAILED, REJECTED, RELEASED
from sluicegate.messaging.queues.credit import CreditPool
from sluicegate.protocols.connection.unwritable import tell_unwritable
from sluicegate.protocols.http.consuming.delivery_forms import delivery_headers
from sluicegate.protocols.http.consuming.held import Held, HeldMessage
from sluicegate.protocols.rest.binding import QueueBinding
from sluicegate.protocols.rest.consumer import NoAnswer, RestConsumer, Unreachable
from sluicegate.protocols.rest.settings import PointSettings
from sluicegate.protocols.rest.targets import TargetInvalid

log = logging.getLogger("sluicegate.rest")

CLIENT_PREFIX: Final = "#rdp/"


@dataclass(frozen=True, slots=True)
class RestServices:
    """What every delivery point of a message VPN uses."""

    runtime: Runtime
    events: Events
    queues: ActorCell
    credit: CreditPool[Address]  # what all consumers of the node may hold together


class RestDeliveryPoint:
    """One delivery point, between `start` and `stop`."""

    def __init__(self, cell: ActorCell, settings: PointSettings, services: RestServices) -> None:
        self.cell = cell  # parent of its flows
        self.settings = settings
        self.services = services
        self.runtime = services.runtime
        self.name = settings.name
        self.client = CLIENT_PREFIX + settings.name
        self.consumers = [
            RestConsumer(services.runtime, services.events, each, point_name=settings.name, changed=self._changed)
            for each in settings.rest_consumers
            if each.enabled
        ]
        self.connections_count = sum(each.settings.outgoing_connection_count for each in self.consumers)
        self.retry_delay_ms = min([each.settings.retry_delay_ms for each in self.consumers], default=0)
        self.bindings = [QueueBinding(self, each) for each in settings.queue_bindings]
        self._line: deque[LoopFuture[None]] = deque()  # who waits for a connection
        self._is_stopped = False

    @property
    def is_up(self) -> bool:
        """Whether it pushes messages: a queue is bound, and a consumer can be reached."""
        return any(each.is_up for each in self.consumers) and any(each.is_up for each in self.bindings)

    def start(self) -> None:
        """Look for the consumers, and bind the queues."""
        for consumer in self.consumers:
            consumer.start()
        if self.consumers:
            for binding in self.bindings:
                binding.start()

    async def stop(self) -> None:
        """Let go of the queues and close the connections."""
        self._is_stopped = True
        for binding in self.bindings:
            binding.stop()
        line, self._line = self._line, deque()
        for waiting in line:
            waiting.set()
        for consumer in self.consumers:
            await consumer.stop()
        self.bindings.clear()  # they know the point
        self.consumers.clear()

    async def push(self, binding: QueueBinding, held: Held, message: HeldMessage) -> int:
        """Push a message, unless it is held no more when its turn comes; return its outcome."""
        try:
            path = binding.settings.post_request_target.path(message)
        except TargetInvalid as invalid:
            log.warning("queue binding %s/%s rejects a message: %s", self.name, binding.settings.queue, invalid)
            return REJECTED
        while not self._is_stopped and held.holds(message):
            consumer = self._free()
            if consumer is None:
                waiting: LoopFuture[None] = LoopFuture()
                self._line.append(waiting)
                await waiting
                continue
            try:
                pairs = delivery_headers(message, self.runtime.clock.wall_ms())
                headers = [(name.decode("ascii"), value.decode("utf-8")) for name, value in pairs]
            except Exception as error:
                tell_unwritable(self.services.events, None, message.sequence, error, client=self.client)
                return REJECTED
            message.was_shown = True
            try:
                status = await consumer.push(path, [*headers, *binding.settings.request_headers], message.payload())
            except Unreachable:
                message.was_shown = False
                continue  # another one has it, or this one when it is up again
            except NoAnswer:
                return FAILED
            if 200 <= status < 300:
                return ACCEPTED
            return REJECTED if status in consumer.settings.rejected_status_codes else FAILED
        return RELEASED

    def _free(self) -> RestConsumer | None:
        """Return the consumer with the most room."""
        free = [each for each in self.consumers if each.has_room()]
        return max(free, key=_room) if free else None

    def _changed(self) -> None:
        """Let as many go on as there are connections free; who finds none after all stands in line again."""
        room = sum([_room(each) for each in self.consumers if each.has_room()])
        for _ in range(min(room, len(self._line))):
            self._line.popleft().set()


def _room(consumer: RestConsumer) -> int:
    return consumer.settings.outgoing_connection_count - consumer.in_use_count
