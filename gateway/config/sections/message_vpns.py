"""The section of one message VPN: its quotas, accounts, queues, virtual destinations and delivery points."""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from sluicegate.gateway.config.document import Path
from sluicegate.gateway.config.sections.listeners import VpnName
from sluicegate.gateway.config.sections.node import Pair, Queues
from sluicegate.gateway.config.sections.rest_delivery_points import RestDeliveryPoints
from sluicegate.gateway.config.sections.section import Section
from sluicegate.gateway.config.sections.security.authentication import Authentication
from sluicegate.gateway.config.sections.values import MIB, TIB, Size
from sluicegate.gateway.config.sections.virtual_destinations import VirtualDestinationsSection
from sluicegate.messaging.clients.vpn_quota import COUNT_MAX
from sluicegate.messaging.message.vpn import DEFAULT_VPN

Count = Annotated[int, Field(ge=0, le=COUNT_MAX)]


class Vpn(Section):
    """Quotas and choices of a message VPN. At the top they are those of the VPN `default`."""

    enabled: bool = Field(default=True, description="false: its clients are sent away; what it holds is kept")
    max_connection_count: Count = Field(default=COUNT_MAX, description="clients that may be connected at a time")
    max_endpoint_count: Count = Field(
        default=COUNT_MAX, description="queues beyond which clients may make none; those of subscriptions count"
    )
    max_subscription_count: Count = Field(
        default=COUNT_MAX, description="subscriptions beyond which clients may make none; those of queues count"
    )
    usage_bytes_max: Size = Field(
        default=64 * TIB, ge=0, le=64 * TIB, description="quota of its queues together; the node's quota counts too"
    )
    max_mqtt_session_count: Count = Field(
        default=100_000, description="MQTT sessions kept without their client, beyond which none is begun"
    )
    max_retained_message_count: Count = Field(
        default=1_000_000, description="retained messages beyond which clients may set none on further topics"
    )
    retained_bytes_max: Size = Field(
        default=256 * MIB, ge=0, le=64 * TIB, description="what its retained messages may count for together"
    )
    session_bytes_max: Size = Field(
        default=256 * MIB, ge=0, le=64 * TIB, description="what its MQTT sessions, with names and wills, may count for"
    )
    subscription_bytes_max: Size = Field(
        default=256 * MIB, ge=0, le=64 * TIB, description="what its subscriptions may count for together"
    )
    usage_threshold: Pair = Field(default="80/60%", description="event for its usage; values are MB")
    reject_msg_to_sender_on_no_subscription_match: bool = Field(
        default=False, description="refuse guaranteed messages that nobody subscribes to, instead of dropping them"
    )
    service_rest_mode: Literal["messaging", "gateway"] = Field(
        default="messaging", description="gateway: every HTTP request is relayed, and its reply is the response"
    )


class MessageVpn(Vpn):
    """A message VPN as a whole."""

    authentication: Authentication = Authentication()
    queues: Queues = Queues()
    virtual_destinations: VirtualDestinationsSection = VirtualDestinationsSection()
    rest_delivery_points: RestDeliveryPoints = ()


# The section of a VPN that is in the store but not in the configuration.
NOT_CONFIGURED: Final = MessageVpn(enabled=False)


def vpn_path(name: str) -> Path:
    """Return the path of a message VPN's sections in the configuration."""
    return () if name == DEFAULT_VPN else ("vpns", name)


def vpn_setting(name: str, path: str) -> str:
    """Return the full dotted path of a setting of a message VPN."""
    return ".".join([*(str(part) for part in vpn_path(name)), path])


def _other_than_default(name: str) -> str:
    if name == DEFAULT_VPN:
        raise ValueError("the settings of the message VPN `default` stand at the top, and not under vpns")
    return name


OtherVpnName = Annotated[VpnName, AfterValidator(_other_than_default)]
