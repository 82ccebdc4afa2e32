"""Connected clients: selected by name, and described as operators see them."""

from collections.abc import Iterable
from dataclasses import dataclass

from sluicegate.actors.messages.queues import FlowOverview, QueueOverview
from sluicegate.gateway.node.node import Node
from sluicegate.gateway.node.servers.server import ClientConnection
from sluicegate.gateway.views.clients.clients import ClientQuery, ClientView
from sluicegate.gateway.views.text import name_pattern
from sluicegate.messaging.clients.rights import ClientRights


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


def client_views(
    page: Iterable[FoundClient], queues: Iterable[QueueOverview], *, now_ms: int
) -> tuple[ClientView, ...]:
    """Return the views of clients; `queues` include those that they consume."""
    flows = _flows(queues)
    views = []
    for each in page:
        rights, connection = each.rights, each.connection
        its = flows.get((each.protocol, rights.client), [])
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
                is_paused=connection.read_control is not None and connection.read_control.stopped,
            )
        )
    return tuple(views)


def _flows(queues: Iterable[QueueOverview]) -> dict[tuple[str, str], list[FlowOverview]]:
    """Return all flows by protocol and client."""
    flows: dict[tuple[str, str], list[FlowOverview]] = {}
    for queue in queues:
        for flow in queue.flows:
            flows.setdefault((flow.protocol, flow.client), []).append(flow)
    return flows
