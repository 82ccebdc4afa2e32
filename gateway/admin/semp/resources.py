"""The tree of SEMP objects: the path of each kind, and how it is read from the node."""

import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any, Final

from sluicegate.gateway.admin.semp.errors import not_found
from sluicegate.gateway.admin.semp.objects.bridges import BRIDGE
from sluicegate.gateway.admin.semp.objects.clients import (
    ACL_PROFILE,
    CLIENT,
    CLIENT_PROFILE,
    CLIENT_SUBSCRIPTION,
    EXCEPTIONS,
    USERNAME,
    exception_kind,
)
from sluicegate.gateway.admin.semp.objects.links import CLUSTER, LINK, REMOTE_ADDRESS, address_of
from sluicegate.gateway.admin.semp.objects.message_vpns import VPN
from sluicegate.gateway.admin.semp.objects.queues import QUEUE, QUEUE_TEMPLATE, SUBSCRIPTION, TX_FLOW, QueueFlow
from sluicegate.gateway.admin.semp.read import Listing, Names, Resource
from sluicegate.gateway.config.sections.security.client_profiles import AclProfileSettings
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.gateway.views.clients.clients import ClientQuery
from sluicegate.gateway.views.clients.subscriptions import DestinationType, SmrpQuery
from sluicegate.gateway.views.errors import QueueNotFound, UserNotFound, VpnNotFound

ALL: Final = sys.maxsize  # SEMP splits pages itself


async def _vpns(node: NodeInterface, names: Names) -> Sequence[Any]:
    return (await node.list_message_vpns()).message_vpns


async def _some_vpns(node: NodeInterface, names: Names, wanted: Collection[str]) -> Sequence[Any]:
    found = []
    for name in wanted:
        with suppress(VpnNotFound):
            found.append(await node.show_message_vpn(name))
    return found


async def _queues(node: NodeInterface, names: Names) -> Sequence[Any]:
    return await node.in_vpn(names[0]).list_queues()


async def _some_queues(node: NodeInterface, names: Names, wanted: Collection[str]) -> Sequence[Any]:
    found = []
    for name in wanted:
        with suppress(QueueNotFound):
            found.append(await node.in_vpn(names[0]).show_queue(name))
    return found


async def _queue_names(node: NodeInterface, names: Names) -> Sequence[str]:
    return await node.in_vpn(names[0]).queue_names()


async def _subscriptions(node: NodeInterface, names: Names) -> Sequence[Any]:
    return (await node.in_vpn(names[0]).show_queue(names[1])).subscriptions


async def _tx_flows(node: NodeInterface, names: Names) -> Sequence[Any]:
    return [QueueFlow(names[1], flow) for flow in (await node.in_vpn(names[0]).show_queue(names[1])).flows]


async def _templates(node: NodeInterface, names: Names) -> Sequence[Any]:
    return await node.in_vpn(names[0]).list_templates()


async def _usernames(node: NodeInterface, names: Names) -> Sequence[Any]:
    return await node.in_vpn(names[0]).list_users()


async def _some_usernames(node: NodeInterface, names: Names, wanted: Collection[str]) -> Sequence[Any]:
    found = []
    for name in wanted:
        with suppress(UserNotFound):
            found.append(await node.in_vpn(names[0]).show_user(name))
    return found


async def _client_profiles(node: NodeInterface, names: Names) -> Sequence[Any]:
    return (await node.in_vpn(names[0]).list_profiles()).client_profiles


async def _acl_profiles(node: NodeInterface, names: Names) -> Sequence[AclProfileSettings]:
    return (await node.in_vpn(names[0]).list_profiles()).acl_profiles


async def _bridges(node: NodeInterface, names: Names) -> Sequence[Any]:
    return await node.in_vpn(names[0]).list_bridges()


def _exceptions(field: str) -> Listing:
    async def listed(node: NodeInterface, names: Names) -> Sequence[Any]:
        for profile in await _acl_profiles(node, names):
            if profile.name == names[1]:
                found: Sequence[Any] = getattr(profile, field)
                return found
        raise not_found(f"aclProfile {names[1]!r}")

    return listed


async def _clients(node: NodeInterface, names: Names) -> Sequence[Any]:
    return (await node.in_vpn(names[0]).list_clients(ClientQuery(limit=ALL))).clients


async def _some_clients(node: NodeInterface, names: Names, wanted: Collection[str]) -> Sequence[Any]:
    return (await node.in_vpn(names[0]).list_clients(ClientQuery(names=wanted, limit=ALL))).clients


async def _client_names(node: NodeInterface, names: Names) -> Sequence[str]:
    return await node.in_vpn(names[0]).client_names()


