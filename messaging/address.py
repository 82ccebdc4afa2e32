"""Where a message for somebody can be left. The actor runtime supplies addresses; cores only carry them."""

from typing import Protocol


class Address(Protocol):
    """The inbox of an actor on this node's loop."""

    def post(self, message: object) -> None:
        """Leave a message. Never blocks; a message to a stopped actor is counted and dropped."""
