"""The client library of the flow protocol, by the name under which programs import it.

Names only, and all of them: what stands here is the library's public face, and its one address. The code lives in
`protocols.flow.client`; `docs/flow-client.md` is for its users.
"""

from messaging.headers import UserPropertyValue
from protocols.flow.client.blocking import BlockingClient, BlockingConsumer, BlockingPublisher
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
    MessageTooLarge,
    PublisherEnded,
    PublisherForgotten,
    PublishRefused,
    RequestRefused,
)
from protocols.flow.client.events import (
    ClientEvent,
    Connected,
    Disconnected,
    FlowActivated,
    FlowDeactivated,
    FlowInterrupted,
    SettledTooLate,
)
from protocols.flow.client.messages import Delivery, Message
from protocols.flow.client.options import ClientOptions
from protocols.flow.client.publisher import Publisher

__all__ = [
    "AuthenticationRefused",
    "BlockingClient",
    "BlockingConsumer",
    "BlockingPublisher",
    "Client",
    "ClientClosed",
    "ClientEvent",
    "ClientOptions",
    "CodedError",
    "ConnectFailed",
    "Connected",
    "ConnectionBroken",
    "Consumer",
    "ConsumerEnded",
    "Delivery",
    "Disconnected",
    "FlowActivated",
    "FlowClientError",
    "FlowDeactivated",
    "FlowInterrupted",
    "Message",
    "MessageTooLarge",
    "PublishRefused",
    "Publisher",
    "PublisherEnded",
    "PublisherForgotten",
    "RequestRefused",
    "SettledTooLate",
    "UserPropertyValue",
]
