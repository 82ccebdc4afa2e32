"""A partition of a queue of a neighbor, where the consumers are: it takes what they say of its messages."""

from typing import Any, final

from sluicegate.actors.messages.data import (
    AnnotateDelivery,
    PrepareSettlement,
    PublishFailed,
    RenewLock,
    Settle,
    SettledElsewhere,
    SettleDurably,
)
from sluicegate.actors.messages.partitions import DeliverAgain, ReleaseUnsent
from sluicegate.actors.runtime.runtime import Behaviour
from sluicegate.messaging.message.outcomes import RELEASED
from sluicegate.protocols.network.queues import notes
from sluicegate.protocols.network.queues.remote.link import AWAY, QueueLink


@final
class RemotePartition(Behaviour):
    """A partition of a queue of a neighbor: it takes settlements."""

    def __init__(self, number: int, link: QueueLink) -> None:
        self._number = number
        self._link = link

    def receive(self, message: Any) -> Any:
        """Handle a message of a consumer; requests that only a partition at hand can answer find nothing."""
        link, number = self._link, self._number
        if isinstance(message, Settle):
            link.settle(number, message, 0)
        elif isinstance(message, SettleDurably):
            token = link.awaits(message.settle.flow_id, message.reply_to)
            if token:
                link.settle(number, message.settle, token)
            else:
                message.reply_to.post(PublishFailed(0, AWAY.format(neighbor=link.neighbor)))
        elif isinstance(message, ReleaseUnsent):
            first, end = message.ranges[0]
            link.settle(
                number, Settle(message.flow_id, message.epoch, first, end, RELEASED, further=message.ranges[1:]), 0
            )
        elif isinstance(message, RenewLock):
            return link.renew(number, message)
        elif isinstance(message, AnnotateDelivery):
            text = message.annotation.decode("latin-1")
            values = (number, message.epoch, int(message.delivery_count), message.ranges)
            link.say(notes.ANNOTATE, message.flow_id, *values, text)
        elif isinstance(message, DeliverAgain):
            return []
        else:
            assert isinstance(message, PrepareSettlement), "consumers send nothing else"
            raise SettledElsewhere(link.neighbor)
        return None

    def turn_ended(self) -> None:
        """Do nothing: the link writes at the end of the turn."""
