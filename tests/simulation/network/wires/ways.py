"""The network between brokers: connections that take time, stand still, break, or are known to one end only.

A way leads from one broker to another. One that is blocked passes on nothing, and neither end is told: what was sent
arrives when it is opened again, as TCP would have it, if the connection still exists by then.
"""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from simulation.machine.virtual_loop import VirtualLoop
from simulation.wires.memory_network import MemoryListener, OutgoingWire, Wire

FIRST_PORT = 7_000
HANG_S = 60.0  # longer than anybody waits for a connection
Pair = tuple[str, str]


class Way:
    """From one broker to another."""

    def __init__(self) -> None:
        self.is_blocked = False
        self.delay_us = 0  # beside what each socket takes


class Tap(NamedTuple):
    """Who is told of one end of a connection."""

    written: Callable[[bytes], None]
    read: Callable[[bytes], None]
    ended: Callable[[], None]


class Process:
    """A broker as its neighbors reach it."""

    def __init__(self, loop: VirtualLoop, tap: Callable[[str], Tap]) -> None:
        """`tap` returns who is told of a connection's end there; it is given the name of the other broker."""
        self.loop = loop
        self.tap = tap
        self.listener: MemoryListener | None = None  # None: it is starting


class LinkEnd:
    """What one end of a connection writes goes over its way to the other end. The peer of a `Wire`."""

    def __init__(self, way: Way, loop: Callable[[], VirtualLoop | None]) -> None:
        self._way = way
        self._loop = loop  # of the process at the other end; None: it is gone
        self._other: Wire | None = None
        self._sent: deque[tuple[int, bytes]] = deque()  # when it may arrive, and what; b"": the end
        self._is_moving = False

    def connect(self, other: Wire) -> None:
        """Begin to pass on to the other end."""
        self._other = other

    def received(self, data: bytes) -> None:
        """This end has written something."""
        loop = self._loop()
        if loop is not None:
            self._sent.append((loop.now_us + self._way.delay_us, data))
            self.move()

    def disconnected(self) -> None:
        """This end has closed."""
        self.received(b"")

    def move(self) -> None:
        """Go on: the way may be open again."""
        loop = self._loop()
        if self._sent and not self._is_moving and not self._way.is_blocked and loop is not None:
            self._is_moving = True
            loop.call_later(max(0, self._sent[0][0] - loop.now_us) / 1_000_000, self._arrive)

    def _arrive(self) -> None:
        self._is_moving = False
        if self._way.is_blocked or self._other is None or not self._sent:
            return
        _, data = self._sent.popleft()
        if data:
            self._other.send(data)
        else:
            self._other.finish()
            self._other = None
        self.move()


class Connection:
    """Of two brokers."""

    def __init__(self, pair: Pair, wires: tuple[Wire, Wire], ends: tuple[LinkEnd, LinkEnd]) -> None:
        self.pair = pair  # who has made it, and to whom
        self.wires = wires  # in the order of the pair
        self.ends = ends

    def breaks(self, side: int) -> None:
        """Break it at one end; 2: at both."""
        for number, wire in enumerate(self.wires):
            if side in (number, 2):
                wire.hang_up()

    def loses(self, broker: str, *, silently: bool) -> None:
        """One of the brokers has died; the other is told by its network, or is not."""
        survivor = self.wires[1 - self.pair.index(broker)]
        if silently:
            survivor.vanish()
        else:
            survivor.hang_up()


class Ways:
    """All of the network."""

    def __init__(self, brokers: tuple[str, ...]) -> None:
        self.rng = Random(0)  # seeded anew by each step
        self.processes: dict[str, Process] = {}  # those that run
        self.ways = {(one, other): Way() for one in brokers for other in brokers if one != other}
        self.connections: list[Connection] = []
        self.brokers = brokers

    def port_of(self, broker: str) -> int:
        """Return the port that a broker has for the others."""
        return FIRST_PORT + self.brokers.index(broker)

    def came_up(self, broker: str, process: Process) -> None:
        """A broker runs."""
        self.processes[broker] = process

    def went_down(self, broker: str) -> None:
        """A broker has died, or stopped. Half of the others hear nothing of it."""
        self.processes.pop(broker, None)
        for connection in [each for each in self.connections if broker in each.pair]:
            connection.loses(broker, silently=self.rng.random() < 0.5)
            self.connections.remove(connection)

    def change(self, pair: Pair, *, is_blocked: bool, delay_us: int) -> None:
        """Change a way."""
        way = self.ways[pair]
        way.is_blocked, way.delay_us = is_blocked, delay_us
        for connection in self.connections:
            for end in connection.ends:
                end.move()

    def breaks(self, pair: Pair, side: int) -> None:
        """Break the connections of two brokers, at one end or both."""
        for connection in [each for each in self.connections if set(each.pair) == set(pair)]:
            connection.breaks(side)
            if side == 2:
                self.connections.remove(connection)

    def heal(self) -> None:
        """Open all ways."""
        for pair in self.ways:
            self.change(pair, is_blocked=False, delay_us=0)

    def is_open(self, one: str, other: str) -> bool:
        """Return whether both ways are open."""
        return not (self.ways[one, other].is_blocked or self.ways[other, one].is_blocked)

    def connect(self, one: str, other: str) -> OutgoingWire | None:
        """Make a connection; return its end at the broker that makes it. None: nobody listens."""
        here, there = self.processes.get(one), self.processes.get(other)
        if here is None or there is None or there.listener is None or not there.listener.admit():
            return None
        forth = LinkEnd(self.ways[one, other], lambda: there.loop if self.processes.get(other) is there else None)
        back = LinkEnd(self.ways[other, one], lambda: here.loop if self.processes.get(one) is here else None)
        near, far = here.tap(other), there.tap(one)
        outgoing = OutgoingWire(here.loop, forth, self.rng, written=near.written, read=near.read, ended=near.ended)
        incoming = Wire(there.loop, back, self.rng, written=far.written, read=far.read, ended=far.ended)
        forth.connect(incoming)
        back.connect(outgoing)
        self.connections.append(Connection((one, other), (outgoing, incoming), (forth, back)))
        there.loop.call_soon(there.listener.open, incoming, ("127.0.0.1", 40_000))
        return outgoing


class Reach:
    """What one broker can connect to. The `Outside` of its loop."""

    def __init__(self, broker: str, ways: Ways) -> None:
        self._broker = broker
        self._ways = ways

    async def reach(self, port: int) -> None:
        """Return when a connection is made. Raises OSError where it is refused."""
        other, ways = self._target(port), self._ways
        loop = ways.processes[self._broker].loop
        hanging = loop.create_future()
        if not ways.is_open(self._broker, other):
            await hanging  # for ever: who connects has a time limit
        loop.call_later((2_000 + ways.ways[self._broker, other].delay_us) / 1_000_000, hanging.set_result, None)
        await hanging
        if other not in ways.processes:
            raise ConnectionRefusedError(f"{other} does not listen")

    def open(self, port: int, protocol: Any) -> OutgoingWire:
        """Return the broker's end of a connection that was made. Raises OSError."""
        wire = self._ways.connect(self._broker, self._target(port))
        if wire is None:
            raise ConnectionRefusedError("nobody listens")
        wire.set_protocol(protocol)
        return wire

    def _target(self, port: int) -> str:
        return self._ways.brokers[port - FIRST_PORT]
