"""The clients that are connected, as operators see them: who they are, where they come from, what holds them up."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from actors.messages import FlowOverview, QueueOverview
from gateway.name_patterns import name_pattern

if TYPE_CHECKING:
    from gateway.node import Node

CLIENTS_MAX: Final = 10_000  # of one answer
CLIENTS_DEFAULT: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientView:
    """One connection of a client that was admitted."""

    name: str  # client id, container id or what else its protocol calls it
    client_username: str  # empty: anonymous
    protocol: str
    address: str  # host and port it comes from
    client_profile: str
    acl_profile: str
    connected_s: int  # for how long
    flows_count: int  # queues' flows of the client under this protocol
    unacked_count: int  # messages it holds of them
    is_paused: bool  # it is not read from: a destination is full, a request is under way, or it is over its rate


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientsView:
    """One page of clients."""

    total_count: int  # of those that were asked for, on this page or not
    clients: tuple[ClientView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuestion:
    """Which clients somebody wants, by name. `*` stands for any characters, `?` for one; an empty name is for all."""

    client_name: str = ""
    after: int = 0  # clients to pass over
    limit: int = CLIENTS_DEFAULT


def clients_view(node: "Node", vpn: str, queues: Iterable[QueueOverview], question: ClientQuestion) -> ClientsView:
    """Return a page of the clients that are connected to a message VPN, by name."""
    wanted = name_pattern(question.client_name)
    flows = _flows(queues)
    found: list[ClientView] = []
    for front in node.fronts:
        for connection in front.open_connections():
            rights = connection.identity.admitted()
            if rights is None or connection.identity.vpn != vpn or not wanted.fullmatch(rights.client):
                continue
            its = flows.get((front.name, rights.client), [])
            found.append(
                ClientView(
                    name=rights.client,
                    client_username=rights.user,
                    protocol=front.name,
                    address=connection.peer_name(),
                    client_profile=rights.profile.name,
                    acl_profile=rights.acl_name,
                    connected_s=(node.clock.now_ms() - rights.admitted_ms) // 1000,
                    flows_count=len(its),
                    unacked_count=sum(each.unacked_count for each in its),
                    is_paused=connection.gate.stopped,
                )
            )
    found.sort(key=lambda view: (view.name, view.protocol, view.address))
    page = found[question.after : question.after + question.limit]
    return ClientsView(total_count=len(found), clients=tuple(page))


def _flows(queues: Iterable[QueueOverview]) -> dict[tuple[str, str], list[FlowOverview]]:
    """Return all flows by protocol and client."""
    flows: dict[tuple[str, str], list[FlowOverview]] = {}
    for queue in queues:
        for flow in queue.flows:
            flows.setdefault((flow.protocol, flow.client), []).append(flow)
    return flows
