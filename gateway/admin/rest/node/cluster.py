"""Operations on the replicas of this broker. They are of the node: an account needs its access level there."""

from re import fullmatch
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from sluicegate.gateway.admin.operation import INVALID_PARAMETER, NOT_READY, REFUSED, Answer, Operations, TextParameter
from sluicegate.gateway.admin.requests import path_name, text, view_answer
from sluicegate.gateway.config.sections.admin import AccessLevel
from sluicegate.gateway.config.sections.links import BROKER_NAME
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.gateway.views.cluster import ClusterBrokersView, ClusterView
from sluicegate.messaging.queues.attributes import quoted
from sluicegate.messaging.queues.definition import QueueInvalid

CLUSTER: Final = Operations()

TO: Final = TextParameter("to", "the replica that shall own the broker; default: the first that is ready", 64)
BROKER: Final = TextParameter("broker", "a broker of the cluster; default: this one", 64)
BEFORE: Final = TextParameter("before", "the replica before which it comes; default: it comes last", 64)


@CLUSTER.operation("GET", "/cluster", Answer(200, "The replicas", ClusterView), REFUSED, of_vpn=False)
async def show_cluster(node: NodeInterface, request: Request) -> Response:
    """The replicas of this broker: which of them owns it, and how far the others are."""
    return view_answer(await node.show_cluster())


@CLUSTER.operation(
    "POST",
    "/cluster/handover",
    Answer(202, "The owner stops, and the standby takes over"),
    REFUSED,
    NOT_READY,
    INVALID_PARAMETER,
    parameters=(TO, BROKER),
    of_vpn=False,
    level=AccessLevel.ADMIN,
)
async def hand_over(node: NodeInterface, request: Request) -> Response:
    """Have a standby own the broker. Its clients connect again, to the new owner. Any replica may be asked."""
    await node.hand_over(text(request, TO) or "", text(request, BROKER) or "")
    return Response(status_code=202)


@CLUSTER.operation(
    "GET", "/cluster/brokers", Answer(200, "The brokers", ClusterBrokersView), REFUSED, NOT_READY, of_vpn=False
)
async def list_cluster_brokers(node: NodeInterface, request: Request) -> Response:
    """All brokers of the cluster, that is, of its NATS servers, with their replicas, which are asked for it."""
    return view_answer(await node.list_cluster_brokers())


@CLUSTER.operation(
    "PUT",
    "/cluster/replicas/{name}",
    Answer(204, "It is a replica"),
    REFUSED,
    NOT_READY,
    INVALID_PARAMETER,
    parameters=(BEFORE,),
    of_vpn=False,
    level=AccessLevel.ADMIN,
)
async def add_replica(node: NodeInterface, request: Request) -> Response:
    """Add a replica to those of this broker, or move it before another one. Those first own it rather than others."""
    name = path_name(request)
    if not fullmatch(BROKER_NAME, name):
        raise QueueInvalid("name", f"{quoted(name)} is not allowed", "letters, digits, `.`, `_`, `-`")
    await node.add_replica(name, text(request, BEFORE) or "")
    return Response(status_code=204)


@CLUSTER.operation(
    "DELETE",
    "/cluster/replicas/{name}",
    Answer(204, "It is none any more"),
    REFUSED,
    NOT_READY,
    of_vpn=False,
    level=AccessLevel.ADMIN,
)
async def remove_replica(node: NodeInterface, request: Request) -> Response:
    """Take a replica from those of this broker: the log does not wait for it any more. It must not be the owner."""
    await node.remove_replica(path_name(request))
    return Response(status_code=204)
