"""A foreign broker that speaks MQTT 3.1.1, by amqtt's client, whose asyncio loop runs in the bridge's thread.

QoS 1 goes over at least once. QoS 2 is refused: amqtt forgets the state of outgoing messages with their connection, and
confirms incoming ones before they are stored.

MQTT 3.1.1 has no properties: of a message, topic, payload and RETAIN travel.
"""

import asyncio
import logging
import ssl
import time
from collections import OrderedDict, deque
from contextlib import suppress
from typing import Any, Final, final
from urllib.parse import quote

from amqtt.client import MQTTClient
from amqtt.errors import AMQTTError, ConnectError
from amqtt.session import ApplicationMessage

from sluicegate.messaging.message.outcomes import REJECTED, RELEASED
from sluicegate.messaging.topics.syntax import TopicError
from sluicegate.protocols.bridges.remote import Arrival, Line, Opened, Outgoing, RemoteBroker, RemoteFailed
from sluicegate.protocols.bridges.remotes.mqtt_messages import RuleFinder, check_outgoing, filter_of
from sluicegate.protocols.bridges.settings import CONNECT_S_MAX, BridgeSettings, TlsFiles

for _name in ("amqtt", "transitions"):
    logging.getLogger(_name).setLevel(logging.ERROR)  # what they warn of is the reason that we report

QOS_MAX: Final = 1
_TICK_S: Final = 1.0
_PING_BEFORE_S: Final = 1  # amqtt announces a keep-alive that is shorter by this
_REFUSALS: Final = {
    1: "Unacceptable protocol version",
    2: "Identifier rejected",
    3: "Server unavailable",
    4: "Bad user name or password",
    5: "Not authorized",
}
_SUBSCRIPTION_REFUSED: Final = 0x80


class _StoredFirst:
    """What amqtt puts arrivals into, in place of its queue. It sends PUBACK when `put` returns: when one is stored."""

    def __init__(self, remote: "Mqtt3Remote") -> None:
        self._remote = remote

    async def put(self, message: ApplicationMessage) -> None:
        """Take a message of QoS 1, and wait until it is stored."""
        await self._remote.received(message)

    def put_nowait(self, message: ApplicationMessage) -> None:
        """Take a message of QoS 0."""
        self._remote.received_direct(message)

    def qsize(self) -> int:
        """Return the number of messages in it; amqtt logs that."""
        return 0


class _Client(MQTTClient):  # type: ignore[misc]  # amqtt ships no types
    """amqtt's client with the queue above."""

    def __init__(self, remote: "Mqtt3Remote", config: dict[str, Any]) -> None:
        super().__init__(remote.settings.remote.client_id, config)
        self._remote = remote
        self._heard_s = 0.0  # when something came last
        self._looked_s = 0.0  # when that was looked at

    def _init_session(self, *arguments: Any, **options: Any) -> Any:
        session = super()._init_session(*arguments, **options)
        settings = self._remote.settings.remote
        if settings.username:
            session.username, session.password = settings.username, settings.password
        session.delivered_message_queue = _StoredFirst(self._remote)
        return session

    async def hang_up(self) -> None:
        """Close the socket, which amqtt leaves open after a refusal."""
        writer = None if self._handler is None else self._handler.writer
        if writer is not None:
            with suppress(OSError, TimeoutError):
                await writer.close()
            writer._writer.transport.abort()
            await asyncio.sleep(0)  # it closes in the loop's next turn

    async def is_over(self) -> None:
        """Wait for the end of the connection."""
        await self._no_more_connections.wait()

    def listen(self) -> None:
        """Note from now on when something comes."""
        assert self._handler is not None, "it is connected"
        reader = self._handler.reader
        read = reader.read

        async def noted(count: int = -1) -> bytes:
            data: bytes = await read(count)
            self._heard_s = time.monotonic()
            return data

        reader.read = noted
        self._heard_s = self._looked_s = time.monotonic()

    def see_that_it_lives(self, keep_alive_s: int) -> None:
        """Ping a broker that has been silent for so long; raise RemoteFailed for twice that.

        amqtt pings when this side is silent, and waits for the answer for ever. A time in which this was not called, as
        the process stood still, does not count.
        """
        now_s = time.monotonic()
        if now_s - self._looked_s > 3 * _TICK_S:
            self._heard_s += now_s - self._looked_s
        self._looked_s = now_s
        silent_s = now_s - self._heard_s
        if silent_s >= 2 * keep_alive_s:
            raise RemoteFailed(f"the broker has been silent for {2 * keep_alive_s} s, and did not answer a ping")
        if silent_s >= keep_alive_s and self._handler is not None:
            self._handler.handle_write_timeout()  # it sends a ping, unless one is unanswered