async def _check_client(node: NodeInterface, names: Names) -> None:
    if names[1] not in await _client_names(node, names):
        raise not_found(f"client {names[1]!r}")


async def _client_flows(node: NodeInterface, names: Names) -> Sequence[Any]:
    await _check_client(node, names)
    queues = await node.in_vpn(names[0]).list_queues(of_client=names[1])
    return [QueueFlow(queue.name, flow) for queue in queues for flow in queue.flows if flow.client == names[1]]


async def _client_subscriptions(node: NodeInterface, names: Names) -> Sequence[Any]:
    await _check_client(node, names)
    found = await node.in_vpn(names[0]).smrp_subscriptions(SmrpQuery(destination_name=names[1], limit=ALL))
    return [
        row
        for row in found.subscriptions  # the name is used as a pattern, which may match others too
        if row.destination_name == names[1] and row.destination_type == DestinationType.CLIENT
    ]


async def _networks(node: NodeInterface, names: Names) -> Sequence[Any]:
    return [await node.list_links()]


async def _links(node: NodeInterface, names: Names) -> Sequence[Any]:
    found = await node.list_links()
    if found.network != names[0]:
        raise not_found(f"dmrCluster {names[0]!r}")
    return found.links


async def _remote_addresses(node: NodeInterface, names: Names) -> Sequence[Any]:
    """Return the address of a link: one, or none if it waits for the neighbor to connect."""
    for link in await _links(node, names):
        if link.name == names[1]:
            return [address_of(link.definition.url)] if link.definition.url else []
    raise not_found(f"dmrClusterLink {names[1]!r}")


_OF_VPN: Final = ("msgVpnName",)
_OF_QUEUE: Final = ("msgVpnName", "queueName")
_OF_CLIENT: Final = ("msgVpnName", "clientName")
_OF_ACL: Final = ("msgVpnName", "aclProfileName")
_VPN: Final = "/msgVpns/{msgVpnName}"

VPNS: Final = Resource("/msgVpns", VPN, (), _vpns, _some_vpns)
QUEUES: Final = Resource(f"{_VPN}/queues", QUEUE, _OF_VPN, _queues, _some_queues, _queue_names)
SUBSCRIPTIONS: Final = Resource(f"{QUEUES.object_path}/subscriptions", SUBSCRIPTION, _OF_QUEUE, _subscriptions)
TEMPLATES: Final = Resource(f"{_VPN}/queueTemplates", QUEUE_TEMPLATE, _OF_VPN, _templates)
ACL_PROFILES: Final = Resource(f"{_VPN}/aclProfiles", ACL_PROFILE, _OF_VPN, _acl_profiles)
CLIENT_PROFILES: Final = Resource(f"{_VPN}/clientProfiles", CLIENT_PROFILE, _OF_VPN, _client_profiles)
ACL_EXCEPTIONS: Final = {
    kind: Resource(f"{ACL_PROFILES.object_path}/{kind}s", exception_kind(kind), _OF_ACL, _exceptions(field))
    for kind, (field, _) in EXCEPTIONS.items()
}
USERNAMES: Final = Resource(f"{_VPN}/clientUsernames", USERNAME, _OF_VPN, _usernames, _some_usernames)
CLIENTS: Final = Resource(f"{_VPN}/clients", CLIENT, _OF_VPN, _clients, _some_clients, _client_names)

NETWORKS: Final = Resource("/dmrClusters", CLUSTER, (), _networks)
LINKS: Final = Resource(f"{NETWORKS.object_path}/links", LINK, ("dmrClusterName",), _links)
REMOTE_ADDRESSES: Final = Resource(
    f"{LINKS.object_path}/remoteAddresses", REMOTE_ADDRESS, ("dmrClusterName", "remoteNodeName"), _remote_addresses
)

# What is configured, and shown as it runs as well.
CONFIGURED: Final = (
    VPNS,
    QUEUES,
    SUBSCRIPTIONS,
    TEMPLATES,
    USERNAMES,
    CLIENT_PROFILES,
    ACL_PROFILES,
    *ACL_EXCEPTIONS.values(),
    NETWORKS,
    LINKS,
    REMOTE_ADDRESSES,
)

MONITORED: Final = (
    *CONFIGURED,
    Resource(f"{QUEUES.object_path}/txFlows", TX_FLOW, _OF_QUEUE, _tx_flows),
    Resource(f"{_VPN}/bridges", BRIDGE, _OF_VPN, _bridges),
    CLIENTS,
    Resource(f"{CLIENTS.object_path}/txFlows", TX_FLOW, _OF_CLIENT, _client_flows),
    Resource(f"{CLIENTS.object_path}/subscriptions", CLIENT_SUBSCRIPTION, _OF_CLIENT, _client_subscriptions),
)
