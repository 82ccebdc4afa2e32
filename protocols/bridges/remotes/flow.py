"""Another Sluicegate, or another message VPN of the same one, over the flow protocol by its client library.

The library connects again by itself, and keeps publishers and consumers over connections; so this remote keeps the
library's loop, which stands still while the bridge waits to connect again. Messages of a rule with QoS 2 go out by a
named publisher, which the other broker recognises: exactly once, also when the other broker crashes. After a crash of
ours the messages that were under way may come a second time, under the name of another publisher.
"""

import asyncio
import secrets
from collections import deque
from contextlib import suppress
from typing import Final, final

from sluicegate.messaging.message.headers import Headers, UserPropertyValue
from sluicegate.messaging.message.keys import key_hash
from sluicegate.messaging.message.outcomes import ACCEPTED, FAILED, REJECTED, RELEASED
from sluicegate.messaging.topics.syntax import TopicError, TopicFilter, matches, parse_filter, syntax_of
from sluicegate.protocols.bridges.path import PATH
from sluicegate.protocols.bridges.remote import Arrival, Line, Opened, Outgoing, RemoteBroker, RemoteFailed, Settlement
from sluicegate.protocols.bridges.remotes.mqtt_messages import wall_ms
from sluicegate.protocols.bridges.settings import CONNECT_S_MAX, BridgeSettings
from sluicegate.protocols.flow.client.aio.client import Client
from sluicegate.protocols.flow.client.aio.consumer import Consumer
from sluicegate.protocols.flow.client.aio.publisher import Publisher
from sluicegate.protocols.flow.client.aio.subscriber import Subscriber
from sluicegate.protocols.flow.client.errors import FlowClientError, MessageTooLarge, PublishRefused
from sluicegate.protocols.flow.client.events import ClientEvent, Connected, Disconnected
from sluicegate.protocols.flow.client.messages import Delivery, Message, Received
from sluicegate.protocols.flow.client.options import ClientOptions
from sluicegate.protocols.flow.codec.codes import MESSAGE_TOO_LARGE, NOBODY_SUBSCRIBES, TOPIC_INVALID

_TICK_S: Final = 1.0
_NEVER_TAKEN: Final = (MESSAGE_TOO_LARGE, NOBODY_SUBSCRIBES, TOPIC_INVALID)
_TAKEN_AT_ONCE_MAX: Final = 256  # deliveries that are reported together


