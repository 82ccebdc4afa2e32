"""A REST delivery point: the messages of its queues go to any of its REST consumers that has a free connection.

2xx is *accepted*; a status that the consumer lists as not to be retried is *rejected*, and so is a message that makes
no valid request target; any other status, and no answer, has *failed*. While no consumer can be reached messages wait,
and that counts as no delivery attempt.
"""

import logging
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

import pykka

from sluicegate.actors.messages.directory import FindQueue, QueueHandle
from sluicegate.actors.messages.queues import BindFlow, BindRefused
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.runtime import ActorCell, Runtime
from sluicegate.actors.runtime.supervision import ONE_CONNECTION
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.outcomes import ACCEPTED, FAILED, REJECTED, RELEASED
from sluicegate.messaging.observability.events import VPN_QUEUE_BINDING_DOWN, VPN_QUEUE_BINDING_UP, as_word
from sluicegate.messaging.partitions.state.flows import UNBOUNDED
from sluicegate.messaging.queues.credit import CreditPool, CreditWindow
from sluicegate.protocols.connection.unwritable import report_unwritable
from sluicegate.protocols.http.consuming.delivery_forms import delivery_headers
from sluicegate.protocols.http.consuming.flow import FlowOptions, FlowReader, HttpFlow
from sluicegate.protocols.http.consuming.unsettled import UnsettledMessage
from sluicegate.protocols.rest.consumer import NoAnswer, RestConsumer, Unreachable
from sluicegate.protocols.rest.lanes import Lanes
from sluicegate.protocols.rest.settings import RETRY_DELAY_MS_MAX, BindingSettings, PointSettings
from sluicegate.protocols.rest.targets import TargetInvalid

# A queue binding of a REST delivery point: a flow on a queue, each of whose messages is pushed and then settled.
#
# Order is kept within a partition of a partitioned queue, and on any queue when there is one connection: one message of
# a lane is out at a time, and when it fails it comes again before those behind it. For that the binding takes nothing
# new, waits until nothing is on its way, and gives the failed message and all behind it back together.


PROTOCOL: Final = "rest"
REBIND_MS: Final = 3_000  # as other protocols do for their clients
WINDOW_PER_CONNECTION: Final = 4  # of a queue without partitions: the next is there when a connection is free
OF_PARTITION_MAX: Final = 2  # one that is pushed and the next; one whose messages fail leaves the others theirs


