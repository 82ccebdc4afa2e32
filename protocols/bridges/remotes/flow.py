"""Another Sluicegate, or another message VPN of the same one, over the flow protocol by its client library.

Each connection is served by a client of its own, on a loop of its own. What outlives it is here: messages without an
outcome, and of those with QoS 2 the sequences that they were sent under. These go out by a publisher whose name stays
the same, so the other broker knows which of them it has: exactly once, however the connection ends, and also when the
other broker crashes. After a crash of ours the messages that were under way may come a second time, under the name of
another publisher.
"""

import asyncio
import secrets
from collections import deque
from contextlib import suppress
from typing import Final, final

from sluicegate.messaging.message.headers import Headers, UserPropertyValue
from sluicegate.messaging.message.keys import key_hash
from sluicegate.messaging.message.outcomes import ACCEPTED, FAILED, REJECTED
from sluicegate.messaging.topics.syntax import TopicError, TopicFilter, matches, parse_filter, syntax_of
from sluicegate.protocols.bridges.path import PATH
from sluicegate.protocols.bridges.remote import Arrival, Line, Opened, Outgoing, RemoteBroker, RemoteFailed, Settlement
from sluicegate.protocols.bridges.remotes.mqtt.messages import wall_ms
from sluicegate.protocols.bridges.remotes.sockets import ResolvingLoop
from sluicegate.protocols.bridges.settings import CONNECT_S_MAX, BridgeSettings
from sluicegate.protocols.flow.client.aio.client import Client
from sluicegate.protocols.flow.client.aio.consumer import Consumer
from sluicegate.protocols.flow.client.aio.publisher import Publisher
from sluicegate.protocols.flow.client.aio.subscriber import Subscriber
from sluicegate.protocols.flow.client.errors import (
    FlowClientError,
    IncarnationChanged,
    MessageTooLarge,
    PublisherForgotten,
    PublishRefused,
)
from sluicegate.protocols.flow.client.events import ClientEvent, Disconnected
from sluicegate.protocols.flow.client.messages import Delivery, Message, Received
from sluicegate.protocols.flow.client.options import ClientOptions
from sluicegate.protocols.flow.codec.codes import MESSAGE_TOO_LARGE, NOBODY_SUBSCRIBES, TOPIC_INVALID

_TICK_S: Final = 1.0
_NEVER_TAKEN: Final = (MESSAGE_TOO_LARGE, NOBODY_SUBSCRIBES, TOPIC_INVALID)
_TAKEN_AT_ONCE_MAX: Final = 256  # deliveries that are reported together


