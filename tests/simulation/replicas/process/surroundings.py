"""What takes the place of the machine in the modules of a replica: its clocks, threads, random numbers, connections.

These modules are not compiled, so their names can be given other meanings while a run is played.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Final

import sluicegate.gateway.cluster.log.servers as servers
import sluicegate.gateway.cluster.log.spool as spool
import sluicegate.gateway.cluster.log.trimming as trimming
import sluicegate.gateway.cluster.replica.ownership as ownership
import sluicegate.gateway.cluster.replica.process as replica
import sluicegate.storage.backup.snapshots as snapshots
import sluicegate.storage.replication.ownership.clock as clock
import sluicegate.storage.replication.replica as log_replica
import sluicegate.storage.replication.trimming.objects as objects
from simulation.replicas.process.loops import machine_loop

PART_BYTES: Final = 2_000  # of a message of the stream, so that some records have several
CHUNK_BYTES: Final = 24_000  # of a snapshot, likewise

Named = tuple[Any, str, Any]


class VirtualTime:
    """The module `time`."""

    @staticmethod
    def monotonic() -> float:
        return machine_loop().time()

    @staticmethod
    def clock_gettime(_: int) -> float:
        return machine_loop().time()

    @staticmethod
    def time() -> float:
        return machine_loop().wall_ms() / 1000

    @staticmethod
    def time_ns() -> int:
        return machine_loop().wall_ms() * 1_000_000


class NoSockets:
    """The sockets of a loop: a simulated node has none."""

    def guard(self, may_serve: Callable[[], bool]) -> None:
        """Take what is asked before a socket is read."""


class VirtualDates:
    """The class `datetime`, of which the time of a file is asked."""

    @staticmethod
    def now(_: Any) -> "VirtualDates":
        return VirtualDates()

    @staticmethod
    def isoformat() -> str:
        return str(machine_loop().wall_ms())


class SeededSecrets:
    """The module `secrets`."""

    def __init__(self, rng: Random) -> None:
        self._rng: Final = rng

    def token_hex(self, count: int) -> str:
        return self._rng.randbytes(count).hex()

    def randbits(self, count: int) -> int:
        return self._rng.getrandbits(count)


class SeededRandom:
    """The module `random`."""

    def __init__(self, rng: Random) -> None:
        self._rng: Final = rng

    def Random(self) -> Random:  # noqa: N802  # its own name
        return Random(self._rng.getrandbits(32))


@contextmanager
def surrounded(
    rng: Random,
    *,
    loop_thread: Callable[[], Any],
    connected: Callable[..., Any],
    make_node: Callable[..., Any],
) -> Iterator[None]:
    """Have replicas run in virtual surroundings within the block."""
    names: list[Named] = [
        *[(module, "time", VirtualTime) for module in (clock, ownership, replica, spool, trimming)],
        (objects, "datetime", VirtualDates),
        *[(module, "LoopThread", loop_thread) for module in (ownership, spool)],
        *[(module, "secrets", SeededSecrets(rng)) for module in (replica, spool)],
        (spool, "random", SeededRandom(rng)),
        (servers, "connected", connected),
        (replica, "make_node", make_node),
        (replica, "turns_of_sockets", lambda: machine_loop().call_soon),
        (replica, "timers_of_sockets", lambda: machine_loop().call_later),
        (replica, "running_sockets", NoSockets),
        *[(replica, name, lambda: None) for name in ("freeze", "collect_from_now_on")],
        (log_replica, "PART_BYTES_MAX", PART_BYTES),
        (snapshots, "CHUNK_BYTES", CHUNK_BYTES),
    ]
    before = [(module, name, getattr(module, name)) for module, name, _ in names]
    try:
        for module, name, value in names:
            setattr(module, name, value)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
