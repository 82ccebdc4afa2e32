"""Brokers of one network for tests, each a `RunningBroker`, and a proxy on the way of their links that can be cut."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from sluicegate.gateway.config.load import load
from sluicegate.messaging.network.interest import InterestKind
from sluicegate.messaging.topics.syntax import Syntax, parse_filter
from sluicegate.protocols.network.link.neighbor import Neighbor
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import DEADLINE_S
from support.network.close_server import close_server

MAY_LINK = (
    "authentication.client_profiles.0.name=default",
    "authentication.client_profiles.0.allow_bridge_connections_enabled=true",
)


async def until(condition: Callable[[], bool], what: str = "it") -> None:
    """Wait until a condition holds."""
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"{what} has not happened in {DEADLINE_S} s") from None


class LinkProxy:
    """Listens, and passes bytes on to a broker. `cut` ends connections, `freeze` keeps them and passes on nothing."""

    def __init__(self) -> None:
        self.target_port = 0
        self.accepted_count = 0
        self.hidden: list[bytes] = []  # words of the broker's greeting that do not arrive as such
        self.hidden_count = 0
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._flows = asyncio.Event()
        self._flows.set()
        self._answers = asyncio.Event()  # the way back
        self._answers.set()
        self._is_open = True

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", 0)

    async def stop(self) -> None:
        assert self._server is not None
        await close_server(self._server)
        self.cut()
        self._flows.set()
        self._answers.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # what was aborted is closed by the loop

    def cut(self) -> None:
        """End all connections, and refuse new ones until `heal`."""
        self._is_open = False
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def heal(self) -> None:
        self._is_open = True
        self._flows.set()
        self._answers.set()

    def freeze(self) -> None:
        """Pass on nothing more; neither side is told."""
        self._flows.clear()

    def freeze_answers(self) -> None:
        """Pass on nothing more of what the broker sends back."""
        self._answers.clear()

    def hide_features(self, *names: str) -> None:
        """Let the broker look like one of an earlier release, without these features, on connections from now on."""
        self.hidden += [name.encode() for name in names]

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted_count += 1
        if not self._is_open:
            writer.transport.abort()
            return
        self._writers.append(writer)
        try:
            there, onwards = await asyncio.open_connection("127.0.0.1", self.target_port)
        except OSError:
            writer.transport.abort()
            return
        if not self._is_open or writer.is_closing():  # cut meanwhile
            writer.transport.abort()
            onwards.transport.abort()
            return
        self._writers.append(onwards)
        self._tasks += [
            asyncio.ensure_future(self._carry(reader, onwards, self._flows)),
            asyncio.ensure_future(self._carry(there, writer, self._flows, self._answers, hides=self.hidden)),
        ]

    async def _carry(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *gates: asyncio.Event,
        hides: Sequence[bytes] = (),
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                for word in hides:
                    self.hidden_count += data.count(word)
                    data = data.replace(word, b"-" * len(word))
                for gate in gates:
                    await gate.wait()
                writer.write(data)
                await writer.drain()
        writer.close()


class LinkedBroker(RunningBroker):
    """A broker of a network."""

    def reads_settings(self) -> None:
        """Take over changed settings, before the start."""
        self.config = load(settings=self.settings)

    def neighbor(self, name: str) -> Neighbor:
        """Return what it knows of a neighbor."""
        return self.node.links.links.neighbors[name]

    def is_linked_to(self, name: str) -> bool:
        """Return whether its link is up, and the exchange of interests complete both ways."""
        found = self.node.links.links.neighbors.get(name)
        return (
            found is not None
            and found.is_up
            and all(
                vpn.interests.receiver.is_complete
                and vpn.interests.sender.acknowledged_number == vpn.interests.sender.sent_number > 0
                and vpn.retained.is_idle
                for vpn in found.linked.values()
            )
        )

    def wants(self, name: str, vpn: str = "default") -> set[str]:
        """Return the filters that a neighbor wants, as they are in force at this broker."""
        neighbors = self.node.vpns[vpn].space.neighbors
        entries = () if neighbors is None else neighbors.entries()
        wanted = [interest for output, interest in entries if output.neighbor == name]
        return {interest.topic_filter for interest in wanted if interest.kind != InterestKind.QUEUE}

    def retains(self, vpn: str = "default") -> dict[str, bytes]:
        """Return its retained messages by topic, without those that it makes itself."""
        scan = self.node.vpns[vpn].space.retained.scan(parse_filter("#", Syntax.MQTT))
        return {topic: message.batch.payloads()[0] for topic, message in scan.take(10_000, 100_000)}


class Brokers:
    """Linked brokers between start and stop: by default `a` connects to `b`, through a proxy."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.by_name: dict[str, LinkedBroker] = {}
        self.proxies: dict[tuple[str, str], LinkProxy] = {}

    def __getitem__(self, name: str) -> LinkedBroker:
        return self.by_name[name]

    async def add(self, name: str, *settings: str, start: bool = True) -> LinkedBroker:
        """Start a broker of this name; `settings` are further ones."""
        broker = LinkedBroker(self.folder / name, (f"node.name={name}", *MAY_LINK, *settings))
        broker.named = f"client-{name}"
        self.by_name[name] = broker
        if start:
            await broker.start()
        return broker

    async def proxy(self, dialing: str, accepting: str) -> LinkProxy:
        """Return the way from one broker to the flow port of another, which need not be there yet."""
        found = self.proxies.get((dialing, accepting))
        if found is None:
            found = self.proxies[dialing, accepting] = LinkProxy()
            await found.start()
        if accepting in self.by_name:
            found.target_port = self.by_name[accepting].flow_port
        return found

    async def pair(self, *, both: bool = False, a: tuple[str, ...] = (), b: tuple[str, ...] = ()) -> None:
        """Start `a` and `b`, of which `a` connects to `b`; with `both`, each does to the other."""
        to_b = await self.proxy("a", "b")
        to_a = await self.proxy("b", "a")
        await self.add("b", f"links.a.url={f'flow://127.0.0.1:{to_a.port}' if both else ''}", *b)
        to_b.target_port = self["b"].flow_port
        await self.add("a", f"links.b.url=flow://127.0.0.1:{to_b.port}", *a)
        to_a.target_port = self["a"].flow_port

    async def are_linked(self, *names: str) -> None:
        """Wait until each of these brokers, by default `a` and `b`, has a link to each other one."""
        those = names or ("a", "b")
        pairs = [(one, other) for one in those for other in those if one != other]
        await until(lambda: all(self[one].is_linked_to(other) for one, other in pairs), f"a link between {those}")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for broker in self.by_name.values():
            await broker.__aexit__(kind, error, trace)
        for proxy in self.proxies.values():
            await proxy.stop()
