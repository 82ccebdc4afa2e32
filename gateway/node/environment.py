"""What a node has around it besides its store, clock and randomness: threads for the store, sockets, its process.

The simulation puts its own in their place, and then nothing of a node touches the machine.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sluicegate.actors.runtime.inbox import CallSoon
from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.actors.spool.store_threads import StoreThreads, ThreadedStore
from sluicegate.gateway.views.process import ProcessFigures, process_figures
from sluicegate.protocols.transport.listeners import BaseListener, Listener
from sluicegate.protocols.transport.loop.event_loop import turns_of_sockets
from sluicegate.storage.interface import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What touches the machine, or makes what does; by default the real things."""

    store_threads: Callable[[Store, Runtime], StoreThreads] = ThreadedStore
    listener: type[Listener] = Listener
    process: Callable[[], ProcessFigures | None] = process_figures
    turns: Callable[[], CallSoon] = turns_of_sockets  # what calls the actors for their turns, on the running loop


MACHINE = Environment()


class OperatorPorts:
    """The ports that are not for clients, as a node uses them. Here there are none: whoever wants some overrides it."""

    async def bind(self) -> None:
        """Take the addresses. Raises CannotStart."""

    async def open(self) -> None:
        """Serve at the addresses that were taken. Raises CannotStart."""

    def end_streams(self) -> None:
        """End the answers that go on for as long as somebody reads: the node stops."""

    async def stop(self) -> None:
        """Close the ports, once the requests under way are answered."""

    def listeners(self) -> list[BaseListener]:
        """Return the listeners of the open ports."""
        return []

    def endpoints(self) -> list[tuple[str, str]]:
        """Return name and URL of each open port."""
        return []

    def refused_counts(self) -> dict[str, dict[str, int]]:
        """Return how many requests each open port has refused, by the reason."""
        return {}
