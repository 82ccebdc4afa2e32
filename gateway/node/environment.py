"""What a node is given besides its store, clock and randomness: store threads, sockets, process, operator ports.

The simulation supplies its own, and a node then touches nothing of the machine.
"""

import os
import resource
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sluicegate.actors.runtime.inbox import CallSoon
from sluicegate.actors.runtime.runtime import CallFromThread, CallLater, Runtime
from sluicegate.actors.spool.store_threads import StoreThreads, ThreadedStore
from sluicegate.gateway.node.shared_limits import SharedLimits
from sluicegate.gateway.node.siblings import Siblings
from sluicegate.gateway.observability.metrics.metric import Sample
from sluicegate.protocols.network.dialing.dialing import BeginPlain, begin_plain
from sluicegate.protocols.transport.listeners import BaseListener, Listener
from sluicegate.protocols.transport.loop.event_loop import (
    quiet_of_sockets,
    thread_calls_of_sockets,
    timers_of_sockets,
    turns_of_sockets,
)
from sluicegate.storage.backup.folder import NO_PLACE
from sluicegate.storage.interface import Store


class ProcessUsage(NamedTuple):
    """Memory and processor time of a process, as the operating system reports them."""

    memory_bytes: int  # resident
    cpu_ms_total: int  # of all its threads, user and system


def process_usage(pid: int | None = None) -> ProcessUsage | None:
    """Return the usage of a process, this one by default; None where /proc lacks it."""
    folder = Path("/proc", "self" if pid is None else str(pid))
    try:
        pages = int((folder / "statm").read_text().split()[1])
        times = (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended, or this system has no /proc
        return None
    ticks = int(times[11]) + int(times[12])  # user, system
    return ProcessUsage(pages * resource.getpagesize(), ticks * 1000 // os.sysconf("SC_CLK_TCK"))


def peak_memory_bytes() -> int:
    """Return the most memory that was ever resident of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What touches the machine, or makes what does. The defaults are real."""

    store_threads: Callable[[Store, Runtime], StoreThreads] = ThreadedStore
    listener: type[Listener] = Listener
    dialed: BeginPlain = begin_plain  # begins with a connection to a neighbor broker
    process: Callable[[], ProcessUsage | None] = process_usage
    turns: Callable[[], CallSoon] = turns_of_sockets  # schedules the turns of the actors on the running loop
    thread_calls: Callable[[], CallFromThread] = thread_calls_of_sockets  # has other threads call the running loop
    timers: Callable[[], CallLater] = timers_of_sockets  # sets the timers of the actors on the running loop
    quiet: Callable[[], Callable[[], bool]] = quiet_of_sockets  # says whether nobody else waits for the running loop
    place: Path = NO_PLACE  # of this broker in a backup
    siblings: Siblings | None = None  # the other brokers of this machine, if it has several
    limits: SharedLimits | None = None  # those that hold for all of them together
    is_replicated: bool = False  # replicas on other machines follow the log, and may take over

    @property
    def is_retired(self) -> bool:
        """Whether the machine is to have fewer brokers, without this one."""
        return self.siblings is not None and self.siblings.is_retired

    def sibling_names(self) -> frozenset[str]:
        """Return the names of the other brokers of this machine."""
        return frozenset() if self.siblings is None else frozenset(self.siblings.others)


MACHINE = Environment()


class OperatorPorts:
    """The operator ports of a node: none here; `gateway.process.operator_ports` overrides this with real ones."""

    async def bind(self) -> None:
        """Take the addresses. Raises CannotStart."""

    async def open(self) -> None:
        """Serve at the addresses that were taken. Raises CannotStart."""

    def end_streams(self) -> None:
        """End the responses that stream until their client leaves: the node stops."""

    async def stop(self) -> None:
        """Close the ports, once the requests under way are answered."""

    def listeners(self) -> list[BaseListener]:
        """Return the listeners of the open ports."""
        return []

    def endpoints(self) -> list[tuple[str, str]]:
        """Return name and URL of each open port."""
        return []

    def samples(self) -> list[Sample]:
        """Return what the ports measure."""
        return []
