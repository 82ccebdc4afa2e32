"""Operations on clients, their subscriptions and MQTT sessions, and on retained messages, of one message VPN."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from sluicegate.actors.messages.data import StoredAnswer, StoreRefused
from sluicegate.actors.messages.directory import SHARED, ListQueues, LocalQueue, UpdateRefused
from sluicegate.actors.publishing.retain import retain
from sluicegate.gateway.node.node import Node
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.operations.clients.clients import client_views, flows_of, wanted_clients
from sluicegate.gateway.operations.clients.connections import connection_views
from sluicegate.gateway.operations.clients.retained import (
    check_is_clients,
    content_view,
    deletion,
    page_of,
    topic_test,
)
from sluicegate.gateway.operations.clients.sessions import session_view, wanted_sessions
from sluicegate.gateway.operations.clients.subscriptions import (
    answer,
    client_subscription,
    options_in,
    rows_of,
    rows_of_client,
    selectors_in,
)
from sluicegate.gateway.operations.clients.watching import watch_topics, watched_filter
from sluicegate.gateway.operations.publishing import publish_message
from sluicegate.gateway.operations.queues.asking import overviews_of
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
from sluicegate.gateway.views.errors import ClientNotFound, Refused, RetainedMessageNotFound, SessionNotFound
from sluicegate.messaging.queues.definition import is_named
from sluicegate.protocols.flow.connection import FlowConnection
from sluicegate.protocols.mqtt.session.messages import EndSession
from sluicegate.protocols.mqtt.session.session import Session

SESSION_ENDED = "an operator ended the session"


class ClientOperations:
    """Carries out operations on the clients of one message VPN."""

    def __init__(self, node: Node, vpn: MessageVpn) -> None:
        self._node = node
        self._vpn = vpn

    async def list_clients(self, question: ClientQuery) -> ClientsView:
        """Return a page of the connected clients."""
        found = wanted_clients(self._node, self._vpn.name, question)
        page = found[question.after : question.after + question.limit]
        theirs = await flows_of(self._node, self._vpn, {each.rights.client for each in page})
        views = client_views(page, theirs, now_ms=self._node.services.clock.now_ms())
        return ClientsView(total_count=len(found), clients=views)

    async def _queues_of(self, names: set[str]) -> list[LocalQueue]:
        """Return the queues that clients of these names consume or browse."""
        handles: list[LocalQueue] = await self._vpn.queues.ask(ListQueues())
        return [each for each in handles if names & each.state.clients()]

    async def client_names(self) -> Sequence[str]:
        """Return the name of every connected client, once for each of its connections."""
        return [each.rights.client for each in wanted_clients(self._node, self._vpn.name, ClientQuery())]

    async def show_client(self, name: str) -> ClientDetailsView:
        """Return one client with its connections."""
        flows = await flows_of(self._node, self._vpn, {name})
        found = wanted_clients(self._node, self._vpn.name, ClientQuery(names=(name,)))
        if not found:
            raise ClientNotFound(name)
        clock = self._node.services.clock
        connections = connection_views(found, flows, now_ms=clock.now_ms(), wall_ms=clock.wall_ms())
        return ClientDetailsView(name=name, vpn_name=self._vpn.name, connections=connections)

    async def disconnect_client(self, name: str) -> None:
        """Disconnect a client."""
        if not self._node.disconnect(self._vpn, name):
            raise ClientNotFound(name)

    async def client_subscriptions(self, name: str, question: SubscriptionsQuery) -> ClientSubscriptionsView:
        """Return a page of the subscriptions of a client."""
        session = self._vpn.session_directory().session_of(name)
        connected = wanted_clients(self._node, self._vpn.name, ClientQuery(names=(name,)))
        if session is None and not connected:
            raise ClientNotFound(name)
        handles = await self._queues_of({name})
        queues = [each.target for each in handles if not (is_named(each.name) or each.kind == SHARED)]
        flow_connections = [each.connection for each in connected if isinstance(each.connection, FlowConnection)]
        made = [one for each in flow_connections for one in each.subscriptions.by_text.values()]
        count, rows = rows_of_client(session, queues, made, question)
        options, selectors = options_in(session), selectors_in(made)
        found = tuple(client_subscription(row, options, selectors) for row in rows)
        return ClientSubscriptionsView(client=name, total_count=count, subscriptions=found)

    async def smrp_subscriptions(self, question: SmrpQuery) -> SmrpSubscriptionsView:
        """Return a page of subscriptions."""
        vpn = self._vpn.name
        rows, interests = rows_of(self._vpn.space, question, vpn), self._vpn.space.interests
        exported = interests is not None and interests.has_exports
        return await asyncio.to_thread(lambda: answer(rows, question, vpn, exported=exported))

    # --- MQTT sessions ---

    async def list_sessions(self, question: SessionQuery) -> MqttSessionsView:
        """Return a page of the MQTT sessions."""
        found = wanted_sessions(self._vpn, question)
        page = found[question.after : question.after + question.limit]
        return MqttSessionsView(total_count=len(found), sessions=tuple(await self._session_views(page)))

    async def show_session(self, client_id: str) -> MqttSessionView:
        """Return one MQTT session."""
        session = self._vpn.session_directory().session_of(client_id)
        if session is None:
            raise SessionNotFound(client_id)
        return (await self._session_views([session]))[0]

    async def _session_views(self, sessions: list[Session]) -> list[MqttSessionView]:
        queues = await overviews_of([each.queue for each in sessions if each.queue is not None])
        by_name = {handle.name: overview for handle, overview in queues}
        return [session_view(each, by_name.get(each.queue_name())) for each in sessions]

    async def delete_session(self, client_id: str) -> None:
        """End an MQTT session."""
        try:
            if not await self._vpn.sessions.ask(EndSession(client_id, SESSION_ENDED)):
                raise SessionNotFound(client_id)
        except UpdateRefused as refusal:
            raise Refused(str(refusal)) from None

    # --- messages on topics ---

    async def publish_message(self, message: OperatorMessage) -> PublishedView:
        """Publish a message."""
        return await publish_message(self._node, self._vpn, message)

    async def watch_topics(self, topic: str) -> AsyncIterator[WatchedMessageView]:
        """Return the messages that match a filter, from now on."""
        return await watch_topics(self._node, self._vpn, watched_filter(topic))

    # --- retained messages ---

    async def list_retained(self, question: RetainedQuery) -> RetainedMessagesView:
        """Return a page of the retained messages."""
        wanted = topic_test(question.topic)
        found = self._vpn.space.retained.messages()
        return await asyncio.to_thread(page_of, found, question, wanted)

    async def show_retained(self, topic: str) -> RetainedContentView:
        """Return the retained message of a topic."""
        message = self._vpn.space.retained.get(topic)
        if message is None:
            raise RetainedMessageNotFound(topic)
        return content_view(message)

    async def delete_retained(self, topic: str) -> None:
        """Delete what is retained on a topic."""
        check_is_clients(topic)
        if self._vpn.space.retained.get(topic) is None:
            raise RetainedMessageNotFound(topic)
        services, stored = self._node.services, StoredAnswer(None)
        batch = deletion(topic, services.clock.wall_ms())
        retain(batch, 1, space=self._vpn.space, spool=services.spool.inbox, address=stored)
        try:
            await stored.future
        except StoreRefused as refusal:
            raise Refused(str(refusal)) from None
