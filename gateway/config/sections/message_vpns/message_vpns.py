"""The section of one message VPN: its quotas, accounts, queues, virtual destinations, delivery points and bridges."""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from sluicegate.gateway.config.document import Path
from sluicegate.gateway.config.sections.listeners import VpnName
from sluicegate.gateway.config.sections.message_vpns.bridges import Bridges
from sluicegate.gateway.config.sections.message_vpns.payload_rules import RULES_MAX, PayloadRule, unique_rules
from sluicegate.gateway.config.sections.message_vpns.rest_delivery_points import RestDeliveryPoints
from sluicegate.gateway.config.sections.message_vpns.virtual_destinations import VirtualDestinationsSection
from sluicegate.gateway.config.sections.node import Pair, Queues
from sluicegate.gateway.config.sections.section import Section
from sluicegate.gateway.config.sections.security.authentication import Authentication
from sluicegate.gateway.config.sections.values import MIB, TIB, Size
from sluicegate.messaging.clients.limits import NO_QUOTA
from sluicegate.messaging.message.vpn import DEFAULT_VPN

Count = Annotated[int, Field(ge=0, le=NO_QUOTA)]


PayloadRules = Annotated[tuple[PayloadRule, ...], Field(max_length=RULES_MAX), AfterValidator(unique_rules)]


class Vpn(Section):
    """Quotas and options of a message VPN. At the top level they are those of the VPN `default`."""

    enabled: bool = Field(
        default=True, description="false: disconnect its clients and admit none; its contents are kept"
    )
    max_connection_count: Count = Field(default=NO_QUOTA, description="clients that may be connected at the same time")
    max_endpoint_count: Count = Field(
        default=NO_QUOTA,
        description="number of queues beyond which clients cannot create any; those of subscriptions count",
    )
    max_subscription_count: Count = Field(
        default=NO_QUOTA,
        description="number of subscriptions beyond which clients cannot create any; those of queues count",
    )
    usage_bytes_max: Size = Field(
        default=64 * TIB,
        ge=0,
        le=64 * TIB,
        description="quota of its durable queues together; that of the node applies as well",
    )
    max_mqtt_session_count: Count = Field(
        default=100_000,
        description="number of MQTT sessions without a connection, beyond which no client can start one",
    )
    max_retained_message_count: Count = Field(
        default=1_000_000,
        description="number of retained messages beyond which clients cannot set any on further topics",
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
    usage_threshold: Pair = Field(
        default="80/60%",
        description="levels of usage at which an event is raised, and below which it is cleared; values are MB",
    )
    reject_msg_to_sender_on_no_subscription_match: bool = Field(
        default=False, description="refuse guaranteed messages that match no subscription, instead of dropping them"
    )
    service_rest_mode: Literal["messaging", "gateway"] = Field(
        default="messaging",
        description="gateway: relay every HTTP request as a message, and return its reply as the response",
    )


class MessageVpn(Vpn):
    """All sections of a message VPN."""

    authentication: Authentication = Authentication()
    queues: Queues = Queues()
    virtual_destinations: VirtualDestinationsSection = VirtualDestinationsSection()
    rest_delivery_points: RestDeliveryPoints = ()
    bridges: Bridges = ()
    payload_rules: PayloadRules = ()


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
