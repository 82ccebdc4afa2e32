"""What a broker has around it: alone in the world, or one of a network."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from simulation.checks.log_watch import LogWatch
from simulation.course import Course
from simulation.machine.virtual_loop import MONOTONIC_START_US, Outside, VirtualLoop, virtual_loop
from simulation.scenario import MOVERS


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """A broker of a network has a name, and has these in common with the others."""

    broker: str = ""
    course: Course = field(default_factory=Course)
    log: LogWatch | None = None  # of all brokers
    begin: Callable[[int], VirtualLoop] = virtual_loop  # returns the loop of a life that begins then
    began_us: int = MONOTONIC_START_US
    outside: Outside | None = None  # what it can connect to; None: the web servers of its delivery points
    ahead_ms: int = 0  # its clock, of the others' clocks
    links: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # its configuration of them, by neighbor

    def identifier_of(self, client: str) -> str:
        """Return the identifier of an MQTT client. In a network one that moves is the same client at all brokers."""
        return f"{client}@{self.broker}" if self.broker and client not in MOVERS else client
