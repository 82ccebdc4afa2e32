"""The SEMP object of a bridge: its name, and its state as Solace's brokers name it."""

from typing import Final

from sluicegate.gateway.admin.semp.objects.attributes import BOOLEAN, INTEGER, TEXT, SempAttribute, SempObject
from sluicegate.gateway.views.bridges import INCOMING, OUTGOING, BridgeView


def _messages(bridge: BridgeView, direction: str) -> int:
    return sum(each.messages for each in bridge.rules if each.direction == direction)


BRIDGE: Final[SempObject[BridgeView]] = SempObject(
    "bridge",
    "bridgeName",
    (
        SempAttribute("bridgeName", TEXT, "name", lambda bridge: bridge.name),
        SempAttribute("enabled", BOOLEAN, "whether it is to connect", lambda bridge: bridge.enabled),
        SempAttribute("remoteAddress", TEXT, "URL of the foreign broker", lambda bridge: bridge.remote_url),
        SempAttribute("inboundState", TEXT, "state of the connection", lambda bridge: bridge.state),
        SempAttribute(
            "inboundFailureReason", TEXT, "why it is not connected; empty: it is", lambda bridge: bridge.reason
        ),
        SempAttribute("establishedCount", INTEGER, "connections that were made", lambda bridge: bridge.connections),
        SempAttribute(
            "rxMsgCount", INTEGER, "messages that came, and are stored", lambda bridge: _messages(bridge, INCOMING)
        ),
        SempAttribute(
            "txMsgCount",
            INTEGER,
            "messages that the foreign broker has confirmed",
            lambda bridge: _messages(bridge, OUTGOING),
        ),
    ),
)
