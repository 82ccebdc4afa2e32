"""The tree of SEMP's objects: where each kind is found, and what of the node it is read from."""

from collections.abc import Sequence
from typing import Any, Final

from gateway.client_views import CLIENTS_MAX, ClientQuestion
from gateway.config.client_profiles import AclProfileSettings
from gateway.ports import NodePort, template_of
from gateway.semp.client_objects import (
    ACL_PROFILE,
    CLIENT,
    CLIENT_PROFILE,
    CLIENT_SUBSCRIPTION,
    EXCEPTIONS,
    USERNAME,
    VPN,
    exception_kind,
)
from gateway.semp.errors import not_found
from gateway.semp.queue_objects import QUEUE, QUEUE_TEMPLATE, SUBSCRIPTION, TX_FLOW, QueueFlow
from gateway.semp.reading import Listing, Names, Resource
from gateway.smrp import ROWS_MAX, DestinationType, SmrpQuestion


async def _vpns(node: NodePort, names: Names) -> Sequence[Any]:
    return (await node.list_message_vpns()).message_vpns


async def _queues(node: NodePort, names: Names) -> Sequence[Any]:
    return await node.in_vpn(names[0]).list_queues()


async def _queue(node: NodePort, names: Names) -> Sequence[Any]:
    return [await node.in_vpn(names[0]).show_queue(names[1])]


async def _subscriptions(node: NodePort, names: Names) -> Sequence[Any]:
    return (await node.in_vpn(names[0]).show_queue(names[1])).subscriptions


async def _tx_flows(node: NodePort, names: Names) -> Sequence[Any]:
    return [QueueFlow(names[1], flow) for flow in (await node.in_vpn(names[0]).show_queue(names[1])).flows]


async def _templates(node: NodePort, names: Names) -> Sequence[Any]:
    return await node.in_vpn(names[0]).list_templates()


async def _template(node: NodePort, names: Names) -> Sequence[Any]:
    return [await template_of(node.in_vpn(names[0]), names[1])]


async def _usernames(node: NodePort, names: Names) -> Sequence[Any]:
    return await node.in_vpn(names[0]).list_users()


async def _username(node: NodePort, names: Names) -> Sequence[Any]:
    return [await node.in_vpn(names[0]).show_user(names[1])]


async def _client_profiles(node: NodePort, names: Names) -> Sequence[Any]:
    return (await node.in_vpn(names[0]).list_profiles()).client_profiles


async def _acl_profiles(node: NodePort, names: Names) -> Sequence[AclProfileSettings]:
    return (await node.in_vpn(names[0]).list_profiles()).acl_profiles


def _exceptions(field: str) -> Listing:
    async def listed(node: NodePort, names: Names) -> Sequence[Any]:
        for profile in await _acl_profiles(node, names):
            if profile.name == names[1]:
                found: Sequence[Any] = getattr(profile, field)
                return found
        raise not_found(f"aclProfile {names[1]!r}")

    return listed


async def _clients(node: NodePort, names: Names) -> Sequence[Any]:
    return (await node.in_vpn(names[0]).list_clients(ClientQuestion(limit=CLIENTS_MAX))).clients


async def _check_client(node: NodePort, names: Names) -> None:
    if not any(each.name == names[1] for each in await _clients(node, names)):
        raise not_found(f"client {names[1]!r}")


async def _client_flows(node: NodePort, names: Names) -> Sequence[Any]:
    await _check_client(node, names)
    queues = await node.in_vpn(names[0]).list_queues()
    return [QueueFlow(queue.name, flow) for queue in queues for flow in queue.flows if flow.client == names[1]]


async def _client_subscriptions(node: NodePort, names: Names) -> Sequence[Any]:
    await _check_client(node, names)
    found = await node.in_vpn(names[0]).smrp_subscriptions(SmrpQuestion(destination_name=names[1], limit=ROWS_MAX))
    return [
        row
        for row in found.subscriptions  # the name is a pattern to them, which may fit others too
        if row.destination_name == names[1] and row.destination_type == DestinationType.CLIENT
    ]


_OF_VPN: Final = ("msgVpnName",)
_OF_QUEUE: Final = ("msgVpnName", "queueName")
_OF_CLIENT: Final = ("msgVpnName", "clientName")
_OF_ACL: Final = ("msgVpnName", "aclProfileName")
_VPN: Final = "/msgVpns/{msgVpnName}"

QUEUES: Final = Resource(f"{_VPN}/queues", QUEUE, _OF_VPN, _queues, _queue)
SUBSCRIPTIONS: Final = Resource(f"{QUEUES.object_path}/subscriptions", SUBSCRIPTION, _OF_QUEUE, _subscriptions)
TEMPLATES: Final = Resource(f"{_VPN}/queueTemplates", QUEUE_TEMPLATE, _OF_VPN, _templates, _template)
ACL_PROFILES: Final = Resource(f"{_VPN}/aclProfiles", ACL_PROFILE, _OF_VPN, _acl_profiles)
USERNAMES: Final = Resource(f"{_VPN}/clientUsernames", USERNAME, _OF_VPN, _usernames, _username)
CLIENTS: Final = Resource(f"{_VPN}/clients", CLIENT, _OF_VPN, _clients)

# What is configured, and shown as it runs as well.
CONFIGURED: Final = (
    Resource("/msgVpns", VPN, (), _vpns),
    QUEUES,
    SUBSCRIPTIONS,
    TEMPLATES,
    USERNAMES,
    Resource(f"{_VPN}/clientProfiles", CLIENT_PROFILE, _OF_VPN, _client_profiles),
    ACL_PROFILES,
    *(
        Resource(f"{ACL_PROFILES.object_path}/{kind}s", exception_kind(kind), _OF_ACL, _exceptions(field))
        for kind, (field, _) in EXCEPTIONS.items()
    ),
)

MONITORED: Final = (
    *CONFIGURED,
    Resource(f"{QUEUES.object_path}/txFlows", TX_FLOW, _OF_QUEUE, _tx_flows),
    CLIENTS,
    Resource(f"{CLIENTS.object_path}/txFlows", TX_FLOW, _OF_CLIENT, _client_flows),
    Resource(f"{CLIENTS.object_path}/subscriptions", CLIENT_SUBSCRIPTION, _OF_CLIENT, _client_subscriptions),
)
