"""What the routing of a message VPN and its links give each other: targets of a batch, and the way out to a neighbor.

Routing decides once, at the publisher's broker, which neighbors get a message and for whom. A neighbor delivers what
comes over a link to its own clients and queues only, so a full mesh of links cannot loop.
"""

from typing import Final, final

from mypy_extensions import mypyc_attr

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.topics.syntax import TopicFilter

NEVER_DELIVERED: Final = -1
GroupKey = tuple[str, TopicFilter]  # share name and filter: together they identify a shared group


@final
class LinkTargets:
    """The destinations that the publisher's broker chose at one neighbor, for all messages of a batch. Immutable.

    Messages that ask for Deliver-To-One and those that do not may be in one batch: `subscribers` then are the
    deliver-always subscriptions for the former, and all subscriptions for the latter.
    """

    __slots__ = ("deliver_to_one", "failed_count", "groups", "queue", "subscribers", "ttl_ms")

    def __init__(
        self,
        *,
        subscribers: bool,
        deliver_to_one: bool,
        groups: tuple[GroupKey, ...],
        queue: str = "",
        failed_count: int = NEVER_DELIVERED,
        ttl_ms: int = 0,
    ) -> None:
        self.subscribers = subscribers  # clients and queues that subscribe to the topic, each once
        self.deliver_to_one = deliver_to_one  # one client, of those with the best priority there
        self.groups = groups  # one member of each
        self.queue = queue  # the queue of this name alone; empty: none
        self.failed_count = failed_count  # deliveries from a queue that moves that have failed, or NEVER_DELIVERED
        self.ttl_ms = ttl_ms  # how long the message lives from when it comes to that queue; 0: as its headers say

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LinkTargets)
            and self.subscribers == other.subscribers
            and self.deliver_to_one == other.deliver_to_one
            and self.groups == other.groups
            and self.queue == other.queue
            and self.failed_count == other.failed_count
            and self.ttl_ms == other.ttl_ms
        )

    __hash__ = None  # type: ignore[assignment]  # compared only

    def __repr__(self) -> str:
        return f"LinkTargets(subscribers={self.subscribers}, one={self.deliver_to_one}, groups={self.groups})"


SUBSCRIBERS: Final = LinkTargets(subscribers=True, deliver_to_one=False, groups=())  # those of most messages


@mypyc_attr(allow_interpreted_subclasses=True)  # tests derive it
class InterestWaiter:
    """Waits until neighbors know what this broker wants. A class and not a Protocol, like `Address`."""

    def interest_known(self) -> None:
        """One of the neighbors knows it, has taken too long, or is gone. Called once for each."""
        raise AssertionError("interest_known is abstract")


@mypyc_attr(allow_interpreted_subclasses=True)  # tests derive links
class LinkOutput:
    """The way out to one neighbor, for one message VPN. A class and not a Protocol, like `Address`.

    There is one for as long as the link is configured. While the neighbor is away routing keeps what it wants, and
    sends it nothing; `send` drops what it is given. Guaranteed messages do not go through it: they are stored in the
    link's queue, whether the neighbor is there or not.
    """

    def __init__(self, neighbor: str, *, is_sibling: bool = False) -> None:
        self.neighbor: Final = neighbor  # name of the neighbor broker
        self.is_sibling: Final = is_sibling  # it is another broker of this machine
        self.has_told = False  # it has told everything that it wants, since this link has begun
        self.is_up = True  # routes that were resolved before a change have to be resolved again
        self.has_queue = False  # the link has a queue for guaranteed messages; the same holds for it

    def send(self, batch: MessageBatch, targets: LinkTargets) -> None:
        """Send direct messages. Never blocks: beyond a bound the oldest batches are dropped and counted.

        A batch for several neighbors is encoded once.
        """
        raise AssertionError("send is abstract")

    def wait_until_known(self, waiter: InterestWaiter) -> bool:
        """Tell the waiter when the neighbor knows all that this broker wants now; return False if it does already.

        A neighbor that is away is not waited for, and the others no longer than the link allows.
        """
        return False

    def __repr__(self) -> str:
        return f"LinkOutput({self.neighbor!r})"
