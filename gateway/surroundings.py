"""What a node has around it besides its store, clock and randomness: threads for the store, sockets for clients.

The simulation puts its own in their place, and then nothing of a node touches the machine.
"""

from collections.abc import Callable
from dataclasses import dataclass

from actors.runtime import Runtime
from actors.spool_io import StoreThreads, ThreadedStore
from protocols.listeners import Listener
from storage.interface import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Makers of what touches the machine; by default the real ones."""

    store_threads: Callable[[Store, Runtime], StoreThreads] = ThreadedStore
    listener: type[Listener] = Listener


THE_MACHINE = Surroundings()
