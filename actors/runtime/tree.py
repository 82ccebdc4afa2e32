"""The root of the actor tree: it supervises and does nothing else."""

from typing import Any

from sluicegate.actors.runtime.actor import LoopActor


class SupervisorActor(LoopActor):
    """A node's root actor. It gets no messages; a failure below that nobody answered ends the node."""

    def on_receive(self, message: Any) -> None:
        """Nobody has anything to say to it."""
