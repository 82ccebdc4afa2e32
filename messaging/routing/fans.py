"""What definitions of virtual destinations add to a route: copies under other topics, and what a refusal means.

Routes themselves are `messaging.routing.routes`; how they come to have this, `messaging.routing.virtual.resolver`.
"""

from typing import TYPE_CHECKING, NamedTuple, final

from sluicegate.messaging.message.headers import UserPropertyValue

if TYPE_CHECKING:
    from sluicegate.messaging.routing.destinations import QueueTarget
    from sluicegate.messaging.routing.routes import Route


@final
class Fan:
    """How a message goes out that definitions send on: what else a publisher has to know of a route. Immutable."""

    __slots__ = (
        "copies",
        "is_concurrent",
        "is_nowhere",
        "is_partial",
        "lost",
        "missing",
        "spared",
        "unmatched_count",
    )

    def __init__(
        self,
        copies: "list[Copy]",
        spared: "dict[QueueTarget, None]",
        missing: list[str],
        lost: list[str],
        *,
        is_partial: bool,
        is_concurrent: bool,
        is_nowhere: bool,
    ) -> None:
        self.copies = copies  # what goes out under topics of its own
        self.spared = spared  # queues that go without when they refuse
        self.missing = missing  # target queues that there are not: the message is refused
        self.lost = lost  # and those that go without
        self.is_partial = is_partial  # what queues took before one refused stays theirs
        self.is_concurrent = is_concurrent  # then also what queues take behind that one
        self.is_nowhere = is_nowhere  # its definitions' selectors leave the message nobody
        self.unmatched_count = sum([copy.route.is_empty for copy in copies])  # copies that nobody subscribes to


@final
class Copy:
    """A message under another topic: what definitions make of it, and who gets that."""

    __slots__ = ("marks", "route", "topic")

    def __init__(self, topic: str, marks: list[tuple[str, UserPropertyValue]], route: "Route") -> None:
        self.topic = topic
        self.marks = marks  # user properties that it has beyond the message's own
        self.route = route


class Way(NamedTuple):
    """A step on the way of a message that a definition sends on, or would, for explanations."""

    topic: str  # where it leads; a queue's own topic for a queue
    definition: str  # in words
    obstacle: str  # why this message does not go there; empty: it does
    condition: str  # which messages do; empty: all
    spares: bool  # a queue that refuses goes without
