"""The operations that the admin API and the command line may ask of a node. Tests have a node of their own, in memory.

All are asynchronous, because actors answer them; none may block the loop.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from sluicegate.gateway.observability.metrics.metric import Sample
from sluicegate.gateway.observability.statistics import ReaderBatch
from sluicegate.gateway.views.bridges import BridgeView
from sluicegate.gateway.views.clients.accounts import (
    AclException,
    PasswordHashes,
    ProfileKind,
    ProfilesView,
    ProfileView,
    UserView,
)
from sluicegate.gateway.views.clients.clients import ClientQuery, ClientsView
from sluicegate.gateway.views.clients.connections import (
    ClientDetailsView,
    ClientSubscriptionsView,
    SubscriptionsQuery,
)
from sluicegate.gateway.views.clients.message_vpns import MessageVpnsView, MessageVpnView
from sluicegate.gateway.views.clients.messaging import OperatorMessage, PublishedView, WatchedMessageView
from sluicegate.gateway.views.clients.retained import RetainedContentView, RetainedMessagesView, RetainedQuery
from sluicegate.gateway.views.clients.sessions import MqttSessionsView, MqttSessionView, SessionQuery
from sluicegate.gateway.views.clients.subscriptions import SmrpQuery, SmrpSubscriptionsView
from sluicegate.gateway.views.clients.traces import TracedPacket
from sluicegate.gateway.views.cluster import ClusterBrokersView, ClusterView, ReplicationView
from sluicegate.gateway.views.errors import TemplateNotFound
from sluicegate.gateway.views.links import LinksView, LinkView
from sluicegate.gateway.views.node.backups import BackupView
from sluicegate.gateway.views.node.figures import NodeFigures, QueuesFigures, QueuesQuery
from sluicegate.gateway.views.node.history import HistoryQuery, HistoryView
from sluicegate.gateway.views.node.listeners import ListenersView
from sluicegate.gateway.views.node.runtime import ActorView, EventView, Health, ReloadView
from sluicegate.gateway.views.node.spool import SpoolView
from sluicegate.gateway.views.queues.cursors import CursorView
from sluicegate.gateway.views.queues.explanations import ExampleMessage, KeyExplanation, PublishExplanation
from sluicegate.gateway.views.queues.messages import MessageSearchView, MessageView, RedriveView, TakenView
from sluicegate.gateway.views.queues.queues import DurableSelectorView, NetworkQueueView, QueueMoveView, QueueView
from sluicegate.gateway.views.queues.selections import SCAN_DEFAULT, START, MessageSelection, ReplayStart
from sluicegate.gateway.views.rest import RestDeliveryPointView
from sluicegate.messaging.queues.message_filter import MessageId
from sluicegate.messaging.queues.template import QueueTemplate


class NodeInterface(Protocol):
    """A running node, as operators see it. Values are checked before they come here; the node may still refuse."""

    def in_vpn(self, name: str) -> "NodeInterface":
        """Return the operations on another message VPN. Raises VpnNotFound."""

    async def show_cluster(self) -> ClusterView:
        """Return the replicas of this broker. Raises Refused if it has none."""

    async def list_cluster_brokers(self) -> ClusterBrokersView:
        """Return all brokers of the cluster. Raises Refused."""

    async def hand_over(self, replica: str, broker: str) -> None:
        """Have a standby own a broker: the one of that name, for an empty one any that is ready. Raises Refused.

        `broker`: one of the cluster; empty: this one.
        """

    async def add_replica(self, name: str, before: str) -> None:
        """Add a replica to those of this broker, before another one or behind all; or move it there. Raises Refused."""

    async def remove_replica(self, name: str) -> None:
        """Take a replica from those of this broker. Raises Refused."""

    async def show_replication(self) -> ReplicationView:
        """Return the two sites of this broker. Raises Refused if it has one."""

    async def promote_site(self, *, accept_loss: bool) -> None:
        """Have this site's replicas own the broker; `accept_loss`: whatever of its log is not here. Raises Refused."""

    async def demote_site(self) -> None:
        """Have the owner give the broker up to the other site. Raises Refused."""

    async def list_message_vpns(self) -> MessageVpnsView:
        """Return every message VPN, by name."""

    async def show_message_vpn(self, name: str) -> MessageVpnView:
        """Return one message VPN. Raises VpnNotFound."""

    async def create_message_vpn(self, asked: Mapping[str, object]) -> MessageVpnView:
        """Create a message VPN. Raises VpnAlreadyExists, QueueInvalid, Refused, StoreRefused."""

    async def update_message_vpn(self, name: str, changes: Mapping[str, object]) -> MessageVpnView:
        """Change settings of a message VPN that operators created. Shutting it down disconnects its clients.

        Raises VpnNotFound, QueueInvalid, Refused, StoreRefused.
        """

    async def delete_message_vpn(self, name: str, *, force: bool) -> None:
        """Delete a message VPN that is not configured, with its users, profiles and templates.

        With `force`, its clients are disconnected, and its queues, sessions and messages are deleted as well; without,
        it must have none of these. Raises VpnNotFound, Refused, StoreRefused.
        """

    async def create_queue(self, asked: Mapping[str, object], *, durable: bool | None = None) -> QueueView:
        """Create a queue. `asked` has its name, attributes and subscriptions; a template gives the others.

        If `durable` is None the template decides, and without a template the queue is durable. A temporary queue
        without a name gets one. Raises QueueAlreadyExists, QueueInvalid, Refused.
        """

    async def update_queue(self, name: str, changes: Mapping[str, object]) -> QueueView:
        """Change attributes or subscriptions. Raises QueueNotFound, QueueInvalid, Refused. All or nothing."""

    async def add_subscription(self, queue: str, topic: str) -> None:
        """Add a topic to a queue. Raises QueueNotFound, SubscriptionAlreadyExists, QueueInvalid, Refused."""

    async def remove_subscription(self, queue: str, topic: str) -> None:
        """Remove a topic from a queue. Raises QueueNotFound, SubscriptionNotFound, Refused."""

    async def delete_queue(self, name: str) -> None:
        """Delete a queue with all it holds. Raises QueueNotFound, Refused."""

    async def list_queues(self, *, of_client: str | None = None) -> Sequence[QueueView]:
        """Return every queue by name, or those that a client of this name consumes or browses."""

    async def list_network_queues(self) -> Sequence[NetworkQueueView]:
        """Return the queues of neighbor brokers, by name, as this broker knows them."""

    async def queue_names(self) -> Sequence[str]:
        """Return the names of all queues, in no order. It costs far less than their views."""

    async def show_queue(self, name: str) -> QueueView:
        """Return one queue with its partitions and flows. Raises QueueNotFound."""

    async def purge_queue(self, name: str) -> int:
        """Remove waiting messages, not delivered ones; return how many. Raises QueueNotFound, Refused."""

    async def browse_queue(
        self, name: str, *, partition: int | None = None, after: int = 0, limit: int = 100, selector: str = ""
    ) -> Sequence[MessageView]:
        """Return messages oldest first, sequences above `after`, without removing any.

        Without `partition`, all partitions are read, in the order of their numbers, `after` applied to each. A
        `selector` selects among the messages. Raises QueueNotFound, QueueInvalid (no such partition, bad selector).
        """

    async def search_queue(
        self,
        name: str,
        selection: MessageSelection,
        *,
        partition: int | None = None,
        position: MessageId = START,
        limit: int = 100,
        scan: int = SCAN_DEFAULT,
    ) -> MessageSearchView:
        """Return at most `limit` messages behind a position that a selection matches, without removing any.

        At most `scan` messages are examined; the answer says where the next request goes on. Raises QueueNotFound,
        QueueInvalid (no such partition, bad selector), Refused.
        """

    async def follow_queue(
        self, name: str, *, partition: int | None = None, after: int = 0, selector: str = ""
    ) -> AsyncIterator[MessageView]:
        """Return messages oldest first, sequences above `after`, and then new ones as they arrive; removes none.

        It ends when the queue is deleted or the node stops. A `selector` selects among the messages. Raises
        QueueNotFound, QueueInvalid (no such partition, bad selector).
        """

    async def list_templates(self) -> Sequence[QueueTemplate]:
        """Return every queue template by name."""

    async def put_template(self, template: QueueTemplate, *, must_be_new: bool) -> None:
        """Store a queue template, replacing one of the same name.

        Raises TemplateAlreadyExists, QueueInvalid, Refused.
        """

    async def update_template(self, name: str, changes: Mapping[str, object]) -> QueueTemplate:
        """Change some fields of a queue template; None removes an attribute.

        Raises TemplateNotFound, QueueInvalid, Refused.
        """

    async def delete_template(self, name: str) -> None:
        """Delete a queue template; queues created from it stay as they are. Raises TemplateNotFound."""

    async def take_messages(self, name: str, action: str, selection: MessageSelection) -> TakenView:
        """Delete, move, copy or re-drive messages (`action`). Raises QueueNotFound, QueueInvalid."""

    async def republish_messages(self, name: str, ids: Sequence[MessageId], *, remove: bool) -> TakenView:
        """Publish messages again, to where they were published. Raises QueueNotFound.

        With `remove`, each is deleted when its copy is safe; it stays if nobody got the copy.
        """

    async def start_redrive(self, name: str, selection: MessageSelection) -> RedriveView:
        """Start a re-drive of dead messages. Raises QueueNotFound, QueueInvalid, Refused while one is running."""

    async def show_redrive(self, name: str) -> RedriveView:
        """Return the progress of the latest re-drive. Raises QueueNotFound, Refused when there was none."""

    async def cancel_redrive(self, name: str) -> RedriveView:
        """Cancel the re-drive; moved messages stay moved. Raises QueueNotFound, Refused when there was none."""

    async def replay_queue(self, name: str, start: ReplayStart, *, end: int, partition: int | None) -> int:
        """Replay kept messages from `start` up to the sequence `end` (exclusive); return how many.

        Raises QueueNotFound, QueueInvalid (no such partition), Refused (nothing is kept).
        """

    async def move_queue(self, name: str, to: str, *, drop_kept: bool = False) -> None:
        """Begin to move a queue to another broker of the network. Raises QueueNotFound, Refused.

        With `drop_kept`, messages that are kept for readers, and durable cursors, are deleted.
        """

    async def cancel_move(self, name: str) -> None:
        """End a move, if nothing of the queue is at the other broker yet. Raises QueueNotFound, Refused."""

    async def end_move(self, name: str, without: str) -> None:
        """End a move to or from a broker that does not come back. Raises QueueNotFound, Refused.

        The queue is at this broker then, with what this broker has of it.
        """

    async def list_moves(self) -> Sequence[QueueMoveView]:
        """Return the queues that are being moved to other brokers, by name."""

    async def list_cursors(self, name: str) -> Sequence[CursorView]:
        """Return a queue's durable cursors by name. Raises QueueNotFound."""

    async def delete_cursor(self, name: str, cursor: str) -> None:
        """Delete a durable cursor, and release the messages kept for it. Raises CursorNotFound, Refused."""

    async def add_batch(self, name: str, cursor: str, batch: ReaderBatch) -> None:
        """Count a batch that the reader of a durable cursor reports. Raises CursorNotFound, Refused."""

    async def list_selectors(self) -> Sequence[DurableSelectorView]:
        """Return the durable selectors of selector-aware virtual topics, by queue and subscriber."""

    async def put_selector(self, queue: str, subscriber: str, selectors: Sequence[str]) -> None:
        """Set the selectors of a subscriber. Raises QueueNotFound, QueueInvalid, Refused: they would select nothing."""

    async def delete_selector(self, queue: str, subscriber: str) -> None:
        """Delete the selectors of a subscriber. Raises SelectorNotFound."""

    async def reload(self) -> ReloadView:
        """Reload the configuration. Raises Refused if it is wrong; then nothing has changed."""

    async def node_figures(self) -> NodeFigures:
        """Return the node's totals."""

    async def queues_figures(self, question: QueuesQuery) -> QueuesFigures:
        """Return a page of the figures of queues, by name."""

    async def node_history(self, question: HistoryQuery) -> HistoryView:
        """Return the node's figures of the last hour."""

    async def vpn_history(self, question: HistoryQuery) -> HistoryView:
        """Return the figures of the message VPN."""

    async def queue_history(self, name: str, question: HistoryQuery, *, partition: int | None = None) -> HistoryView:
        """Return the figures of a queue or a partition of it. Raises QueueNotFound, QueueInvalid."""

    async def show_spool(self) -> SpoolView:
        """Return the spool: its incarnation, and how full it is."""

    async def start_backup(self, name: str) -> BackupView:
        """Start a backup of the spool; without a name it is named by the time. Raises QueueInvalid, Refused."""

    async def show_backup(self) -> BackupView:
        """Return the progress of the latest backup. Raises Refused when there was none."""

    async def cancel_backup(self) -> BackupView:
        """Cancel the backup that is running, and remove its files. Raises Refused when there was none."""

    async def list_clients(self, question: ClientQuery) -> ClientsView:
        """Return a page of the connected clients, by name."""

    async def client_names(self) -> Sequence[str]:
        """Return the name of every connected client, once for each connection. It costs far less than their views."""

    async def show_client(self, name: str) -> ClientDetailsView:
        """Return one connected client with all of its connections. Raises ClientNotFound."""

    async def client_subscriptions(self, name: str, question: SubscriptionsQuery) -> ClientSubscriptionsView:
        """Return a page of the subscriptions of a client, by subscription.

        Raises ClientNotFound for one that is not connected and has no MQTT session.
        """

    async def trace_client(self, name: str, payload_bytes: int) -> AsyncIterator[TracedPacket]:
        """Return what a client and the node say to each other from now on, also on connections that it makes later.

        `payload_bytes` of each payload are shown, passwords never. Raises ClientNotFound, and Refused for a broker at
        a link, which cannot be traced.
        """

    async def trace_username(self, username: str, payload_bytes: int) -> AsyncIterator[TracedPacket]:
        """Return what all clients that are admitted under a username and the node say to each other from now on.

        They may be of any protocol, now connected or later; with an empty name, those that were admitted without one.
        """

    async def list_sessions(self, question: SessionQuery) -> MqttSessionsView:
        """Return a page of the MQTT sessions, by client identifier."""

    async def show_session(self, client_id: str) -> MqttSessionView:
        """Return the MQTT session of a client, connected or not. Raises SessionNotFound."""

    async def delete_session(self, client_id: str) -> None:
        """End an MQTT session as its expiry would, and the connection of its client. Raises SessionNotFound, Refused.

        Its subscriptions and the messages that wait for it are gone, and its will is published.
        """

    async def list_retained(self, question: RetainedQuery) -> RetainedMessagesView:
        """Return a page of the retained messages, by topic. Raises QueueInvalid for a wrong topic filter."""

    async def show_retained(self, topic: str) -> RetainedContentView:
        """Return the retained message of a topic, with its payload. Raises RetainedMessageNotFound."""

    async def delete_retained(self, topic: str) -> None:
        """Delete the retained message of a topic, at neighbor brokers as well. Raises RetainedMessageNotFound, Refused.

        It is deleted on the disk when this returns.
        """

    async def publish_message(self, message: OperatorMessage) -> PublishedView:
        """Publish a message as often as it says; return when all are safe, or one was refused."""

    async def watch_topics(self, topic: str) -> AsyncIterator[WatchedMessageView]:
        """Return the messages that match a topic filter, from now on, until the node stops.

        What comes faster than it is read is counted and dropped. Raises QueueInvalid for a wrong filter, and Refused
        when too many watch.
        """

    async def list_listeners(self) -> ListenersView:
        """Return the open ports for clients, by name."""

    async def disconnect_client(self, name: str) -> None:
        """Disconnect a client from all protocols; it may connect again. Raises ClientNotFound."""

    async def actor_tree(self) -> Sequence[ActorView]:
        """Return the actors without a supervisor, each with those that it supervises."""

    async def events(self, *, after: int, limit: int) -> Sequence[EventView]:
        """Return the latest `limit` events with numbers above `after`, oldest first."""

    async def list_rest_delivery_points(self) -> Sequence[RestDeliveryPointView]:
        """Return every delivery point by name."""

    async def show_rest_delivery_point(self, name: str) -> RestDeliveryPointView:
        """Return one delivery point. Raises RestDeliveryPointNotFound."""

    async def create_rest_delivery_point(self, asked: Mapping[str, object]) -> RestDeliveryPointView:
        """Create and start a delivery point. Raises RestDeliveryPointAlreadyExists, QueueInvalid, Refused."""

    async def update_rest_delivery_point(self, name: str, changes: Mapping[str, object]) -> RestDeliveryPointView:
        """Change a delivery point that operators created. Raises RestDeliveryPointNotFound, QueueInvalid, Refused."""

    async def delete_rest_delivery_point(self, name: str) -> None:
        """Delete a delivery point that operators created. Raises RestDeliveryPointNotFound, Refused."""

    async def list_bridges(self) -> Sequence[BridgeView]:
        """Return every bridge by name."""

    async def show_bridge(self, name: str) -> BridgeView:
        """Return one bridge. Raises BridgeNotFound."""

    async def create_bridge(self, asked: Mapping[str, object]) -> BridgeView:
        """Create and start a bridge. Raises BridgeAlreadyExists, QueueInvalid, Refused."""

    async def update_bridge(self, name: str, changes: Mapping[str, object]) -> BridgeView:
        """Change a bridge that operators created. Raises BridgeNotFound, QueueInvalid, Refused."""

    async def delete_bridge(self, name: str) -> None:
        """Delete a bridge that operators created. Raises BridgeNotFound, Refused."""

    async def pause_bridge(self, name: str) -> BridgeView:
        """Disconnect a bridge until it is resumed, or the node restarts. Raises BridgeNotFound, Refused."""

    async def resume_bridge(self, name: str) -> BridgeView:
        """Connect a bridge that is paused, waits, or has given up. Raises BridgeNotFound, Refused."""

    async def list_users(self) -> Sequence[UserView]:
        """Return every user by name."""

    async def show_user(self, name: str) -> UserView:
        """Return one user. Raises UserNotFound."""

    async def password_hashes(self) -> Mapping[str, PasswordHashes]:
        """Return what is stored of the passwords of the users that operators created, by name."""

    async def create_user(self, asked: Mapping[str, object]) -> UserView:
        """Create a user; the password is in plain. Raises UserAlreadyExists, QueueInvalid, Refused."""

    async def update_user(self, name: str, changes: Mapping[str, object]) -> UserView:
        """Change a user that operators created. Shutting it down disconnects its clients.

        Raises UserNotFound, QueueInvalid, Refused.
        """

    async def delete_user(self, name: str) -> None:
        """Delete a user that operators created, and disconnect its clients. Raises UserNotFound, Refused."""

    async def list_profiles(self) -> ProfilesView:
        """Return the client and ACL profiles that users may have, by name."""

    async def show_profile(self, kind: ProfileKind, name: str) -> ProfileView:
        """Return one profile. Raises NotFound."""

    async def create_profile(self, kind: ProfileKind, asked: Mapping[str, object]) -> ProfileView:
        """Create a profile. Raises AlreadyExists, QueueInvalid, Refused."""

    async def update_profile(self, kind: ProfileKind, name: str, changes: Mapping[str, object]) -> ProfileView:
        """Change a profile that operators created, for connected clients as well.

        Raises NotFound, QueueInvalid, Refused.
        """

    async def delete_profile(self, kind: ProfileKind, name: str) -> None:
        """Delete a profile that operators created and no user has. Raises NotFound, Refused."""

    async def add_acl_exception(self, profile: str, field: str, exception: AclException) -> None:
        """Add to a list of an ACL profile. Raises NotFound, AclExceptionAlreadyExists, QueueInvalid, Refused."""

    async def remove_acl_exception(self, profile: str, field: str, key: str) -> None:
        """Remove a network, or a topic or share name as `SYNTAX,TOPIC`, from a list of an ACL profile.

        Raises NotFound, Refused.
        """

    async def list_links(self) -> LinksView:
        """Return the broker's links to neighbors, by name."""

    async def show_link(self, name: str) -> LinkView:
        """Return one link. Raises LinkNotFound."""

    async def create_link(self, asked: Mapping[str, object]) -> LinkView:
        """Create a link. Raises LinkAlreadyExists, QueueInvalid, Refused."""

    async def update_link(self, name: str, changes: Mapping[str, object]) -> LinkView:
        """Change a link that an operator created; it begins anew. Raises LinkNotFound, QueueInvalid, Refused."""

    async def delete_link(self, name: str) -> None:
        """Delete a link that an operator created. What is kept for the neighbor stays. Raises LinkNotFound, Refused."""

    async def forget_neighbor(self, name: str, *, vpn: str = "", force: bool) -> None:
        """Delete what is kept for a neighbor broker that has no link: its queues, what it wants, what is stored of it.

        With `vpn`, in that message VPN, which its link must not have. Raises LinkNotFound and VpnNotFound; Refused
        while there is an enabled link, and without `force` while messages wait for it.
        """

    async def smrp_subscriptions(self, question: SmrpQuery) -> SmrpSubscriptionsView:
        """Return a page of the subscriptions of clients and queues, by destination."""

    async def explain_publish(self, message: ExampleMessage, *, queue: str | None) -> PublishExplanation:
        """Explain the routing of a message to its topic, or to a queue. Raises QueueNotFound."""

    async def explain_key(self, queue: str, key: str) -> KeyExplanation:
        """Explain the state of a partition key in a queue. Raises QueueNotFound."""

    async def metrics_snapshot(self) -> Sequence[Sample]:
        """Return the samples of `gateway.observability.metrics.table.METRICS` that have a value."""

    async def health(self) -> Health:
        """Return whether the node works and accepts traffic."""


async def template_of(node: NodeInterface, name: str) -> QueueTemplate:
    """Return one queue template. Raises TemplateNotFound."""
    for template in await node.list_templates():
        if template.name == name:
            return template
    raise TemplateNotFound(name)
