"""The public names of the client library, which programs import as `sluicegate.NAME`.

The code lives in `protocols.flow.client`; `docs/connect/flow-client.md` is for its users.
"""

import inspect
import sys
from pathlib import Path

from sluicegate.messaging.message.headers import UserPropertyValue
from sluicegate.protocols.flow.client.aio.bulk import Bulk, Column, Cursor, RangeReader
from sluicegate.protocols.flow.client.aio.client import Client
from sluicegate.protocols.flow.client.aio.consumer import Browser, Consumer
from sluicegate.protocols.flow.client.aio.publisher import Publisher
from sluicegate.protocols.flow.client.aio.queues import Queue, Queues
from sluicegate.protocols.flow.client.aio.subscriber import Subscriber
from sluicegate.protocols.flow.client.blocking.bulk import BlockingBulk, BlockingCursor, BlockingRangeReader
from sluicegate.protocols.flow.client.blocking.client import (
    BlockingClient,
    BlockingConsumer,
    BlockingPublisher,
    BlockingQueues,
    BlockingSubscriber,
)
from sluicegate.protocols.flow.client.blocking.owner import BlockingReceiver
from sluicegate.protocols.flow.client.errors import (
    AuthenticationRefused,
    ClientClosed,
    CodedError,
    ConnectFailed,
    ConnectionBroken,
    ConsumerEnded,
    FlowClientError,
    IncarnationChanged,
    MessageTooLarge,
    PublisherEnded,
    PublisherForgotten,
    PublishRefused,
    ReadFailed,
    RequestInterrupted,
    RequestRefused,
)
from sluicegate.protocols.flow.client.events import (
    ClientEvent,
    Connected,
    Disconnected,
    FlowActivated,
    FlowDeactivated,
    FlowInterrupted,
    PartitionsChanged,
    SettledTooLate,
    SubscriptionLost,
)
from sluicegate.protocols.flow.client.messages import Delivery, Message, QueueMessage, Received
from sluicegate.protocols.flow.client.options import ClientOptions
from sluicegate.protocols.flow.codec.columns import Columns, ColumnWriter
from sluicegate.protocols.flow.codec.frames.cursor import Position, Positions
from sluicegate.protocols.flow.codec.frames.partition import PartitionState
from sluicegate.protocols.flow.codec.frames.rows import RowsReceived
from sluicegate.protocols.flow.codec.frames.stage import StagingAnswer

__all__ = [
    "AuthenticationRefused",
    "BlockingBulk",
    "BlockingClient",
    "BlockingConsumer",
    "BlockingCursor",
    "BlockingPublisher",
    "BlockingQueues",
    "BlockingRangeReader",
    "BlockingReceiver",
    "BlockingSubscriber",
    "Browser",
    "Bulk",
    "Client",
    "ClientClosed",
    "ClientEvent",
    "ClientOptions",
    "CodedError",
    "Column",
    "ColumnWriter",
    "Columns",
    "ConnectFailed",
    "Connected",
    "ConnectionBroken",
    "Consumer",
    "ConsumerEnded",
    "Cursor",
    "Delivery",
    "Disconnected",
    "FlowActivated",
    "FlowClientError",
    "FlowDeactivated",
    "FlowInterrupted",
    "IncarnationChanged",
    "Message",
    "MessageTooLarge",
    "PartitionState",
    "PartitionsChanged",
    "Position",
    "Positions",
    "PublishRefused",
    "Publisher",
    "PublisherEnded",
    "PublisherForgotten",
    "Queue",
    "QueueMessage",
    "Queues",
    "RangeReader",
    "ReadFailed",
    "Received",
    "RequestInterrupted",
    "RequestRefused",
    "RowsReceived",
    "SettledTooLate",
    "StagingAnswer",
    "Subscriber",
    "SubscriptionLost",
    "UserPropertyValue",
]


def _restore_docstring(of: type) -> None:
    """Give a compiled class the docstring of its source: mypyc compiles none into it."""
    module = sys.modules[of.__module__]
    source = Path(str(module.__file__)).parent / f"{of.__module__.rpartition('.')[2]}.py"
    if of.__doc__ or not source.is_file():
        return
    text = source.read_text(encoding="utf-8").partition(f"\nclass {of.__name__}")[2]
    of.__doc__ = inspect.cleandoc(text.partition('"""')[2].partition('"""')[0])


for _compiled in (ClientOptions, Delivery, Message, QueueMessage, Received):
    _restore_docstring(_compiled)
