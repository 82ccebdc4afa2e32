"""Operations on clients, their subscriptions and MQTT sessions, and on retained messages, of all brokers."""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from sluicegate.gateway.machine.operations.merging import (
    merged_client_subscriptions,
    merged_clients,
    merged_listeners,
    merged_sessions,
    merged_subscriptions,
)
from sluicegate.gateway.machine.operations.rules import BrokerAway, Rules
from sluicegate.gateway.views.clients.clients import ClientQuery, ClientsView
from sluicegate.gateway.views.clients.connections import (
    ClientDetailsView,
    ClientSubscriptionsView,
    SubscriptionsQuery,
)
from sluicegate.gateway.views.clients.messaging import OperatorMessage, PublishedView, WatchedMessageView
from sluicegate.gateway.views.clients.retained import RetainedContentView, RetainedMessagesView, RetainedQuery
from sluicegate.gateway.views.clients.sessions import MqttSessionsView, MqttSessionView, SessionQuery
from sluicegate.gateway.views.clients.subscriptions import SmrpQuery, SmrpSubscriptionsView
from sluicegate.gateway.views.clients.traces import TracedPacket
from sluicegate.gateway.views.errors import ClientNotFound, QueueNotFound, Refused
from sluicegate.gateway.views.node.listeners import ListenersView
from sluicegate.messaging.topics.syntax import is_queue_topic, queue_name_of


class ClientOperations(Rules):
    """Carries out operations on the clients of all brokers, in one message VPN."""

    async def list_clients(self, question: ClientQuery) -> ClientsView:
        """Return a page of the connected clients, by name."""
        whole = replace(question, after=0, limit=question.after + question.limit)
        return merged_clients([page for _, page in await self._all("list_clients", whole)], question)

    async def client_names(self) -> Sequence[str]:
        """Return the name of every connected client, once for each connection."""
        return await self._joined("client_names")

    async def show_client(self, name: str) -> ClientDetailsView:
        """Return one client with its connections, which may be at several brokers."""
        found: list[tuple[str, ClientDetailsView]] = await self._of_client("show_client", name)
        connections = [replace(each, broker=broker) for broker, view in found for each in view.connections]
        return replace(found[0][1], connections=tuple(connections))

    async def trace_client(self, name: str, payload_bytes: int) -> AsyncIterator[TracedPacket]:
        """Return what a client and its broker say to each other: the first broker that has it and can trace it."""
        problem: ClientNotFound | Refused | None = None
        for broker in self._running():
            try:
                return await self._stream(broker, "trace_client", name, payload_bytes)
            except (ClientNotFound, Refused) as error:
                problem = error if problem is None or _tells(error) > _tells(problem) else problem
        assert problem is not None, "a broker was asked"
        raise problem

    async def trace_username(self, username: str, payload_bytes: int) -> AsyncIterator[TracedPacket]:
        """Return what the clients of a username say to the brokers that run, and these to them."""
        return await self._streams("trace_username", username, payload_bytes)

    async def client_subscriptions(self, name: str, question: SubscriptionsQuery) -> ClientSubscriptionsView:
        """Return a page of the subscriptions of a client."""
        whole = replace(question, after=0, limit=question.after + question.limit)
        found: list[tuple[str, ClientSubscriptionsView]] = await self._of_client("client_subscriptions", name, whole)
        return merged_client_subscriptions([page for _, page in found], question)

    async def disconnect_client(self, name: str) -> None:
        """Disconnect a client, of whichever brokers it is one."""
        await self._of_client("disconnect_client", name)

    async def _of_client(self, operation: str, name: str, *given: Any) -> list[tuple[str, Any]]:
        """Carry out at all brokers of which it is a client; return their names and answers. Raises ClientNotFound."""
        problem: ClientNotFound | BrokerAway | None = None
        found: list[tuple[str, Any]] = []
        for broker in self._running():
            try:
                found.append((broker.name, await self._at(broker, operation, name, *given)))
            except ClientNotFound as error:
                problem = problem or error
            except BrokerAway as error:
                problem = error
        if not found and problem is not None:
            raise problem
        return found

    async def smrp_subscriptions(self, question: SmrpQuery) -> SmrpSubscriptionsView:
        """Return a page of the subscriptions of clients and queues, by destination."""
        here = tuple([broker.name for broker in self._machine.brokers])
        whole = replace(question, after=0, limit=question.after + question.limit, without=here)
        return merged_subscriptions([page for _, page in await self._all("smrp_subscriptions", whole)], question)

    async def list_sessions(self, question: SessionQuery) -> MqttSessionsView:
        """Return a page of the MQTT sessions, by client identifier."""
        whole = replace(question, after=0, limit=question.after + question.limit)
        return merged_sessions(
            [(broker.name, page) for broker, page in await self._all("list_sessions", whole)], question
        )

    async def show_session(self, client_id: str) -> MqttSessionView:
        """Return the MQTT session of a client."""
        broker, view = await self._where_it_is("show_session", client_id)
        found: MqttSessionView = replace(view, broker=broker.name)
        return found

    async def delete_session(self, client_id: str) -> None:
        """End an MQTT session."""
        await self._at_home("delete_session", client_id)

    async def list_retained(self, question: RetainedQuery) -> RetainedMessagesView:
        """Return a page of the retained messages, which all brokers have alike."""
        found: RetainedMessagesView = await self._first("list_retained", question)
        return found

    async def show_retained(self, topic: str) -> RetainedContentView:
        """Return the retained message of a topic."""
        found: RetainedContentView = await self._at_home("show_retained", topic)
        return found

    async def delete_retained(self, topic: str) -> None:
        """Delete the retained message of a topic: the brokers tell each other."""
        await self._at_home("delete_retained", topic)

    async def publish_message(self, message: OperatorMessage) -> PublishedView:
        """Publish a message at one broker, from which it reaches the queues and clients of all.

        A message to a queue is published at the broker that has it: the others hear of a new queue a moment later.
        """
        broker = self._running()[0]
        if is_queue_topic(message.topic):
            with suppress(QueueNotFound, Refused):  # of another machine, or of a broker that is away: a link takes it
                broker, _ = await self._where_it_is("show_queue_here", queue_name_of(message.topic))
        published: PublishedView = await self._at(broker, "publish_message", message)
        return published

    async def watch_topics(self, topic: str) -> AsyncIterator[WatchedMessageView]:
        """Return the messages that match a filter at one broker, which gets what is published at the others."""
        return await self._stream(self._running()[0], "watch_topics", topic)

    async def list_listeners(self) -> ListenersView:
        """Return the open ports for clients, which all brokers share."""
        return merged_listeners([view for _, view in await self._all("list_listeners")])


def _tells(problem: ClientNotFound | Refused) -> int:
    """Return how much a broker's problem says: least that it does not have the client, most why it cannot do it."""
    if isinstance(problem, ClientNotFound):
        return 0
    return 1 if isinstance(problem, BrokerAway) else 2
