"""The process of one broker among several on a machine, which the supervisor starts: `python -m` this module.

It reads no configuration and opens no port for operators: both come from the supervisor, and reach it there.
"""

import asyncio
import faulthandler
import gc
import logging
import signal
import socket
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, final

from sluicegate.gateway.config.model import Config
from sluicegate.gateway.machine.channel import Channel, ChannelClosed
from sluicegate.gateway.machine.definitions import Definitions, definitions_of, equalize
from sluicegate.gateway.machine.handing_over import HandingOver
from sluicegate.gateway.machine.handing_over import serve as serve_handing_over
from sluicegate.gateway.machine.messages import (
    ADOPT,
    BEGIN,
    CALL,
    DEFINED,
    DEFINITIONS,
    EMIT,
    END,
    FAILED,
    FOLLOW,
    GONE,
    HAND_OVER,
    HAS,
    LEARN,
    LEARN_RELEASED,
    NEXT,
    PLACE,
    READY,
    RELEASED,
    RELOAD,
    RESTORED,
    RETIRING,
    STOP,
    WAITING,
    Call,
    Go,
    Start,
)
from sluicegate.gateway.machine.retiring import Retirement
from sluicegate.gateway.machine.shared_memory import MachineLock, words_of
from sluicegate.gateway.node.environment import Environment, OperatorPorts
from sluicegate.gateway.node.node import Node, open_store
from sluicegate.gateway.node.shared_limits import SETTLE_S, SETTLES_PER_TOTAL, SharedLimits
from sluicegate.gateway.node.siblings import Holdings, Siblings
from sluicegate.gateway.process.brokers import broker_place
from sluicegate.gateway.process.operator_ports import IMPORTED, make_operations
from sluicegate.gateway.process.run import collect_from_now_on, freeze, make_node, prepare, unusable_listeners
from sluicegate.gateway.views.errors import CannotStart, LinkNotFound
from sluicegate.gateway.views.node.runtime import ReloadView
from sluicegate.gateway.views.text import counted
from sluicegate.messaging.clients.homes import publisher_key
from sluicegate.messaging.limits.counts import SharedCounts
from sluicegate.messaging.observability.events import (
    SYSTEM_ADMIN_COMMAND,
    SYSTEM_ADMIN_QUERY,
    SYSTEM_BROKER_ENDED,
    SYSTEM_BROKER_UNRESPONSIVE,
    SYSTEM_BROKER_UNRESPONSIVE_CLEAR,
    SYSTEM_LOGIN_DENIED,
    SYSTEM_PASSWORD_HASHES_EXPORTED,
    SYSTEM_TLS_FAILED,
    SYSTEM_TOKEN_KEYS_DOWN,
    SYSTEM_TOKEN_KEYS_UP,
)
from sluicegate.protocols.amqp.links.subscriptions import container_of
from sluicegate.protocols.flow.publishers.publisher import COPY_PLACE, IS_COPY, ROW_PREFIX, place_of_row
from sluicegate.protocols.mqtt.session.session import STATE_ROW
from sluicegate.protocols.transport.loop import event_loop as socket_loop
from sluicegate.protocols.transport.passing.passage import Passage
from sluicegate.storage.catalog.queues import stored_queues
from sluicegate.storage.catalog.recovered import StoredVpn
from sluicegate.storage.errors import FolderInUse, StorageError
from sluicegate.storage.store.store import SpoolStore

if TYPE_CHECKING:
    from sluicegate.gateway.operations.node import NodeOperations

# What the supervisor and its ports for operators emit.
EVENTS_OF_SUPERVISOR: Final = {
    kind.name: kind
    for kind in (
        *(SYSTEM_ADMIN_COMMAND, SYSTEM_ADMIN_QUERY, SYSTEM_LOGIN_DENIED, SYSTEM_PASSWORD_HASHES_EXPORTED),
        *(SYSTEM_TLS_FAILED, SYSTEM_TOKEN_KEYS_UP, SYSTEM_TOKEN_KEYS_DOWN),
        *(SYSTEM_BROKER_ENDED, SYSTEM_BROKER_UNRESPONSIVE, SYSTEM_BROKER_UNRESPONSIVE_CLEAR),
    )
}
LOCKED_S: Final = 15.0  # how long a broker whose supervisor has died may take to stop; then its spool is in use

log = logging.getLogger("sluicegate.node")