class QueueBinding(FlowReader):
    """One queue of a delivery point."""

    def __init__(self, point: "RestDeliveryPoint", settings: BindingSettings) -> None:
        self.settings = settings
        self.is_up = False
        self.reason = "not tried yet"  # why it is not up
        self.outcomes: dict[int, int] = {}  # messages settled, by outcome
        self._point = point
        self._runtime = point.runtime
        self._of_partition_max = 0  # what it takes of one partition
        self._flow: HttpFlow | None = None  # None: the queue would not bind it, or has ended it
        self._lanes = Lanes(keeps_order=True)
        self._out_count = 0  # messages that are being pushed
        self._closed_count = 0  # failures that are being given back: meanwhile nothing new is taken
        self._barriers: dict[int, LoopFuture[None]] = {}  # by the number of a drain
        self._timer: Any = None
        self._is_stopped = False

    def start(self) -> None:
        """Bind, now and whenever the queue lets us again."""
        self._timer = None
        self._runtime.keep(self._runtime.loop.create_task(self._bind()))

    def stop(self) -> None:
        """Let go of the queue. What is being pushed has failed, for it may be carried out; the rest was not tried."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        flow = self._flow
        if flow is not None:
            flow.unsettled.wait_again(0)
            flow.leave(self)  # with what no web server was sent
            flow.end("the delivery point stops")
            self.ended("the delivery point stops")
        self.is_up = False
        self.reason = "stopped"

    # --- the flow ---

    async def _bind(self) -> None:
        try:
            await self._bind_flow()
        except (BindRefused, pykka.ActorDeadError) as refusal:  # it would not, or was deleted meanwhile
            self._not_bound(str(refusal))
        except Exception:  # ours: it is tried again, as after a refusal
            log.exception("queue binding %s/%s failed to bind", self._point.name, self.settings.queue)
            self._not_bound("a fault of the gateway; its log says more")

    async def _bind_flow(self) -> None:
        services, name = self._point.services, self.settings.queue
        handle: QueueHandle | None = await services.queues.ask(FindQueue(name, anywhere=True))
        if self._is_stopped:
            return
        if handle is None:
            self._not_bound(f"there is no queue {name!r}")
            return
        window: CreditWindow[Address] = CreditWindow(0, services.credit)
        client = self._point.client
        is_partitioned = handle.definition.config.partitioned()
        options = FlowOptions(
            "", queue_name=name, user=client, host="", client=client, lock_ms=0, unsettled_max=UNBOUNDED
        )

        def make(cell: ActorCell) -> HttpFlow:
            return HttpFlow(cell, options=options, queue=handle.cell, window=window)

        cell = self._runtime.spawn(make, kind="flow", name=name, policy=ONE_CONNECTION, parent=self._point.cell)
        flow: HttpFlow = cell.behaviour
        self._lanes = Lanes(keeps_order=is_partitioned or self._point.connections_count == 1)
        window_of_all = WINDOW_PER_CONNECTION * self._point.connections_count
        self._of_partition_max = OF_PARTITION_MAX if is_partitioned else window_of_all
        self._flow = flow
        flow.read(self, after=None)
        request = BindFlow(
            flow.urn, client, client, cell.inbox, window, PROTOCOL, of_partition_max=self._of_partition_max
        )
        try:
            await handle.cell.ask(request)
        except Exception:
            self._flow = None
            flow.leave(self)
            flow.gone("it was never bound")
            raise
        if self._has_stopped():
            flow.end("the delivery point stops")
        elif self._flow is flow:
            self.is_up = True
            self.reason = ""
            self._tell(VPN_QUEUE_BINDING_UP, "is up")

    def _has_stopped(self) -> bool:
        return self._is_stopped  # asked by a call: mypy would go by an older value

    def _not_bound(self, reason: str) -> None:
        if self._is_stopped:
            return
        if self.is_up or self.reason != reason:
            self._tell(VPN_QUEUE_BINDING_DOWN, f"is down: {reason}")
        self.is_up = False
        self.reason = reason
        self._timer = self._runtime.after(REBIND_MS, self.start)

    def _tell(self, kind: Any, what: str) -> None:
        name = as_word(f"{self._point.name}/{self.settings.queue}")
        self._point.services.events.emit(kind, f"queue binding {name} {what}")

    # --- what the flow says ---

    def limit(self, held_count: int, waiting_count: int) -> int:
        """Return room for some messages of each partition, and none while a failure is given back."""
        if self._closed_count or self._flow is None:
            return 0
        return self._of_partition_max * len(self._flow.partitions)

    def arrived(self) -> None:
        """Take what came, and push what may be pushed."""
        flow = self._flow
        if flow is not None:
            for message in flow.unsettled.take_waiting(flow.unsettled.waiting_count):
                self._lanes.add(message)
            self.pump()

    def drained(self, number: int) -> None:
        """Nothing is on its way that was sent before."""
        barrier = self._barriers.pop(number, None)
        if barrier is not None:
            barrier.set()

    def ended(self, reason: str) -> None:
        """Begin anew: unsettled messages have returned to the queue."""
        self._flow = None
        barriers, self._barriers = self._barriers, {}
        for barrier in barriers.values():
            barrier.set()
        self._not_bound(reason)

    # --- pushing ---

    def pump(self) -> None:
        """Push as many as there are connections; the rest waits in its lanes."""
        flow = self._flow
        while flow is not None and self._out_count < self._point.connections_count:
            message = self._lanes.next()
            if message is None:
                return
            if not flow.unsettled.contains(message):  # its partition has another consumer now
                self._lanes.done(message)
                continue
            self._out_count += 1
            self._runtime.keep(self._runtime.loop.create_task(self._push(flow, self._lanes, message)))

    async def _push(self, flow: HttpFlow, lanes: Lanes, message: UnsettledMessage) -> None:
        try:
            outcome = await self._point.push(self, flow, message)
        except Exception:  # ours, and it must cost this message a try and nothing else
            log.exception("queue binding %s/%s failed to push a message", self._point.name, self.settings.queue)
            outcome = FAILED
        self._out_count -= 1
        if flow is self._flow and outcome == FAILED:
            await self._wait(self._retry_delay_ms(message.delivery_count))
            await self._give_back(flow, lanes, message)
        else:  # of a flow that has ended it holds nothing any more
            self._settle(flow, message, outcome)
            flow.review()
        lanes.done(message)
        self.pump()

    def _settle(self, flow: HttpFlow, message: UnsettledMessage, outcome: int) -> None:
        if flow.unsettled.contains(message):
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
            flow.settle_at_once(message.number, outcome)

    async def _give_back(self, flow: HttpFlow, lanes: Lanes, message: UnsettledMessage) -> None:
        """Give back a message that failed and all that waits behind it, in one go, so that it comes first again."""
        self._closed_count += 1
        flow.review()
        await self._barrier(flow)  # now all that was delivered is in its lane
        rest = lanes.take_rest(message)
        self._settle(flow, message, FAILED)
        for behind in rest:
            flow.settle_at_once(behind.number, RELEASED)
        await self._barrier(flow)  # now the partition knows of all of them
        self._closed_count -= 1
        flow.review()

    async def _barrier(self, flow: HttpFlow) -> None:
        """Wait until everything that was on its way to or from the queue has arrived."""
        if flow is self._flow:
            barrier: LoopFuture[None] = LoopFuture()
            self._barriers[flow.drain()] = barrier
            await barrier

    def _retry_delay_ms(self, tries_count: int) -> int:
        first_ms = self._point.retry_delay_ms
        return max(first_ms, min(first_ms << min(tries_count - 1, 16), RETRY_DELAY_MS_MAX))

    async def _wait(self, delay_ms: int) -> None:
        over: LoopFuture[None] = LoopFuture()
        self._runtime.after(delay_ms, over.set)
        await over


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

    async def push(self, binding: QueueBinding, flow: HttpFlow, message: UnsettledMessage) -> int:
        """Push a message, unless it has left the flow when its turn comes; return its outcome."""
        try:
            path = binding.settings.post_request_target.path(message)
        except TargetInvalid as invalid:
            log.warning("queue binding %s/%s rejects a message: %s", self.name, binding.settings.queue, invalid)
            return REJECTED
        while not self._is_stopped and flow.unsettled.contains(message):
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
                report_unwritable(self.services.events, None, message.sequence, error, client=self.client)
                self._changed()
                return REJECTED
            message.was_delivered = True
            try:
                status = await consumer.push(
                    path,
                    [*headers, *binding.settings.request_headers],
                    message.payload(),
                    is_wanted=lambda: flow.holds(message),
                )
            except Unreachable:
                message.was_delivered = False
                continue  # another one has it, or this one when it is up again
            except NoAnswer:
                return FAILED
            if 200 <= status < 300:
                return ACCEPTED
            return REJECTED if status in consumer.settings.rejected_status_codes else FAILED
        self._changed()  # it may have been woken for a connection that is for another one now
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
