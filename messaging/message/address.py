"""The address of an actor: `post(message)`. Cores store addresses; the actor runtime implements them."""


class Address:
    """The inbox of an actor on this node's loop.

    A class and not a Protocol: compiled code calls a method of a class directly, and a method of a Protocol by name.
    """

    def post(self, message: object) -> None:
        """Queue a message. Never blocks; a message to a stopped actor is counted and dropped."""
        raise AssertionError("post is abstract")

    def deliver_now(self, message: object) -> None:
        """Queue a message that an idle receiver may handle before this returns."""
        self.post(message)

    def deliver_now_if_idle(self, message: object) -> None:
        """Deliver now if no actor waits for its turn, else post: for a message that takes what others wait for."""
        self.post(message)
