"""Clients, MQTT sessions and retained messages of a node in memory: what a test sets."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

from sluicegate.gateway.operations.clients.retained import topic_test
from sluicegate.gateway.operations.clients.watching import watched_filter
from sluicegate.gateway.views.clients.clients import ClientQuery, ClientsView, ClientView
from sluicegate.gateway.views.clients.connections import (
    ClientDetailsView,
    ClientSubscriptionsView,
    ClientSubscriptionView,
    ConnectionView,
    MqttConnectionView,
    SubscriptionsQuery,
)
from sluicegate.gateway.views.clients.messaging import OperatorMessage, PublishedView, WatchedMessageView
from sluicegate.gateway.views.clients.retained import (
    RetainedContentView,
    RetainedMessagesView,
    RetainedQuery,
)
from sluicegate.gateway.views.clients.sessions import MqttSessionsView, MqttSessionView, SessionQuery
from sluicegate.gateway.views.clients.traces import TracedPacket
from sluicegate.gateway.views.errors import ClientNotFound, RetainedMessageNotFound, SessionNotFound
from sluicegate.gateway.views.node.listeners import ListenersView, ListenerView
from sluicegate.gateway.views.text import name_pattern


@dataclass
class MemoryClients:
    """The part of a node that is about clients."""

    clients: Sequence[ClientView] = ()
    client_topics: dict[str, Sequence[ClientSubscriptionView]] = field(default_factory=dict)  # by client
    sessions: Sequence[MqttSessionView] = ()
    retained: dict[str, RetainedContentView] = field(default_factory=dict)  # by topic
    listeners: Sequence[ListenerView] = ()
    packets: Sequence[TracedPacket] = ()  # of whichever client is traced
    traced_username: str | None = None  # that was traced last
    published: list[OperatorMessage] = field(default_factory=list)
    watched: Sequence[WatchedMessageView] = ()  # what comes on any topic

    async def publish_message(self, message: OperatorMessage) -> PublishedView:
        self.published.append(message)
        return PublishedView(published_count=message.count, unmatched_count=0, refused_count=0, refusal="")

    async def watch_topics(self, topic: str) -> AsyncIterator[WatchedMessageView]:
        watched_filter(topic)

        async def one_by_one() -> AsyncIterator[WatchedMessageView]:
            for message in self.watched:
                yield message

        return one_by_one()

    async def list_clients(self, question: ClientQuery) -> ClientsView:
        wanted, names = name_pattern(question.client_name), question.names
        found = [each for each in self.clients if wanted.fullmatch(each.name) and (not names or each.name in names)]
        return ClientsView(
            total_count=len(found), clients=tuple(found[question.after : question.after + question.limit])
        )

    async def client_names(self) -> Sequence[str]:
        return [each.name for each in self.clients]

    async def disconnect_client(self, name: str) -> None:
        others = [each for each in self.clients if each.name != name]
        if len(others) == len(self.clients):
            raise ClientNotFound(name)
        self.clients = others

    async def show_client(self, name: str) -> ClientDetailsView:
        connections = tuple(connection_view(each) for each in self.clients if each.name == name)
        if not connections:
            raise ClientNotFound(name)
        return ClientDetailsView(name=name, vpn_name="default", connections=connections)

    async def trace_client(self, name: str, payload_bytes: int) -> AsyncIterator[TracedPacket]:
        await self.show_client(name)
        return self._traced(payload_bytes)

    async def trace_username(self, username: str, payload_bytes: int) -> AsyncIterator[TracedPacket]:
        self.traced_username = username
        return self._traced(payload_bytes)

    def _traced(self, payload_bytes: int) -> AsyncIterator[TracedPacket]:
        packets = self.packets

        async def one_by_one() -> AsyncIterator[TracedPacket]:
            for packet in packets:
                yield packet if payload_bytes else replace(packet, payload=None, payload_encoding=None)

        return one_by_one()

    async def client_subscriptions(self, name: str, question: SubscriptionsQuery) -> ClientSubscriptionsView:
        if name not in self.client_topics:
            raise ClientNotFound(name)
        wanted = name_pattern(question.topic_str)
        found = [each for each in self.client_topics[name] if wanted.fullmatch(each.subscription)]
        page = tuple(found[question.after : question.after + question.limit])
        return ClientSubscriptionsView(client=name, total_count=len(found), subscriptions=page)

    async def list_sessions(self, question: SessionQuery) -> MqttSessionsView:
        wanted = name_pattern(question.client_id)
        found = [each for each in self.sessions if wanted.fullmatch(each.client_id)]
        found = [each for each in found if question.connected in (None, each.connected)]
        page = tuple(found[question.after : question.after + question.limit])
        return MqttSessionsView(total_count=len(found), sessions=page)

    async def show_session(self, client_id: str) -> MqttSessionView:
        for each in self.sessions:
            if each.client_id == client_id:
                return each
        raise SessionNotFound(client_id)

    async def delete_session(self, client_id: str) -> None:
        await self.show_session(client_id)
        self.sessions = [each for each in self.sessions if each.client_id != client_id]

    async def list_retained(self, question: RetainedQuery) -> RetainedMessagesView:
        wanted = topic_test(question.topic)
        found = [view.message for topic, view in sorted(self.retained.items()) if wanted(topic)]
        page = tuple(found[question.after : question.after + question.limit])
        return RetainedMessagesView(total_count=len(found), messages=page)

    async def show_retained(self, topic: str) -> RetainedContentView:
        if topic not in self.retained:
            raise RetainedMessageNotFound(topic)
        return self.retained[topic]

    async def delete_retained(self, topic: str) -> None:
        await self.show_retained(topic)
        del self.retained[topic]

    async def list_listeners(self) -> ListenersView:
        return ListenersView(listeners=tuple(self.listeners))


def connection_view(client: ClientView) -> ConnectionView:
    """The connection of a client of MQTT 5."""
    return ConnectionView(
        client=client,
        protocol_version="5.0",
        listener="mqtt",
        tls=False,
        websocket=None,
        certificate_name=None,
        connected_ms=1_700_000_000_000,
        is_slow=False,
        unread_bytes=0,
        dropped_count=0,
        flows=(),
        mqtt=MqttConnectionView(
            clean_start=True,
            keep_alive_s=60,
            session_expiry_s=None,
            receive_maximum=20,
            maximum_packet_size=None,
            topic_alias_maximum=10,
            reason_strings=True,
            will=None,
        ),
    )


def client_view(name: str, protocol: str = "mqtt") -> ClientView:
    """A client of the user `ada`."""
    return ClientView(
        name=name,
        client_username="ada",
        protocol=protocol,
        address="127.0.0.1:5",
        client_profile="default",
        acl_profile="default",
        connected_s=3,
        flows_count=1,
        unacked_count=2,
        messages_received=4,
        messages_sent=5,
        bytes_received=600,
        bytes_sent=700,
        is_paused=False,
    )


ANN = ClientView(
    name="sensor-1",
    client_username="ann",
    protocol="mqtt",
    address="10.0.0.7:50123",
    client_profile="default",
    acl_profile="devices",
    connected_s=90_061,
    flows_count=2,
    unacked_count=17,
    messages_received=1_234,
    messages_sent=20,
    bytes_received=345_678,
    bytes_sent=2_000,
    is_paused=True,
)
