"""Errors of AMQP: malformed bytes, violations of the peer, misuse by our own code, and the conditions on the wire."""

from typing import Final, final

from sluicegate.messaging.clients.rights import (
    EGRESS_FLOWS,
    ENDPOINT_COUNT,
    INGRESS_FLOWS,
    PAYLOAD_INVALID,
    SUBSCRIPTION_COUNT,
    TOO_MANY_CONNECTIONS,
    VPN_DOWN,
    VPN_UNKNOWN,
    ClientDenied,
)

# What an error ends. The narrowest scope that fits is used.
CONNECTION: Final = "connection"
SESSION: Final = "session"
LINK: Final = "link"

DESCRIPTION_CHARS_MAX: Final = 256  # of an error, either side's


@final
class DecodeError(Exception):
    """Bytes that are no well-formed AMQP value, or not the value their place asks for."""


@final
class PeerViolation(Exception):
    """The peer broke a rule. It ends the connection, the session or the link, with the condition the standard names."""

    def __init__(self, scope: str, condition: str, text: str) -> None:
        super().__init__(text)
        self.scope = scope  # CONNECTION, SESSION or LINK
        self.condition = condition
        self.text = text


@final
class LocalMisuse(Exception):
    """Our own code asked the engine for something that the standard forbids. A bug, not an input error."""


# The error conditions of AMQP 1.0, by the symbols that travel (2.8.15 to 2.8.18, 3.2, 4.5.8).


INTERNAL_ERROR: Final = "amqp:internal-error"
NOT_FOUND: Final = "amqp:not-found"
UNAUTHORIZED_ACCESS: Final = "amqp:unauthorized-access"
DECODE_ERROR: Final = "amqp:decode-error"
RESOURCE_LIMIT_EXCEEDED: Final = "amqp:resource-limit-exceeded"
NOT_ALLOWED: Final = "amqp:not-allowed"
INVALID_FIELD: Final = "amqp:invalid-field"
NOT_IMPLEMENTED: Final = "amqp:not-implemented"
RESOURCE_LOCKED: Final = "amqp:resource-locked"
PRECONDITION_FAILED: Final = "amqp:precondition-failed"
RESOURCE_DELETED: Final = "amqp:resource-deleted"
ILLEGAL_STATE: Final = "amqp:illegal-state"
FRAME_SIZE_TOO_SMALL: Final = "amqp:frame-size-too-small"

CONNECTION_FORCED: Final = "amqp:connection:forced"
FRAMING_ERROR: Final = "amqp:connection:framing-error"

WINDOW_VIOLATION: Final = "amqp:session:window-violation"
ERRANT_LINK: Final = "amqp:session:errant-link"
HANDLE_IN_USE: Final = "amqp:session:handle-in-use"
UNATTACHED_HANDLE: Final = "amqp:session:unattached-handle"

DETACH_FORCED: Final = "amqp:link:detach-forced"
TRANSFER_LIMIT_EXCEEDED: Final = "amqp:link:transfer-limit-exceeded"
MESSAGE_SIZE_EXCEEDED: Final = "amqp:link:message-size-exceeded"
STOLEN: Final = "amqp:link:stolen"

UNKNOWN_TRANSACTION: Final = "amqp:transaction:unknown-id"
TRANSACTION_ROLLBACK: Final = "amqp:transaction:rollback"
TRANSACTION_TIMEOUT: Final = "amqp:transaction:timeout"

# An operator who shuts a VPN down has closed its connections (2.8.16: the client may try again later).
_OF_VPNS: Final = {VPN_UNKNOWN: NOT_FOUND, VPN_DOWN: CONNECTION_FORCED}
_LIMITS: Final = frozenset({EGRESS_FLOWS, ENDPOINT_COUNT, INGRESS_FLOWS, SUBSCRIPTION_COUNT, TOO_MANY_CONNECTIONS})


def condition_of(denied: ClientDenied) -> str:
    """Return the error condition for what a client's profiles, or its message VPN, deny."""
    if denied.reason in _OF_VPNS:
        return _OF_VPNS[denied.reason]
    if denied.reason == PAYLOAD_INVALID:
        return DECODE_ERROR
    return RESOURCE_LIMIT_EXCEEDED if denied.reason in _LIMITS else UNAUTHORIZED_ACCESS
