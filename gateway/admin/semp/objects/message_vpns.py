"""The SEMP object for message VPNs.

Its attributes have Solace's units and ways of saying "no limit": megabytes, and -1.
"""

from collections.abc import Callable
from typing import Final

from sluicegate.gateway.admin.semp.errors import invalid_parameter
from sluicegate.gateway.admin.semp.objects.attributes import (
    BOOLEAN,
    INTEGER,
    TEXT,
    SempAttribute,
    SempCollection,
    SempObject,
)
from sluicegate.gateway.admin.semp.query import Value
from sluicegate.gateway.config.sections.values import TIB
from sluicegate.gateway.views.clients.message_vpns import MessageVpnView
from sluicegate.messaging.queues.attributes import quoted
from sluicegate.messaging.queues.definition import MEGABYTE

BYTES_MAX: Final = 64 * TIB  # as the configuration has it
UNLIMITED: Final = -1
NO_AUTHENTICATION: Final = "none"
INTERNAL: Final = "internal"


def _bytes(name: str, *, or_unlimited: bool = False) -> Callable[[object], object]:
    """Return the function that turns the megabytes of a body into bytes."""

    def written(given: object) -> object:
        is_number = isinstance(given, int) and not isinstance(given, bool)
        if or_unlimited and is_number and given == UNLIMITED:
            return BYTES_MAX
        if not isinstance(given, int) or not is_number or not 0 <= given <= BYTES_MAX // MEGABYTE:
            also = f", or {UNLIMITED} for no limit" if or_unlimited else ""
            allowed = f"a whole number of MB from 0 to {BYTES_MAX // MEGABYTE}{also}"
            raise invalid_parameter(f"{name}: {quoted(given)} is not allowed; allowed: {allowed}")
        return given * MEGABYTE

    return written


def _anonymous(given: object) -> object:
    """Return whether clients need no account, by Solace's type of basic authentication."""
    if given not in (NO_AUTHENTICATION, INTERNAL):
        allowed = f"{INTERNAL}: clients need an account; {NO_AUTHENTICATION}: they need none"
        raise invalid_parameter(f"authenticationBasicType: {quoted(given)} is not allowed; allowed: {allowed}")
    return given == NO_AUTHENTICATION


def _setting(field: str) -> Callable[[MessageVpnView], Value]:
    return lambda vpn: vpn.settings[field]  # type: ignore[return-value]  # it is as JSON has it


def _count(name: str, meaning: str, field: str) -> SempAttribute[MessageVpnView]:
    return SempAttribute(name, INTEGER, meaning, _setting(field), field)


VPN: Final[SempObject[MessageVpnView]] = SempObject(
    "msgVpn",
    "msgVpnName",
    (
        SempAttribute("msgVpnName", TEXT, "name", lambda vpn: vpn.name, "name"),
        SempAttribute("enabled", BOOLEAN, "whether clients may connect", lambda vpn: vpn.enabled, "enabled"),
        SempAttribute("state", TEXT, "up or down", lambda vpn: "up" if vpn.up else "down"),
        SempAttribute("msgSpoolUsage", INTEGER, "bytes of its messages", lambda vpn: vpn.msg_spool_usage_bytes),
        SempAttribute("msgSpoolMsgCount", INTEGER, "messages in its queues", lambda vpn: vpn.spooled_msg_count),
        SempAttribute(
            "maxMsgSpoolUsage",
            INTEGER,
            "quota in MB",
            lambda vpn: vpn.max_msg_spool_usage_bytes // MEGABYTE,
            "usage_bytes_max",
            _bytes("maxMsgSpoolUsage"),
        ),
        SempAttribute(
            "mqttRetainMaxMemory",
            INTEGER,
            "memory for retained messages, in MB; -1: no limit",
            lambda vpn: vpn.max_retained_message_bytes // MEGABYTE,
            "retained_bytes_max",
            _bytes("mqttRetainMaxMemory", or_unlimited=True),
        ),
        _count("maxConnectionCount", "clients that may be connected at the same time", "max_connection_count"),
        _count("maxEndpointCount", "queues beyond which clients cannot create any", "max_endpoint_count"),
        _count(
            "maxSubscriptionCount", "subscriptions beyond which clients cannot create any", "max_subscription_count"
        ),
        SempAttribute(
            "authenticationBasicType",
            {**TEXT, "enum": [INTERNAL, NO_AUTHENTICATION]},
            "internal: clients need an account, on loopback unless it is allowed without; none: they need none",
            lambda vpn: NO_AUTHENTICATION if vpn.settings["allow_anonymous"] is True else INTERNAL,
            "allow_anonymous",
            _anonymous,
        ),
        SempAttribute(
            "serviceRestMode",
            {**TEXT, "enum": ["messaging", "gateway"]},
            "what becomes of an HTTP request",
            _setting("service_rest_mode"),
            "service_rest_mode",
        ),
    ),
    (
        SempCollection("aclProfiles", None, configures=True),
        SempCollection("clientProfiles", None, configures=True),
        SempCollection("clientUsernames", None, configures=True),
        SempCollection("clients", lambda vpn: vpn.connection_count),
        SempCollection("queueTemplates", None, configures=True),
        SempCollection("queues", lambda vpn: vpn.endpoint_count, configures=True),
    ),
)
