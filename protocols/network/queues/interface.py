"""What the flows at queues of a neighbor need of its link. A class and not a Protocol, like `Address`."""


class QueueLink:
    """The link to a neighbor whose queues are used here."""

    def say(self, kind: int, flow_id: int, *values: object) -> None:
        """Tell the neighbor something of a flow."""
        raise AssertionError("say is abstract")

    def end(self, flow_id: int) -> None:
        """Forget a flow."""
        raise AssertionError("end is abstract")
