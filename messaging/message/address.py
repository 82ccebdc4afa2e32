"""The address of an actor: `post(message)`. Cores store addresses; the actor runtime implements them."""


class Address:
    """The inbox of an actor on this node's loop.

    A class and no protocol: compiled code calls a method of a class directly, and that of a protocol by its name.
    """

    def post(self, message: object) -> None:
        """Leave a message. Never blocks; a message to a stopped actor is counted and dropped."""
        raise AssertionError("an address is the inbox of somebody")

    def deliver_now(self, message: object) -> None:
        """Leave a message that may also be handled before this returns, by a receiver that has nothing else to do."""
        self.post(message)

    def deliver_now_if_idle(self, message: object) -> None:
        """Deliver now if no actor waits for its turn, else post: for a message that takes what others wait for."""
        self.post(message)
