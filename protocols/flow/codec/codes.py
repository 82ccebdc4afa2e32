"""The codes of ERROR, of refusals in PUB_ACK, of GOAWAY and CLOSE. The high byte is the class; clients act on codes.

Flow: errors. A code never changes its meaning.

Behind the codes are the errors that carry them: violations by the peer, of a connection, a flow or a request. Misuse by
our own code has none.
"""

from typing import Final, final

# 0x00: nothing is wrong.
NONE: Final = 0x0000
SHUTTING_DOWN: Final = 0x0001  # of GOAWAY
ADMINISTRATIVE_ACTION: Final = 0x0002  # of GOAWAY

# 0x01: the bytes. They end the connection.
MALFORMED: Final = 0x0101
FRAME_TOO_LARGE: Final = 0x0102
VERSION_UNKNOWN: Final = 0x0103
CRITICAL_UNKNOWN: Final = 0x0104  # a frame or a field that must be understood, and is not

# 0x02: the order of things. They end the connection.
OUT_OF_TURN: Final = 0x0201  # a frame that has no place in this state, or in this direction
TIMED_OUT: Final = 0x0202
NOT_AUTHENTICATED: Final = 0x0203
FLOW_ID_UNUSABLE: Final = 0x0204
LIMIT_EXCEEDED: Final = 0x0205
INTERNAL: Final = 0x0206
VPN_NOT_ALLOWED: Final = 0x0207  # there is no such message VPN, or not for this client
VPN_UNAVAILABLE: Final = 0x0208  # it is shut down

# 0x03: a request. It has failed; the connection stays.
NOT_FOUND: Final = 0x0301
PERMISSION_DENIED: Final = 0x0302
DISABLED: Final = 0x0303
TOO_MANY: Final = 0x0304
IN_USE: Final = 0x0305
REQUEST_INVALID: Final = 0x0306  # it names a value that is not allowed
ALREADY_EXISTS: Final = 0x0308  # a queue by that name
UNREADABLE: Final = 0x0307  # the store cannot be read now, or its rows are damaged

# 0x04: a publisher, whose flow is gone; FENCED also a cursor's binding.
FENCED: Final = 0x0401  # the publisher was opened, or the cursor bound, elsewhere
WINDOW_EXCEEDED: Final = 0x0402
SEQUENCE_NOT_ASCENDING: Final = 0x0403

# 0x05: a message. It was refused; the flow stays.
MESSAGE_TOO_LARGE: Final = 0x0501
QUEUE_FULL: Final = 0x0502
SPOOL_FULL: Final = 0x0503
QUEUE_NOT_FOUND: Final = 0x0504
QUEUE_DISABLED: Final = 0x0505
NOBODY_SUBSCRIBES: Final = 0x0506
NOT_STORED: Final = 0x0507
TOPIC_INVALID: Final = 0x0508
LOW_PRIORITY: Final = 0x0509
NOT_PUBLISHED: Final = 0x050A  # a transaction: some queue would not take its part of it
NOT_PERMITTED: Final = 0x050B  # the client's profiles keep it from publishing there, or guaranteed messages
PAYLOAD_INVALID: Final = 0x050C  # it does not fit a rule for its topic

# 0x06: a consumer's flow, in FLOW_STATE.
REVOKED: Final = 0x0601  # the queue is gone, or a right to it

# 0x07: a link between brokers. It is refused, or ends.
LINK_NOT_CONFIGURED: Final = 0x0701  # this broker has no link to a broker of that name
LINK_NAME_TAKEN: Final = 0x0702  # two brokers have one name
LINK_NAME_DIFFERS: Final = 0x0703  # the broker at that address has another name
LINK_NETWORK_DIFFERS: Final = 0x0704
LINK_VERSION_UNKNOWN: Final = 0x0705
LINK_NO_VPN: Final = 0x0706  # no message VPN is linked at both ends
LINK_DUPLICATE: Final = 0x0707  # there is another connection of this link, which stays
LINK_OUT_OF_STEP: Final = 0x0708  # the exchange of interests has to begin again
LINK_REMOVED: Final = 0x0709  # it was removed from the configuration, or its settings have changed

NAMES: Final[dict[int, str]] = {
    NONE: "none",
    SHUTTING_DOWN: "shutting down",
    ADMINISTRATIVE_ACTION: "administrative action",
    MALFORMED: "malformed",
    FRAME_TOO_LARGE: "frame too large",
    VERSION_UNKNOWN: "version unknown",
    CRITICAL_UNKNOWN: "critical unknown",
    OUT_OF_TURN: "out of turn",
    TIMED_OUT: "timed out",
    NOT_AUTHENTICATED: "not authenticated",
    FLOW_ID_UNUSABLE: "flow id unusable",
    LIMIT_EXCEEDED: "limit exceeded",
    INTERNAL: "internal",
    VPN_NOT_ALLOWED: "vpn not allowed",
    VPN_UNAVAILABLE: "vpn unavailable",
    NOT_FOUND: "not found",
    PERMISSION_DENIED: "permission denied",
    DISABLED: "disabled",
    TOO_MANY: "too many",
    IN_USE: "in use",
    REQUEST_INVALID: "request invalid",
    UNREADABLE: "unreadable",
    ALREADY_EXISTS: "already exists",
    FENCED: "fenced",
    WINDOW_EXCEEDED: "window exceeded",
    SEQUENCE_NOT_ASCENDING: "sequence not ascending",
    MESSAGE_TOO_LARGE: "message too large",
    QUEUE_FULL: "queue full",
    SPOOL_FULL: "spool full",
    QUEUE_NOT_FOUND: "queue not found",
    QUEUE_DISABLED: "queue disabled",
    NOBODY_SUBSCRIBES: "nobody subscribes",
    NOT_STORED: "not stored",
    TOPIC_INVALID: "topic invalid",
    LOW_PRIORITY: "low priority",
    NOT_PUBLISHED: "not published",
    NOT_PERMITTED: "not permitted",
    PAYLOAD_INVALID: "payload invalid",
    REVOKED: "revoked",
    LINK_NOT_CONFIGURED: "link not configured",
    LINK_NAME_TAKEN: "link name taken",
    LINK_NAME_DIFFERS: "link name differs",
    LINK_NETWORK_DIFFERS: "link network differs",
    LINK_VERSION_UNKNOWN: "link version unknown",
    LINK_NO_VPN: "link no vpn",
    LINK_DUPLICATE: "link duplicate",
    LINK_OUT_OF_STEP: "link out of step",
    LINK_REMOVED: "link removed",
}


_TEXT_CHARS_MAX: Final = 256  # of a violation, in ERROR


@final
class PeerViolation(Exception):
    """The peer broke a rule, and the connection ends. `code` is one of this module, and goes into ERROR."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text[:_TEXT_CHARS_MAX]


@final
class LocalMisuse(Exception):
    """The caller requested a frame that the protocol cannot express. A bug, not an input error."""


@final
class RequestRefused(Exception):
    """A request of the peer is refused with ERROR; nothing else is affected.

    `may_retry`: it makes sense to try again, whatever the code.
    """

    def __init__(self, code: int, text: str, *, may_retry: bool = False) -> None:
        super().__init__(text)
        self.code = code
        self.may_retry = may_retry


@final
class FlowBroken(Exception):
    """The peer broke a rule of one flow. The flow ends with `code` in ERROR; the connection stays."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
