"""The SEMP objects for the network of brokers: the cluster that this node is in, and its links."""

from typing import Final

from sluicegate.gateway.admin.semp.objects.attributes import (
    BOOLEAN,
    INTEGER,
    TEXT,
    SempAttribute,
    SempCollection,
    SempObject,
)
from sluicegate.gateway.views.links import LinksView, LinkView

CLUSTER: Final[SempObject[LinksView]] = SempObject(
    "dmrCluster",
    "dmrClusterName",
    (
        SempAttribute("dmrClusterName", TEXT, "name of the network", lambda view: view.network, "name"),
        SempAttribute("nodeName", TEXT, "name of this broker", lambda view: view.broker),
        SempAttribute("up", BOOLEAN, "always: the network is this broker at least", lambda view: True),
        SempAttribute(
            "upLinkCount", INTEGER, "links that are up", lambda view: sum(1 for each in view.links if each.up)
        ),
    ),
    (SempCollection("links", lambda view: len(view.links), configures=True),),
)

LINK: Final[SempObject[LinkView]] = SempObject(
    "dmrClusterLink",
    "remoteNodeName",
    (
        SempAttribute("remoteNodeName", TEXT, "name of the neighbor broker", lambda link: link.name, "name"),
        SempAttribute("enabled", BOOLEAN, "whether the link is to be there", lambda link: link.enabled, "enabled"),
        SempAttribute("up", BOOLEAN, "whether it is up", lambda link: link.up),
        SempAttribute("failureReason", TEXT, "why it is not up", lambda link: link.reason),
        SempAttribute("initiator", TEXT, "who has connected: local, remote, or empty", lambda link: link.initiator),
        SempAttribute("remoteAddress", TEXT, "address of the neighbor", lambda link: link.remote_address),
        SempAttribute(
            "transportTlsEnabled", BOOLEAN, "whether the connection is encrypted", lambda link: link.encrypted
        ),
        SempAttribute(
            "transportCompressedEnabled", BOOLEAN, "compress", lambda link: link.definition.compress, "compress"
        ),
        SempAttribute("txMsgCount", INTEGER, "direct messages sent", lambda link: link.messages_sent),
        SempAttribute(
            "rxMsgCount",
            INTEGER,
            "direct messages received",
            lambda link: sum(each.messages_received for each in link.message_vpns),
        ),
        SempAttribute("txDiscardedMsgCount", INTEGER, "direct messages lost", lambda link: link.messages_dropped),
        SempAttribute("dialCount", INTEGER, "connections that this broker has tried", lambda link: link.dials),
        SempAttribute(
            "refusalCount", INTEGER, "connections that were refused", lambda link: sum(link.refusals.values())
        ),
    ),
    (SempCollection("remoteAddresses", None, configures=True),),
)

REMOTE_ADDRESS: Final[SempObject[str]] = SempObject(
    "dmrClusterLinkRemoteAddress",
    "remoteAddress",
    (
        SempAttribute(
            "remoteAddress",
            TEXT,
            "where the neighbor listens: HOST[:PORT], with TLS flows://HOST[:PORT]",
            lambda address: address,
            "remoteAddress",
        ),
    ),
)


def url_of(address: str) -> str:
    """Return the URL of a link to an address."""
    return address if "://" in address else f"flow://{address}"


def address_of(url: str) -> str:
    """Return the address in the URL of a link."""
    return url.removeprefix("flow://")
