"""The base of all clients that have one connection at a time, with the ways to lose it."""

from abc import ABC, abstractmethod

from simulation.wires.memory_network import Wire


class Wired(ABC):
    """A client on its wire, None while it has none."""

    def __init__(self) -> None:
        self._wire: Wire | None = None

    def cut(self) -> None:
        """Lose the connection."""
        if self._wire is not None:
            self._wire.hang_up()
            self._gone()

    def vanish(self) -> None:
        """Be gone, and let the node find out."""
        if self._wire is not None:
            self._wire.vanish()
            self._gone()

    def node_died(self) -> None:
        """The other end of the connection is no more."""
        self._gone()

    @abstractmethod
    def _gone(self) -> None:
        """Note that there is no connection any more."""