@final
class FlowRemote(RemoteBroker):
    """Another Sluicegate."""

    keeps_unconfirmed = True

    def __init__(self, settings: BridgeSettings, line: Line) -> None:
        super().__init__(settings, line)
        self._filters = _filters_of(settings)
        self._loop: asyncio.AbstractEventLoop | None = None  # with what is on it, over connections
        self._client: Client | None = None
        self._plain: Publisher | None = None  # of QoS 1
        self._named: Publisher | None = None  # of QoS 2
        self._tasks: list[asyncio.Task[None]] = []  # that take what arrives
        self._publishing: dict[int, asyncio.Task[None]] = {}  # by number
        self._queue: deque[Outgoing] = deque()
        self._deliveries: dict[int, Delivery] = {}
        self._last_arrival = 0
        self._woken = asyncio.Event()
        self._reason = ""  # why there is no connection
        self._failure = ""  # why the client is of no use any more

    def forget(self) -> None:
        """Forget messages without an outcome."""
        self._queue.clear()
        self._end()

    def run(self) -> None:
        """Connect and serve."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._woken = asyncio.Event()  # of that loop
        is_over = True
        try:
            self._loop.run_until_complete(self._run(self._loop))
        except RemoteFailed:
            is_over = self._client is None or self._client.error is not None or bool(self._failure)
            raise
        except FlowClientError as error:
            raise RemoteFailed(str(error)) from None
        finally:
            self.line.wake_with(None)
            if is_over:
                self._end()

    def _end(self) -> None:
        """Close client and loop. What has no outcome was not sent, as far as anybody knows."""
        loop, self._loop = self._loop, None
        if loop is None:
            return
        for task in (*self._tasks, *self._publishing.values()):
            task.cancel()
        for number in self._publishing:
            self.line.refused(number, RELEASED, "the connection was lost")
        if self._client is not None:
            with suppress(FlowClientError, OSError, TimeoutError):
                loop.run_until_complete(self._client.close())
        loop.run_until_complete(_ended([*self._tasks, *self._publishing.values()]))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
        self._client = self._plain = self._named = None
        self._tasks.clear()
        self._publishing.clear()
        self._deliveries.clear()

    async def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        self._reason = self._failure = ""
        self.line.wake_with(lambda: _wake(loop, self._woken))
        if self._client is None:
            await self._begin()
        elif not self._client.is_connected:
            await self._connected(self._client)
        client = self._client
        assert client is not None, "it has begun"
        self.line.opened(Opened())
        await self._serve(client)

    # --- connecting ---

    async def _begin(self) -> None:
        remote = self.settings.remote
        options = ClientOptions(
            client_name=remote.client_id,
            vpn=remote.message_vpn,
            username=remote.username,
            password=remote.password,
            connect_timeout_s=CONNECT_S_MAX,
            close_timeout_s=_TICK_S,
            keep_alive_s=remote.keep_alive_s,
        )
        host = f"[{remote.host}]" if ":" in remote.host else remote.host
        url = f"flow{'' if remote.tls is None else 's'}://{host}:{remote.port}"
        tls = None if remote.tls is None else remote.tls.context()
        client = Client(url, options, tls=tls, on_event=self._on_event)
        await client.__aenter__()
        self._client = client
        window, size = self.settings.window_messages, self.settings.window_bytes
        qualities = {rule.qos for rule in self.settings.outgoing}
        if 1 in qualities:
            self._plain = await client.publisher(window=window, window_bytes=size).__aenter__()
        if 2 in qualities:
            name = f"bridge {remote.client_id} {secrets.token_hex(8)}"
            self._named = await client.publisher(name, window=window, window_bytes=size).__aenter__()
        await self._subscribe(client)

    async def _subscribe(self, client: Client) -> None:
        loop = asyncio.get_running_loop()
        subscriber: Subscriber | None = None
        for index, rule in enumerate(self.settings.incoming):
            if rule.is_queue:
                consumer = client.consumer(rule.source, window=self.settings.window_messages)
                await consumer.__aenter__()
                self._tasks.append(loop.create_task(self._consume(index, consumer)))
                continue
            if subscriber is None:
                made = client.subscriber(waiting_bytes_max=self.settings.window_bytes)
                subscriber = await made.__aenter__()
            await subscriber.subscribe(rule.source)
        if subscriber is not None:
            self._tasks.append(loop.create_task(self._take_direct(subscriber)))

    async def _connected(self, client: Client) -> None:
        """Wait until the client has connected again."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CONNECT_S_MAX):
                while not client.is_connected:
                    self._woken.clear()
                    await self._woken.wait()
                    self._check(client)
                return
        raise RemoteFailed(self._reason or f"no connection within {CONNECT_S_MAX} s")

    def _on_event(self, event: ClientEvent) -> None:
        if isinstance(event, Disconnected):
            self._reason = event.reason or "the connection was lost"
            self._woken.set()
        elif isinstance(event, Connected):
            self._reason = ""
            self._woken.set()

    def _check(self, client: Client) -> None:
        error = client.error
        if error is not None:
            raise RemoteFailed(str(error))
        if self._failure or self._reason:
            raise RemoteFailed(self._failure or self._reason)

    # --- serving ---

    async def _serve(self, client: Client) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_TICK_S):
                    await self._woken.wait()
            self._woken.clear()
            self._check(client)
            work = self.line.work()
            self._queue += work.messages
            for settlement in work.settlements:
                self._settle(settlement)
            self._publish(client)
            self.line.flush()
            if work.is_closed:
                await self._drained()
                return

    async def _drained(self) -> None:
        if self._publishing:
            await asyncio.wait(self._publishing.values(), timeout=_TICK_S)

    # --- messages for the other broker ---

    def _publish(self, client: Client) -> None:
        loop = asyncio.get_running_loop()
        while self._queue and len(self._publishing) < self.settings.window_messages:
            outgoing = self._queue.popleft()
            try:
                message = self._message(outgoing)
            except ValueError as error:
                self.line.refused(outgoing.number, REJECTED, str(error))
                continue
            publisher = {0: None, 1: self._plain, 2: self._named}[outgoing.qos]
            task = loop.create_task(self._publish_one(client, publisher, outgoing.number, message))
            self._publishing[outgoing.number] = task

    async def _publish_one(self, client: Client, publisher: Publisher | None, number: int, message: Message) -> None:
        try:
            if publisher is None:
                await client.publish_direct(message)
            else:
                await publisher.publish(message)
            self.line.confirmed(number)
        except PublishRefused as refusal:
            outcome = REJECTED if refusal.code in _NEVER_TAKEN else FAILED
            self.line.refused(number, outcome, str(refusal))
        except MessageTooLarge as error:
            self.line.refused(number, REJECTED, str(error))
        except FlowClientError as error:
            self._failure = self._failure or str(error)
            self.line.refused(number, RELEASED, str(error))
        self._publishing.pop(number, None)
        self._woken.set()

    def _message(self, outgoing: Outgoing) -> Message:
        """Return the library's form of a message. Raises ValueError for what it cannot carry."""
        is_queue = self.settings.outgoing[outgoing.rule].is_queue
        headers, now_ms = outgoing.headers or _NO_HEADERS, wall_ms()
        properties: list[tuple[str, UserPropertyValue]] = list(headers.user_properties or ())
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
                for delivery in await consumer.receive_many(_TAKEN_AT_ONCE_MAX):
                    self._deliveries[self._arrived(rule, delivery, self.settings.incoming[rule].qos)] = delivery
                self.line.flush()
        except FlowClientError as error:
            self._failure = self._failure or f"queue {consumer.queue!r}: {error}"
            self._woken.set()

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
            self._failure = self._failure or str(error)
            self._woken.set()

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


def _headers_of(message: Received) -> Headers:
    key = message.key
    return Headers(
        partition_key=key,
        key_hash=-1 if key is None else key_hash(key),
        expires_at_ms=message.expires_at_ms,
        priority=message.priority,
        payload_is_text=message.is_text,
        content_type=message.content_type,
        correlation=message.correlation,
        reply_to=message.reply_to,
        message_id=message.message_id,
        timestamp_ms=message.timestamp_ms,
        user_properties=message.properties or None,
    )


def _wake(loop: asyncio.AbstractEventLoop, woken: asyncio.Event) -> None:
    with suppress(RuntimeError):  # the loop is closed: nobody waits
        loop.call_soon_threadsafe(woken.set)


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
