"""Connected clients: selected by name, and described as operators see them."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from sluicegate.actors.messages.directory import ListQueues, LocalQueue
from sluicegate.actors.messages.queues import FlowOverview
from sluicegate.gateway.node.node import Node
from sluicegate.gateway.node.servers.server import ClientConnection
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.operations.queues.asking import overviews_of
from sluicegate.gateway.views.clients.clients import ClientQuery, ClientView
from sluicegate.gateway.views.text import name_pattern
from sluicegate.messaging.clients.rights import ClientRights

ClientFlow = tuple[str, FlowOverview]  # the name of the queue, and the flow


@dataclass(frozen=True, slots=True)
class FoundClient:
    """A connection that matches a query, and the rights of its client."""

    protocol: str
    connection: ClientConnection
    rights: ClientRights


def wanted_clients(node: Node, vpn: str, question: ClientQuery) -> list[FoundClient]:
    """Return the clients of a message VPN that match a query, of all pages, by name."""
    wanted, names = name_pattern(question.client_name), question.names
    found: list[FoundClient] = []
    for server in node.servers:
        for connection in server.open_connections():
            rights = connection.identity.admitted()
            if rights is None or connection.identity.vpn != vpn or not wanted.fullmatch(rights.client):
                continue
            if names is None or rights.client in names:
                found.append(FoundClient(server.name, connection, rights))
    return sorted(found, key=lambda each: (each.rights.client, each.protocol, each.connection.peer_name()))


def client_views(page: Iterable[FoundClient], flows: Iterable[ClientFlow], *, now_ms: int) -> tuple[ClientView, ...]:
    """Return the views of clients; `flows` include theirs."""
    theirs: dict[tuple[str, str], list[FlowOverview]] = {}  # by protocol and client
    for _, flow in flows:
        theirs.setdefault((flow.protocol, flow.client), []).append(flow)
    views = []
    for each in page:
        rights, connection = each.rights, each.connection
        its = theirs.get((each.protocol, rights.client), [])
        views.append(
            ClientView(
                name=rights.client,
                client_username=rights.username,
                protocol=each.protocol,
                address=connection.peer_name(),
                client_profile=rights.profile.name,
                acl_profile=rights.acl.name,
                connected_s=(now_ms - rights.admitted_ms) // 1000,
                flows_count=len(its),
                unacked_count=sum(flow.unacked_count for flow in its),
                messages_received=connection.traffic.messages_received,
                messages_sent=connection.traffic.messages_sent,
                bytes_received=connection.traffic.bytes_received,
                bytes_sent=connection.traffic.bytes_sent,
                is_paused=connection.read_control is not None and connection.read_control.stopped,
            )
        )
    return tuple(views)


async def flows_of(node: Node, vpn: MessageVpn, clients: Collection[str]) -> list[ClientFlow]:
    """Return the flows of clients of these names: at this broker's queues, and at those of neighbors."""
    handles: list[LocalQueue] = await vpn.queues.ask(ListQueues())
    theirs = await overviews_of([each for each in handles if not each.state.clients().isdisjoint(clients)])
    found = [(handle.name, flow) for handle, overview in theirs for flow in overview.flows if flow.client in clients]
    for neighbor in node.links.links.neighbors.values():
        for each in neighbor.vpns:
            if each.vpn.name == vpn.name:
                found += each.remote_queues.flows_of(clients)
    return found
