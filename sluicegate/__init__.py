"""The client library of the flow protocol, by the name under which programs import it.

Names only, and all of them: what stands here is the library's public face, and its one address. The code lives in
`protocols.flow.client`; `docs/flow-client.md` is for its users.
"""

from messaging.headers import UserPropertyValue
from protocols.flow.client.blocking import BlockingClient, BlockingConsumer, BlockingPublisher
from protocols.flow.client.blocking_bulk import BlockingBulk, BlockingCursor, BlockingRangeReader
from protocols.flow.client.blocking_owner import BlockingReceiver
from protocols.flow.client.blocking_queues import BlockingQueues
from protocols.flow.client.blocking_subscriber import BlockingSubscriber
from protocols.flow.client.browser import Browser
from protocols.flow.client.bulk import Bulk, Column, Cursor, RangeReader
from protocols.flow.client.client import Client
from protocols.flow.client.consumer import Consumer
from protocols.flow.client.errors import (
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
from protocols.flow.client.events import (
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
from protocols.flow.client.messages import Delivery, Message, QueueMessage, Received
from protocols.flow.client.options import ClientOptions
from protocols.flow.client.publisher import Publisher
from protocols.flow.client.queues import Queue, Queues
from protocols.flow.client.subscriber import Subscriber
from protocols.flow.columns import Columns, ColumnWriter
from protocols.flow.cursor_frames import Position, Positions
from protocols.flow.partition_frames import PartitionState
from protocols.flow.rows_frames import RowsReceived
from protocols.flow.stage_frames import StagingAnswer

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