class BrokerPorts(OperatorPorts):
    """What takes the place of operators' ports: operations, for the supervisor to call."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.operations: NodeOperations | None = None

    async def open(self) -> None:
        """Import what operations need, which clients do not, and make them."""
        for module in IMPORTED:
            await asyncio.sleep(0)
            import_module(module)
        self.operations = make_operations(self._node)

    def end_streams(self) -> None:
        """End what goes on for as long as somebody reads."""
        if self.operations is not None:
            self.operations.followers.end()


@final
class Streams:
    """What operations yield as long as somebody reads, in pieces that the supervisor asks for."""

    def __init__(self) -> None:
        self._streams: dict[int, AsyncIterator[Any]] = {}
        self._pending: dict[int, asyncio.Task[list[Any]]] = {}  # number -> what waits for the stream's next thing
        self._number = 0

    def begin(self, stream: AsyncIterator[Any]) -> int:
        """Begin to read a stream; return its number."""
        self._number += 1
        self._streams[self._number] = stream
        return self._number

    async def next(self, number: int) -> list[Any]:
        """Return what comes next, one thing at least; nothing when the stream has ended."""
        stream = self._streams.get(number)
        if stream is None:
            return []
        task = self._pending[number] = asyncio.create_task(_next_of(stream))
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()  # without effect, unless the supervisor is gone
            self._pending.pop(number, None)
        if task.cancelled():  # by `end`
            return []
        items = task.result()
        if not items:
            self._streams.pop(number, None)
        return items

    async def end(self, number: int) -> None:
        """Read no more of a stream, also while its next thing is waited for. Nothing happens if it has ended."""
        stream = self._streams.pop(number, None)
        pending = self._pending.pop(number, None)
        if pending is not None:  # a generator that runs cannot be closed
            pending.cancel()
            await asyncio.wait([pending])
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()


async def _next_of(stream: AsyncIterator[Any]) -> list[Any]:
    async for item in stream:
        return [item]
    return []


@final
class BrokerProcess:
    """One broker, from its start to its end."""

    def __init__(self) -> None:
        self._stopping = asyncio.Event()
        self._streams = Streams()
        self._node: Node | None = None
        self._store: SpoolStore | None = None
        self._siblings: Siblings | None = None

    async def run(self, control: socket.socket, passages: socket.socket, memory: int) -> int:
        """Run the broker until the supervisor has it stop, or is gone; return the exit code.

        `memory` is the file of what brokers show each other.
        """
        channel = await Channel.over(control, self._serve)
        channel.closed.add_done_callback(lambda _: self._stopping.set())
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._stopping.set)
        try:
            start: Start = await channel.ask(BEGIN)
        except ChannelClosed:  # the supervisor has died meanwhile
            return 1
        siblings = self._siblings = Siblings(start.number, start.names, start.count)
        meeting = Passage(passages, take=lambda message, fd: siblings.met(int(message), socket.socket(fileno=fd)))
        try:
            counts = SharedCounts(
                words_of(memory), place=start.number - 1, brokers_count=len(start.names), lock=MachineLock(memory)
            )
            return await self._run(channel, start.config, siblings, SharedLimits(counts))
        except CannotStart as error:
            await channel.ask(FAILED, error.text, error.advice)
            return 1
        except ChannelClosed:
            return 1
        finally:
            meeting.close()
            siblings.close()

    async def _run(self, channel: Channel, config: Config, siblings: Siblings, limits: SharedLimits) -> int:
        prepare(config, broker=siblings.name)
        store = self._store = await self._open_store(config)
        await self._take_over_definitions(channel, store)
        environment = Environment(siblings=siblings, place=broker_place(siblings.number), limits=limits)
        node = make_node(config, store, environment=environment, operator_ports=BrokerPorts)
        holdings = holdings_of(node.services.recovered.vpns, siblings)
        go: Go = await channel.ask(RESTORED, holdings)
        siblings.begin({**go.holdings, siblings.number: holdings})
        limits.publish()
        try:
            await node.start(before_opening=freeze)
        except CannotStart:
            await node.stop()  # cleanly, so that the next start need not flag all messages as redelivered
            raise
        self._node = node
        for number in await channel.ask(READY, node.endpoints(), unusable_listeners(node, config)):
            await self._forget(node, number)
        collect_from_now_on()
        node.failed.add_done_callback(lambda _: self._stopping.set())
        handing_over = HandingOver(
            node,
            is_retired=siblings.is_retired,
            place=partial(channel.ask, PLACE),
            hand_over=partial(channel.ask, HAND_OVER),
        )
        working = [asyncio.create_task(self._settle(limits)), asyncio.create_task(handing_over.run())]
        if siblings.is_retired:
            tell_left = partial(channel.ask, RETIRING)
            tell_released = partial(channel.ask, RELEASED)
            retirement = Retirement(node, siblings, handing_over, tell_left=tell_left, tell_released=tell_released)
            working.append(asyncio.create_task(retirement.run()))
        await self._stopping.wait()
        for task in working:
            task.cancel()
        if node.failed.done():
            log.error("the broker cannot continue: %r", node.failed.result())
            store.close()
            return 1
        await node.stop()
        return 0

    @staticmethod
    async def _take_over_definitions(channel: Channel, store: SpoolStore) -> None:
        """Have the definitions of the other brokers in the store, before it is read. Raises CannotStart."""
        try:
            wanted: Definitions = await channel.ask(DEFINED, definitions_of(store))
            if count := equalize(store, wanted):
                log.info("%s taken over from the other brokers", counted(count, "definition"))
        except StorageError as error:
            store.close()
            raise CannotStart(f"the definitions of the other brokers could not be taken over: {error}") from None

    @staticmethod
    async def _settle(limits: SharedLimits) -> None:
        """Give back what is not used of limits, from time to time."""
        while True:
            for _ in range(SETTLES_PER_TOTAL):
                await asyncio.sleep(SETTLE_S)
                limits.settle_spool()
            limits.settle()

    async def _open_store(self, config: Config) -> SpoolStore:
        """Open the spool, once a broker of an earlier supervisor has left it. Raises CannotStart."""
        until_s = asyncio.get_running_loop().time() + LOCKED_S
        while True:
            try:
                return open_store(config)
            except CannotStart as error:
                in_use = isinstance(error.__context__, FolderInUse)
                if not in_use or asyncio.get_running_loop().time() > until_s or self._stopping.is_set():
                    raise
            await asyncio.sleep(0.1)

    async def _serve(self, verb: str, arguments: tuple[Any, ...]) -> object:
        if verb == STOP:
            self._stopping.set()
            return None
        if verb in (LEARN, LEARN_RELEASED):
            assert self._siblings is not None, "it has told what it has"
            (self._siblings.learn if verb == LEARN else self._siblings.released)(*arguments)
            return None
        node = self._node
        if node is None:
            raise CannotStart("the broker is starting")
        if verb == WAITING:
            return await node.links.waiting_for(arguments[0])
        if verb == GONE:
            await self._forget(node, arguments[0])
            return None
        if verb == DEFINITIONS:
            assert self._store is not None, "the node was made with it"
            return await asyncio.to_thread(definitions_of, self._store)
        if verb in (HAS, ADOPT):
            return await serve_handing_over(node, verb, *arguments)
        if verb == RELOAD:
            return await self._reload(node, arguments[0])
        if verb == EMIT:
            name, text, details = arguments
            node.services.runtime.events.emit(EVENTS_OF_SUPERVISOR[name], text, details=details)
            return None
        if verb == CALL:
            return await self._call(node, arguments[0])
        if verb == FOLLOW:
            return self._streams.begin(await self._call(node, arguments[0]))
        if verb == NEXT:
            return await self._streams.next(arguments[0])
        assert verb == END, verb
        await self._streams.end(arguments[0])
        return None

    async def _forget(self, node: Node, number: int) -> None:
        """Forget a retired broker that has ended for good. Nothing waits for it."""
        assert self._siblings is not None, "the node runs"
        self._siblings.gone(number)
        node.links.configure()
        with suppress(LinkNotFound):  # that was done before
            await node.links.forget(self._siblings.names[number - 1], force=True)

    @staticmethod
    async def _reload(node: Node, config: Config) -> ReloadView:
        from sluicegate.gateway.operations.node_views import reload_view  # late: with what operations need

        return reload_view(await node.reload(config), node.vpns.values())

    async def _call(self, node: Node, call: Call) -> Any:
        ports = node.operator_ports
        assert isinstance(ports, BrokerPorts), "it was made with them"
        assert ports.operations is not None, "the node has started"
        return await getattr(ports.operations.in_vpn(call.vpn), call.name)(*call.arguments, **dict(call.options))


def holdings_of(vpns: Mapping[str, StoredVpn], siblings: Siblings) -> Holdings:
    """Return the queues that a store has, and what it has of clients that do not belong here."""
    sessions: set[str] = set()
    publishers: set[str] = set()
    copies: set[str] = set()
    copied: set[str] = set()
    for name, stored in vpns.items():
        for key, row in stored.sessions.items():
            if key.startswith(STATE_ROW):
                sessions.add(key[len(STATE_ROW) :].decode())
            elif key.startswith(ROW_PREFIX):
                with suppress(ValueError):  # its row cannot be read: the log says so when publishers are restored
                    publisher, place = place_of_row(key)
                    identifier = publisher_key(name, publisher)
                    publishers.add(identifier)
                    if place == COPY_PLACE:
                        (copies if row == IS_COPY else copied).add(identifier)
    queues = {
        name: frozenset([queue.definition.config.name for queue in stored_queues(stored.catalog)])
        for name, stored in vpns.items()
    }
    containers = {container_of(name) for names in queues.values() for name in names}
    elsewhere = frozenset([each for each in publishers if not siblings.publisher_homes.belongs_here(each)])
    return Holdings(
        queues=queues,
        sessions=frozenset([each for each in sessions if not siblings.homes.belongs_here(each)]),
        publishers=elsewhere - copies,
        containers=frozenset([each for each in containers if each and not siblings.container_homes.belongs_here(each)]),
        publisher_copies=elsewhere & copies,
        copied_publishers=frozenset(copied),
    )


def main() -> int:
    """Run the broker. The arguments are the numbers of its two sockets to the supervisor, and of the shared memory."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all processes, and the supervisor stops us
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # likewise
    faulthandler.register(signal.SIGUSR2)  # the supervisor sends it to one that hangs: it writes where
    gc.disable()  # until the node is ready: objects made by the start stay, so collecting is wasted work
    control, passages = [socket.socket(fileno=int(number)) for number in sys.argv[1:3]]
    memory = int(sys.argv[3])

    async def run() -> int:
        return await BrokerProcess().run(control, passages, memory)

    return socket_loop.run(run())


if __name__ == "__main__":
    sys.exit(main())