@final
class Mqtt3Remote(RemoteBroker):
    """A foreign broker that speaks MQTT 3.1.1."""

    def __init__(self, settings: BridgeSettings, line: Line) -> None:
        super().__init__(settings, line)
        for name, qos in _guarantees(settings):
            if qos > QOS_MAX:
                raise ValueError(f"rule {name!r}: qos 2 needs mqtt_version '5'; allowed: 0 or 1")
        for incoming in settings.incoming:
            try:
                filter_of(incoming.source)
            except TopicError as error:
                raise ValueError(f"incoming rule {incoming.name!r}: {error}") from None
        self._finder = RuleFinder(settings)
        self._queue: deque[Outgoing] = deque()  # to be published
        self._publishing: set[asyncio.Task[None]] = set()
        self._stored: OrderedDict[int, tuple[asyncio.Future[None], bool]] = OrderedDict()  # arrival -> settled?
        self._last_arrival = 0
        self._failure = ""

    def run(self) -> None:
        """Connect and serve, on a loop of this thread."""
        try:
            asyncio.run(self._run())
        finally:
            self.line.wake_with(None)
            self._queue.clear()
            self._stored.clear()
            self._publishing.clear()

    async def _run(self) -> None:
        self._failure = ""
        loop, woken = asyncio.get_running_loop(), asyncio.Event()
        client = _Client(self, self._config())
        try:
            await self._connect(client)
            client.listen()
            self.line.wake_with(lambda: _wake(loop, woken))
            await self._subscribe(client)
            self.line.opened(Opened())
            await self._serve(client, woken)
        finally:
            self.line.wake_with(None)
            for task in self._publishing:
                task.cancel()
            with suppress(AMQTTError, OSError, TimeoutError):
                async with asyncio.timeout(_TICK_S):
                    await client.disconnect()
            await client.hang_up()

    # --- connecting ---

    def _config(self) -> dict[str, Any]:
        remote = self.settings.remote
        config: dict[str, Any] = {
            "keep_alive": remote.keep_alive_s + _PING_BEFORE_S,
            "ping_delay": _PING_BEFORE_S,
            "auto_reconnect": False,
            "connection_timeout": CONNECT_S_MAX,
            "plugins": {},
        }
        if remote.tls is not None:
            config["connection"] = _files_of(remote.tls)
        return config

    async def _connect(self, client: _Client) -> None:
        remote = self.settings.remote
        host = f"[{remote.host}]" if ":" in remote.host else quote(remote.host)
        uri = f"mqtt{'' if remote.tls is None else 's'}://{host}:{remote.port}"
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                await client.connect(uri, cleansession=False)
        except ConnectError as error:
            code = getattr(error, "return_code", None)
            if code is not None:
                raise RemoteFailed(f"the connection was refused: {_REFUSALS.get(code, 'code')} ({code})") from None
            raise RemoteFailed(_why(error)) from None
        except (AMQTTError, OSError, ssl.SSLError, UnicodeError) as error:
            raise RemoteFailed(_why(error)) from None
        except TimeoutError:
            raise RemoteFailed(f"no answer to CONNECT within {CONNECT_S_MAX} s") from None

    async def _subscribe(self, client: _Client) -> None:
        rules = self.settings.incoming
        if not rules:
            return
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                codes = await client.subscribe([(rule.source, rule.qos) for rule in rules])
        except (AMQTTError, OSError, TimeoutError) as error:
            raise RemoteFailed(f"no answer to SUBSCRIBE: {_why(error)}") from None
        for rule, code in zip(rules, codes, strict=False):
            if code == _SUBSCRIPTION_REFUSED:
                raise RemoteFailed(f"the subscription {rule.source!r} was refused")

    # --- serving ---

    async def _serve(self, client: _Client, woken: asyncio.Event) -> None:
        over = asyncio.create_task(client.is_over())
        try:
            while True:
                waiting = asyncio.create_task(woken.wait())
                await asyncio.wait((waiting, over), timeout=_TICK_S, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                woken.clear()
                work = self.line.work()
                self._queue += work.messages
                for settlement in work.settlements:
                    if settlement.outcome != RELEASED:  # else it is not stored: it comes again, with what follows it
                        self._settle(settlement.number)
                if over.done() or self._failure:
                    raise RemoteFailed(self._failure or "the connection was lost")
                client.see_that_it_lives(self.settings.remote.keep_alive_s)
                self._publish(client, woken)
                self.line.flush()
                if work.is_closed:
                    return
        finally:
            over.cancel()

    def _publish(self, client: _Client, woken: asyncio.Event) -> None:
        """Begin to publish what there is room for. Each message is a task, as amqtt waits for its PUBACK."""
        while self._queue and len(self._publishing) < self.settings.window_messages:
            message = self._queue.popleft()
            refusal = check_outgoing(message)
            if refusal:
                self.line.refused(message.number, REJECTED, refusal)
                continue
            task = asyncio.create_task(self._publish_one(client, message, woken))
            self._publishing.add(task)
            task.add_done_callback(self._publishing.discard)

    async def _publish_one(self, client: _Client, message: Outgoing, woken: asyncio.Event) -> None:
        try:
            await client.publish(message.topic, message.payload, message.qos, message.retain)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # amqtt's own errors as well: it loses its session while it waits for PUBACK
            self._failure = self._failure or f"a message was not confirmed: {_why(error)}"
        else:
            self.line.confirmed(message.number)
        woken.set()

    # --- messages of the foreign broker ---

    async def received(self, message: ApplicationMessage) -> None:
        """Report an arrival, and wait until it is stored."""
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        number = self._arrived(message)
        if number:
            self._stored[number] = (stored, False)
            await stored

    def received_direct(self, message: ApplicationMessage) -> None:
        """Report an arrival of QoS 0, if there is room."""
        if self.line.has_room():
            self._arrived(message)
            return
        rule = self._finder.rule(message.topic)
        if rule >= 0:
            self.line.dropped(rule)
            self._flush_soon()

    def _arrived(self, message: ApplicationMessage) -> int:
        rule = self._finder.rule(message.topic)
        if rule < 0:  # a subscription of an earlier configuration
            return 0
        self._last_arrival += 1
        self.line.arrived(
            Arrival(
                number=self._last_arrival,
                rule=rule,
                topic=message.topic,
                payload=bytes(message.data),
                headers=None,
                qos=message.qos or 0,
                retain=bool(message.retain),
            )
        )
        self._flush_soon()
        return self._last_arrival

    def _flush_soon(self) -> None:
        """Report what has arrived at the end of the loop's turn, all of it together."""
        asyncio.get_running_loop().call_soon(self.line.flush)

    def _settle(self, number: int) -> None:
        """Let PUBACKs go, in the order in which the messages came [MQTT 4.6.0-2]."""
        waiting = self._stored
        entry = waiting.get(number)
        if entry is None:
            return
        waiting[number] = (entry[0], True)
        while waiting:
            first, (stored, is_settled) = next(iter(waiting.items()))
            if not is_settled:
                return
            del waiting[first]
            if not stored.done():
                stored.set_result(None)


def _guarantees(settings: BridgeSettings) -> list[tuple[str, int]]:
    outgoing = [(each.name, each.qos) for each in settings.outgoing]
    return outgoing + [(each.name, each.qos) for each in settings.incoming]


def _files_of(tls: TlsFiles) -> dict[str, str]:
    files: dict[str, str] = {}
    if tls.authorities_file is not None:
        files["cafile"] = str(tls.authorities_file)
    if tls.certificate_file is not None:
        files["certfile"] = str(tls.certificate_file)
        files["keyfile"] = str(tls.certificate_key_file or tls.certificate_file)
    return files


def _wake(loop: asyncio.AbstractEventLoop, woken: asyncio.Event) -> None:
    with suppress(RuntimeError):  # the loop is closed: nobody waits
        loop.call_soon_threadsafe(woken.set)


def _why(error: BaseException) -> str:
    """Return what lies below amqtt's errors."""
    cause = error.__cause__ or (error.args[0] if error.args and isinstance(error.args[0], BaseException) else None)
    if cause is not None:
        return _why(cause)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