@final
class FlowRemote(RemoteBroker):
    """Another Sluicegate.

    Invariants: a message without an outcome is in `_queue`, or in `_under_way` while a client has it; sequences of
    those with QoS 2 ascend in that order, and `_last_sequence` is the highest.
    """

    keeps_unconfirmed = True

    def __init__(self, settings: BridgeSettings, line: Line) -> None:
        super().__init__(settings, line)
        self._filters = _filters_of(settings)
        self._queue: deque[Outgoing] = deque()
        self._under_way: dict[int, Outgoing] = {}  # by number, in order
        self._sequences: dict[int, int] = {}  # of messages with QoS 2, by number
        self._last_arrival = 0
        self._begin_anew()
        self._forget_connection()

    def _begin_anew(self) -> None:
        """Take a name that the other broker does not know. What it has of the earlier one is not asked about again."""
        self._name = f"bridge {self.settings.remote.client_id} {secrets.token_hex(8)}"
        self._sequences.clear()
        self._last_sequence = 0
        self._stored_highest = 0  # of these sequences, confirmed
        self._incarnation = 0  # of the other broker's spool; 0: not known yet

    def _forget_connection(self) -> None:
        self._client: Client | None = None
        self._plain: Publisher | None = None  # of QoS 1
        self._named: Publisher | None = None  # of QoS 2
        self._consuming: list[asyncio.Task[None]] = []
        self._publishing: set[asyncio.Task[None]] = set()
        self._deliveries: dict[int, Delivery] = {}
        self._woken = asyncio.Event()
        self._has_room = asyncio.Event()  # in the window: some message may have been settled
        self._step = "connection"  # what is yet to be opened
        self._reason = ""  # why there is no connection any more

    def forget(self) -> None:
        """Forget messages without an outcome."""
        self._queue.clear()
        self._under_way.clear()
        if self._sequences:
            self._begin_anew()

    def run(self) -> None:
        """Connect and serve."""
        loop = ResolvingLoop()
        try:
            loop.run_until_complete(self._run(loop))
        except FlowClientError as error:
            raise RemoteFailed(str(error)) from None
        finally:
            self.line.wake_with(None)
            loop.run_until_complete(self._end())
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
            self._forget_connection()

    async def _end(self) -> None:
        """Close the client. What has no outcome goes first on the next connection."""
        await asyncio.sleep(0)  # publishes that were answered end, and report it
        tasks = [*self._consuming, *self._publishing]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._client is not None:
            with suppress(FlowClientError, OSError, TimeoutError):
                await self._client.close()
        self._queue.extendleft(reversed(self._under_way.values()))
        self._under_way.clear()

    async def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        self.line.wake_with(lambda: _wake(loop, self._woken))
        begin = loop.create_task(self._begin())
        begin.add_done_callback(lambda _: self._woken.set())
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                while not begin.done():
                    await self._woken.wait()
                    self._woken.clear()
                    if not begin.done():  # else it knows better why it has failed
                        self._check()
                    if self._take_work():
                        return
        except TimeoutError:
            raise RemoteFailed(f"no {self._step} within {CONNECT_S_MAX} s") from None
        finally:
            begin.cancel()
            await asyncio.wait({begin})
        await begin
        self._check()
        self.line.opened(Opened())
        await self._serve()

    # --- connecting ---

    async def _begin(self) -> None:
        remote = self.settings.remote
        try:
            tls = None if remote.tls is None else remote.tls.context()
            password = remote.current_password()
        except (OSError, ValueError) as error:  # a file that is being replaced
            raise RemoteFailed(str(error)) from None
        options = ClientOptions(
            client_name=remote.client_id,
            vpn=remote.message_vpn,
            username=remote.username,
            password=password,
            connect_timeout_s=CONNECT_S_MAX,
            close_timeout_s=_TICK_S,
            keep_alive_s=remote.keep_alive_s,
        )
        host = f"[{remote.host}]" if ":" in remote.host else remote.host
        url = f"flow{'' if remote.tls is None else 's'}://{host}:{remote.port}"
        client = self._client = Client(url, options, tls=tls, on_event=self._on_event)
        await client.__aenter__()
        window, size = self.settings.window_messages, self.settings.window_bytes
        qualities = {rule.qos for rule in self.settings.outgoing}
        self._step = "publisher"
        if 1 in qualities:
            self._plain = await client.publisher(window=window, window_bytes=size).__aenter__()
        if 2 in qualities:
            self._named = await self._named_publisher(client)
        await self._subscribe(client)

    async def _named_publisher(self, client: Client) -> Publisher:
        """Open the publisher of our name; with another one, if the other broker has lost what it knew of that."""
        while True:
            window, size = self.settings.window_messages, self.settings.window_bytes
            publisher = await client.publisher(self._name, window=window, window_bytes=size).__aenter__()
            is_known = self._incarnation in (0, publisher.incarnation)
            if is_known and publisher.stored_highest >= self._stored_highest:
                self._incarnation = publisher.incarnation
                return publisher
            await publisher.close()
            self._begin_anew()

    async def _subscribe(self, client: Client) -> None:
        loop = asyncio.get_running_loop()
        subscriber: Subscriber | None = None
        share = max(1, sum(rule.is_queue for rule in self.settings.incoming))
        window = max(1, self.settings.window_messages // share)
        for index, rule in enumerate(self.settings.incoming):
            if rule.is_queue:
                self._step = f"consumer of the queue {rule.source!r}"
                consumer = client.consumer(
                    rule.source,
                    window=window,
                    window_bytes=max(1, self.settings.window_bytes // share),
                    unsettled_max=window,
                )
                await consumer.__aenter__()
                self._consuming.append(loop.create_task(self._consume(index, consumer)))
                continue
            if subscriber is None:
                made = client.subscriber(waiting_bytes_max=self.settings.window_bytes)
                subscriber = await made.__aenter__()
            self._step = f"subscription to {rule.source!r}"
            await subscriber.subscribe(rule.source)
        if subscriber is not None:
            self._consuming.append(loop.create_task(self._take_direct(subscriber)))

    def _on_event(self, event: ClientEvent) -> None:
        if isinstance(event, Disconnected):
            self._failed(event.reason or "the connection was lost")

    def _failed(self, reason: str) -> None:
        """The connection is of no use any more. The first reason counts."""
        self._reason = self._reason or reason
        self._woken.set()

    def _check(self) -> None:
        if self._reason:
            raise RemoteFailed(self._reason)

    # --- serving ---

    async def _serve(self) -> None:
        client = self._client
        assert client is not None, "it has begun"
        while True:
            self._publish(client)
            self.line.flush()
            with suppress(TimeoutError):
                async with asyncio.timeout(_TICK_S):
                    await self._woken.wait()
            self._woken.clear()
            self._check()
            if self._take_work():
                self._publish(client)
                await self._drained()
                return

    def _take_work(self) -> bool:
        """Take what the bridge wants done; return whether the connection is to be closed."""
        work = self.line.work()
        self._queue += work.messages
        for settlement in work.settlements:
            self._settle(settlement)
        if work.settlements:
            self._has_room.set()
        return work.is_closed

    async def _drained(self) -> None:
        if self._publishing:
            await asyncio.wait(self._publishing, timeout=_TICK_S)

    # --- messages for the other broker ---

    def _publish(self, client: Client) -> None:
        loop = asyncio.get_running_loop()
        while self._queue and len(self._under_way) < self.settings.window_messages:
            outgoing = self._queue.popleft()
            number = outgoing.number
            publisher = {0: None, 1: self._plain, 2: self._named}[outgoing.qos]
            try:
                message = self._message(outgoing)
                if publisher is not None:
                    publisher.check(message)
            except (ValueError, MessageTooLarge) as error:
                self._sequences.pop(number, None)
                self.line.refused(number, REJECTED, str(error))
                continue
            sequence = 0
            if outgoing.qos == 2:
                assert publisher is not None, "a rule has this QoS"
                sequence = self._sequences.get(number, 0)
                if 0 < sequence <= publisher.stored_through:  # before the connection was lost
                    self._confirmed(number)
                    continue
                if not sequence:
                    sequence = self._last_sequence = self._last_sequence + 1
                    self._sequences[number] = sequence
            self._under_way[number] = outgoing
            task = loop.create_task(self._publish_one(client, publisher, number, message, sequence))
            self._publishing.add(task)
            task.add_done_callback(self._publishing.discard)

    async def _publish_one(
        self, client: Client, publisher: Publisher | None, number: int, message: Message, sequence: int
    ) -> None:
        try:
            if publisher is None:
                await client.publish_direct(message)
            else:
                await publisher.publish(message, sequence=sequence)
            self._confirmed(number)
        except PublishRefused as refusal:
            outcome = REJECTED if refusal.code in _NEVER_TAKEN else FAILED
            self._refused(number, outcome, str(refusal))
        except MessageTooLarge as error:
            self._refused(number, REJECTED, str(error))
        except FlowClientError as error:  # it stays under way, and goes by the next connection
            if isinstance(error, IncarnationChanged | PublisherForgotten) and sequence:
                self._begin_anew()
            self._failed(str(error))
        self._woken.set()

    def _confirmed(self, number: int) -> None:
        self._under_way.pop(number, None)
        self._stored_highest = max(self._stored_highest, self._sequences.pop(number, 0))
        self.line.confirmed(number)

    def _refused(self, number: int, outcome: int, reason: str) -> None:
        del self._under_way[number]
        self._sequences.pop(number, None)
        self.line.refused(number, outcome, reason)

    def _message(self, outgoing: Outgoing) -> Message:
        """Return the library's form of a message. Raises ValueError for what it cannot carry."""
        is_queue = self.settings.outgoing[outgoing.rule].is_queue
        headers, now_ms = outgoing.headers or _NO_HEADERS, wall_ms()
        properties: list[tuple[str, UserPropertyValue]] = list(headers.user_properties or ())
        if headers.dead is not None:
            properties += headers.dead.properties()
        if outgoing.path:
            properties.append((PATH, outgoing.path))
        return Message(
            outgoing.payload,
            topic="" if is_queue else outgoing.topic,
            queue=outgoing.topic if is_queue else "",
            key=headers.partition_key,
            priority=headers.priority,
            ttl_ms=max(headers.expires_at_ms - now_ms, 1) if headers.expires_at_ms else 0,
            delay_ms=max(headers.not_before_ms - now_ms, 0) if headers.not_before_ms else 0,
            message_id=headers.message_id,
            correlation=headers.correlation,
            reply_to=headers.reply_to,
            content_type=headers.content_type,
            timestamp_ms=headers.timestamp_ms,
            is_text=headers.payload_is_text,
            dmq_eligible=headers.dmq_eligible,
            deliver_to_one=headers.deliver_to_one,
            eliding_eligible=headers.eliding_eligible,
            properties=properties,
        )

    # --- messages of the other broker ---

    async def _consume(self, rule: int, consumer: Consumer) -> None:
        try:
            while True:
                while not self.line.has_room():  # what comes stays in the client, which takes back its credit
                    self._has_room.clear()
                    await self._has_room.wait()
                for delivery in await consumer.receive_many(_TAKEN_AT_ONCE_MAX):
                    self._deliveries[self._arrived(rule, delivery, self.settings.incoming[rule].qos)] = delivery
                self.line.flush()
        except FlowClientError as error:
            self._failed(f"queue {consumer.queue!r}: {error}")

    async def _take_direct(self, subscriber: Subscriber) -> None:
        try:
            while True:
                for message in await subscriber.receive_many(_TAKEN_AT_ONCE_MAX):
                    for rule, topic_filter in self._filters.items():
                        if matches(topic_filter, message.topic):
                            if self.line.has_room():
                                self._arrived(rule, message, 0)
                            else:
                                self.line.dropped(rule)
                            break
                self.line.flush()
        except FlowClientError as error:
            self._failed(str(error))

    def _arrived(self, rule: int, message: Received, qos: int) -> int:
        self._last_arrival += 1
        self.line.arrived(
            Arrival(
                number=self._last_arrival,
                rule=rule,
                topic=message.topic,
                payload=message.payload,
                headers=_headers_of(message),
                qos=qos,
            )
        )
        return self._last_arrival

    def _settle(self, settlement: Settlement) -> None:
        delivery = self._deliveries.pop(settlement.number, None)
        if delivery is not None:  # else it was direct, or of a client that is gone
            if settlement.outcome == ACCEPTED:
                delivery.accept()
            elif settlement.outcome == REJECTED:
                delivery.reject()
            else:
                delivery.release()


_NO_HEADERS: Final = Headers()


def _filters_of(settings: BridgeSettings) -> dict[int, TopicFilter]:
    """Return the filters of the rules with topics, by index. Raises ValueError for what the protocol has no use for."""
    filters: dict[int, TopicFilter] = {}
    for index, rule in enumerate(settings.incoming):
        if rule.is_queue:
            if rule.qos != 1:
                raise ValueError(
                    f"incoming rule {rule.name!r}: a queue is consumed at least once; allowed: qos 1. For exactly once "
                    "give the other broker an outgoing rule with qos 2"
                )
            continue
        if rule.qos != 0:
            raise ValueError(
                f"incoming rule {rule.name!r}: topics bring direct messages in the flow protocol; allowed: qos 0, or a "
                "queue of the other broker that subscribes to the topics, as remote_queue"
            )
        try:
            filters[index] = parse_filter(rule.source, syntax_of(rule.source))
        except TopicError as error:
            raise ValueError(f"incoming rule {rule.name!r}: {error}") from None
    return filters


def _headers_of(message: Received) -> Headers | None:
    headers = message.headers
    if headers is None or headers.partition_key is None:
        return headers
    keyed = headers.copy()
    keyed.key_hash = key_hash(headers.partition_key)
    return keyed


def _wake(loop: asyncio.AbstractEventLoop, woken: asyncio.Event) -> None:
    with suppress(RuntimeError):  # the loop is closed: nobody waits
        loop.call_soon_threadsafe(woken.set)
