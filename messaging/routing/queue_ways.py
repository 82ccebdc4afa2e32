"""The way from one queue to another by its name: into the queue, if it is here, or into the link queue to its broker.

Dead messages take it. They leave their queue in the commit that puts them where the way leads, so a crash neither loses
nor doubles one. As long as a broker cannot know where the other queue is, messages wait where they are.
"""

from collections.abc import Callable
from typing import Final, final

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.refusals import ADMITTED
from sluicegate.messaging.network.queue_names import QueueHome
from sluicegate.messaging.routing.destinations import QueueTarget
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.topics.syntax import queue_topic


@final
class QueueWay:
    """Where messages for a queue go now. Immutable."""

    __slots__ = ("home", "target", "waits")

    def __init__(self, target: QueueTarget | None, home: QueueHome | None = None, waits: str = "") -> None:
        self.target: Final = target  # the queue, or the link queue to its broker; None: nowhere, or not now
        self.home: Final = home  # the queue at another broker; None: it is here
        self.waits: Final = waits  # why messages have to wait where they are; empty: they need not

    def refusal(self, batch: MessageBatch) -> int:
        """Return ADMITTED, or why the queue at the other broker would not take these messages, as it last told."""
        home = self.home
        if home is None:
            return ADMITTED
        # While the link is down nobody tells that there is room again: the link's queue has a quota of its own.
        facts = home.facts if home.output.is_up else home.facts._replace(is_full=False)
        return facts.refusal(batch)


_NOWHERE: Final = QueueWay(None)


@final
class QueueWays:
    """The ways to all queues of one message VPN, here and at its neighbors."""

    def __init__(
        self, targets: dict[str, QueueTarget], space: TopicSpace, siblings: Callable[[], frozenset[str]]
    ) -> None:
        """`targets` has every queue that is here. `siblings` returns the other brokers of this machine."""
        self.targets: Final = targets
        self.awaits_links = False  # the node starts: what neighbors have, and what is held, is not in force yet
        self._space: Final = space
        self._siblings = siblings

    def to(self, name: str) -> QueueWay:
        """Return the way to a durable queue."""
        space, target = self._space, self.targets.get(name)
        if space.neighbors is None and space.held is None and not (self.awaits_links or self._siblings()):
            return _way_into(target)
        if self.awaits_links:
            return QueueWay(None, waits="this broker is still starting")
        if space.held is not None and space.held.covers(queue_topic(name)):
            return QueueWay(None, waits=f"queue {name} is about to get another home")
        home = space.queue_home(name)
        if home is not None:
            if not home.facts.takes_named:
                return _NOWHERE
            queue = space.link_queues.get(home.output)
            if queue is None:
                return QueueWay(None, waits=f"the link to broker {home.output.neighbor} has no queue yet")
            return QueueWay(queue, home)
        if target is not None:
            return _way_into(target)
        homes = space.conflict(name)
        if homes:
            return QueueWay(None, waits=f"brokers {', '.join(homes)} have a queue {name} each")
        silent = self._silent()
        if silent:
            return QueueWay(None, waits=f"broker {silent} has not told yet which queues it has")
        return _NOWHERE

    def _silent(self) -> str:
        """Return a broker of this machine that has not told what it has since this one started; empty: none."""
        told = {output.neighbor for output in self._space.link_queues if output.has_told}
        return next((name for name in sorted(self._siblings()) if name not in told), "")


def _way_into(target: QueueTarget | None) -> QueueWay:
    """Return the way into a queue that is here: one that is never written takes no part in a commit."""
    return QueueWay(target) if target is not None and target.durable else _NOWHERE
