"""The events that a broker reports to operators: kinds, texts, topics, and rate limits.

Names, scopes and topics are those that operators know from Solace. `actors.runtime.events` emits and publishes them;
`messaging.message.thresholds` decides when a quantity crosses its threshold.
"""

from typing import Final, final

SYSTEM: Final = "SYSTEM"
VPN: Final = "VPN"
CLIENT: Final = "CLIENT"
SCOPES: Final = (SYSTEM, VPN, CLIENT)

INFO: Final = "INFO"
NOTICE: Final = "NOTICE"
WARNING: Final = "WARNING"
ERROR: Final = "ERROR"

NOBODY: Final = "-"
SMF_PREFIX: Final = "#LOG"
MQTT_PREFIX: Final = "$SYS/LOG"
CLIENT_LEVEL_CHARS_MAX: Final = 200  # of a client's name in a topic
# These have a meaning in the topics of some protocol, or are not allowed in MQTT topics.
ESCAPED_IN_TOPICS: Final = "%/+#*>\0"

_MORE_THAN_A_WORD: Final = frozenset(" '\"=\\")

RATE_PER_S: Final = 50  # of one kind: a thousand devices that reconnect at once are one incident
BURST: Final = 200


@final
class EventKind:
    """One kind of event. `name` is unique and begins with its scope. `limited` kinds are rate-limited.

    `audit_only` kinds are written to the audit log and nowhere else.
    """

    __slots__ = ("audit_only", "level", "limited", "name", "scope")

    def __init__(self, name: str, level: str, *, limited: bool = True, audit_only: bool = False) -> None:
        self.name = name
        self.level = level
        self.limited = limited
        self.audit_only = audit_only
        self.scope = name.partition("_")[0]
        assert self.scope in SCOPES, name

    def __repr__(self) -> str:
        return f"EventKind({self.name})"


SYSTEM_STARTUP_COMPLETE: Final = EventKind("SYSTEM_SYSTEM_STARTUP_COMPLETE", NOTICE)
SYSTEM_SPOOL_CHANGED: Final = EventKind("SYSTEM_AD_MSG_SPOOL_CHG", WARNING)  # it stops taking messages, or resumes
SYSTEM_SPOOL_FAILED: Final = EventKind("SYSTEM_AD_MSG_SPOOL_FAILED", ERROR)  # ours: not for lack of space
SYSTEM_SPOOL_HIGH: Final = EventKind("SYSTEM_AD_MSG_SPOOL_HIGH", WARNING)
SYSTEM_SPOOL_HIGH_CLEAR: Final = EventKind("SYSTEM_AD_MSG_SPOOL_HIGH_CLEAR", INFO)
SYSTEM_SPOOL_QUOTA_EXCEEDED: Final = EventKind("SYSTEM_AD_MSG_SPOOL_QUOTA_EXCEED", WARNING)
SYSTEM_RECORD_QUARANTINED: Final = EventKind("SYSTEM_AD_RECORD_QUARANTINED", ERROR)  # ours: a record set aside
SYSTEM_BACKUP_COMPLETE: Final = EventKind("SYSTEM_AD_BACKUP_COMPLETE", INFO)  # ours
SYSTEM_BACKUP_FAILED: Final = EventKind("SYSTEM_AD_BACKUP_FAILED", WARNING)
SYSTEM_MESSAGES_HIGH: Final = EventKind("SYSTEM_AD_MSG_COUNT_UTILIZATION_HIGH", WARNING)
SYSTEM_MESSAGES_HIGH_CLEAR: Final = EventKind("SYSTEM_AD_MSG_COUNT_UTILIZATION_HIGH_CLEAR", INFO)
SYSTEM_MESSAGES_EXCEEDED: Final = EventKind("SYSTEM_AD_MSG_COUNT_UTILIZATION_EXCEEDED", WARNING)
SYSTEM_UNACKED_HIGH: Final = EventKind("SYSTEM_AD_DELIVERED_UNACKED_MSGS_HIGH", WARNING)
SYSTEM_UNACKED_HIGH_CLEAR: Final = EventKind("SYSTEM_AD_DELIVERED_UNACKED_MSGS_HIGH_CLEAR", INFO)
SYSTEM_UNACKED_EXCEEDED: Final = EventKind("SYSTEM_AD_DELIVERED_UNACKED_MSGS_EXCEED", WARNING)
# Ours: clients have begun to send more than the limit on what all of them have in memory.
SYSTEM_UNFINISHED_EXCEEDED: Final = EventKind("SYSTEM_CLIENT_UNFINISHED_BYTES_EXCEED", WARNING)
SYSTEM_TLS_FAILED: Final = EventKind("SYSTEM_AUTHENTICATION_SESSION_TLS_START_FAIL", NOTICE)
SYSTEM_LOGIN_DENIED: Final = EventKind("SYSTEM_AUTHENTICATION_SESSION_DENIED", NOTICE)  # at the admin port
# Ours: of the keys that operators' tokens are checked with, where they are fetched from a URL.
SYSTEM_TOKEN_KEYS_UP: Final = EventKind("SYSTEM_OAUTH_KEYS_UP", INFO)
SYSTEM_TOKEN_KEYS_DOWN: Final = EventKind("SYSTEM_OAUTH_KEYS_DOWN", WARNING)
# Ours: what an operator changed, or was refused. Only account holders cause it, and an audit must have no gaps.
SYSTEM_ADMIN_COMMAND: Final = EventKind("SYSTEM_ADMIN_COMMAND", INFO, limited=False)
# Ours: what an operator read, or was not permitted to read. Consoles and scripts ask every few seconds.
SYSTEM_ADMIN_QUERY: Final = EventKind("SYSTEM_ADMIN_QUERY", INFO, audit_only=True)
# Ours: what is stored of passwords has left the node. Only an admin causes it, and an audit must have no gaps.
SYSTEM_PASSWORD_HASHES_EXPORTED: Final = EventKind("SYSTEM_PASSWORD_HASHES_EXPORT", NOTICE, limited=False)
# Ours: of several brokers on one machine.
SYSTEM_BROKER_UNRESPONSIVE: Final = EventKind("SYSTEM_BROKER_UNRESPONSIVE", WARNING)
SYSTEM_BROKER_UNRESPONSIVE_CLEAR: Final = EventKind("SYSTEM_BROKER_UNRESPONSIVE_CLEAR", INFO)
SYSTEM_BROKER_ENDED: Final = EventKind("SYSTEM_BROKER_ENDED", ERROR)
# Of a broker with replicas.
SYSTEM_HA_OWNER: Final = EventKind("SYSTEM_HA_OWNER", NOTICE)
SYSTEM_HA_STANDBY_DOWN: Final = EventKind("SYSTEM_HA_STANDBY_DOWN", WARNING)
SYSTEM_HA_STANDBY_UP: Final = EventKind("SYSTEM_HA_STANDBY_UP", INFO)
SYSTEM_HA_STANDBY_DROPPED: Final = EventKind("SYSTEM_HA_STANDBY_DROPPED", WARNING)  # the log waits for it no longer
SYSTEM_HA_LEVEL: Final = EventKind("SYSTEM_HA_LEVEL", NOTICE)  # the log has a higher feature level
SYSTEM_HA_LOG_DOWN: Final = EventKind("SYSTEM_HA_LOG_DOWN", ERROR)
SYSTEM_HA_LOG_UP: Final = EventKind("SYSTEM_HA_LOG_UP", NOTICE)
SYSTEM_HA_DISK_FULL: Final = EventKind("SYSTEM_HA_DISK_FULL", WARNING)  # the owner's: it hands over
SYSTEM_HA_CLOCK: Final = EventKind("SYSTEM_HA_CLOCK", WARNING)  # this machine's is not believed
# Of a broker with two sites.
SYSTEM_REPLICATION_DOWN: Final = EventKind("SYSTEM_REPLICATION_DOWN", WARNING)  # the standby site is behind for long
SYSTEM_REPLICATION_UP: Final = EventKind("SYSTEM_REPLICATION_UP", INFO)
# Ours: Solace's brokers have these in their command log.
SYSTEM_VPN_CREATED: Final = EventKind("SYSTEM_VPN_CREATE", NOTICE)
SYSTEM_VPN_DELETED: Final = EventKind("SYSTEM_VPN_DELETE", NOTICE)
# Ours: Solace names such events after routing and bridging.
SYSTEM_LINK_UP: Final = EventKind("SYSTEM_NETWORK_LINK_UP", NOTICE)
SYSTEM_LINK_DOWN: Final = EventKind("SYSTEM_NETWORK_LINK_DOWN", WARNING)
# A neighbor is linked to a broker that this one has no link to: it does not get what is published here.
SYSTEM_LINK_MISSING: Final = EventKind("SYSTEM_NETWORK_LINK_MISSING", WARNING)
SYSTEM_LINK_MISSING_CLEAR: Final = EventKind("SYSTEM_NETWORK_LINK_MISSING_CLEAR", INFO)
# What it had confirmed since its backup is lost there.
SYSTEM_NEIGHBOR_RESTORED: Final = EventKind("SYSTEM_NETWORK_NEIGHBOR_RESTORED", WARNING)
SYSTEM_LINK_REJECTED: Final = EventKind("SYSTEM_NETWORK_LINK_REJECTED", WARNING)  # by this broker, or by the neighbor
# Messages of a neighbor have waited for a second, because the message VPN, the node or the disk has no room for them.
SYSTEM_LINK_WAITS: Final = EventKind("SYSTEM_NETWORK_LINK_WAITS_FOR_ROOM", WARNING)
SYSTEM_LINK_WAITS_CLEAR: Final = EventKind("SYSTEM_NETWORK_LINK_WAITS_FOR_ROOM_CLEAR", INFO)
SYSTEM_LINK_LEFT_OUT: Final = EventKind("SYSTEM_NETWORK_INTEREST_LEFT_OUT", WARNING)  # the neighbor takes no such frame
SYSTEM_LINK_CLOCK: Final = EventKind("SYSTEM_NETWORK_CLOCK_AHEAD", WARNING)  # of a neighbor

VPN_STATE_CHANGED: Final = EventKind("VPN_VPN_STATE_CHANGE", NOTICE)  # it admits clients, or does so no longer
# Ours: of the keys that clients' tokens are checked with, likewise.
VPN_TOKEN_KEYS_UP: Final = EventKind("VPN_OAUTH_KEYS_UP", INFO)
VPN_TOKEN_KEYS_DOWN: Final = EventKind("VPN_OAUTH_KEYS_DOWN", WARNING)
VPN_SPOOL_HIGH: Final = EventKind("VPN_AD_MSG_SPOOL_HIGH", WARNING)  # of the VPN, or of one queue
VPN_SPOOL_HIGH_CLEAR: Final = EventKind("VPN_AD_MSG_SPOOL_HIGH_CLEAR", INFO)
VPN_SPOOL_QUOTA_EXCEEDED: Final = EventKind("VPN_AD_MSG_SPOOL_QUOTA_EXCEED", WARNING)
VPN_RETAINED_EXCEEDED: Final = EventKind("VPN_MQTT_RETAIN_QUOTA_EXCEED", WARNING)  # ours
VPN_LOW_PRIORITY_HIGH: Final = EventKind("VPN_AD_MSG_SPOOL_REJECT_LOW_PRIORITY_MSG_LIMIT_HIGH", WARNING)
VPN_LOW_PRIORITY_HIGH_CLEAR: Final = EventKind("VPN_AD_MSG_SPOOL_REJECT_LOW_PRIORITY_MSG_LIMIT_HIGH_CLEAR", INFO)
VPN_LOW_PRIORITY_EXCEEDED: Final = EventKind("VPN_AD_MSG_SPOOL_REJECT_LOW_PRIORITY_MSG_LIMIT_EXCEED", WARNING)
VPN_BINDS_HIGH: Final = EventKind("VPN_AD_BIND_COUNT_HIGH", WARNING)
VPN_BINDS_HIGH_CLEAR: Final = EventKind("VPN_AD_BIND_COUNT_HIGH_CLEAR", INFO)
VPN_QUEUE_CREATED: Final = EventKind("VPN_AD_QENDPT_CREATE", INFO)
VPN_QUEUE_DELETED: Final = EventKind("VPN_AD_QENDPT_DELETE", INFO)
# Ours: a queue begins to move to another broker, and stays after all; that it has moved, the two above say.
VPN_QUEUE_MOVE: Final = EventKind("VPN_AD_QENDPT_MOVE", INFO)
VPN_QUEUE_MOVE_CANCELLED: Final = EventKind("VPN_AD_QENDPT_MOVE_CANCELLED", INFO)
VPN_QUEUE_MOVE_WAITS: Final = EventKind("VPN_AD_QENDPT_MOVE_WAITS", WARNING)  # ours: for a minute, for one reason
# Ours: several brokers of a network have a queue of one name, so each serves its own clients only.
VPN_QUEUE_NAME_CONFLICT: Final = EventKind("VPN_AD_QENDPT_NAME_CONFLICT", WARNING)
VPN_QUEUE_NAME_CONFLICT_CLEAR: Final = EventKind("VPN_AD_QENDPT_NAME_CONFLICT_CLEAR", INFO)
# Ours: a queue has its messages, but its definition is unknown; later it is known again, or the queue is gone.
VPN_DEFINITION_LOST: Final = EventKind("VPN_AD_QENDPT_DEFINITION_LOST", ERROR)
VPN_DEFINITION_LOST_CLEAR: Final = EventKind("VPN_AD_QENDPT_DEFINITION_LOST_CLEAR", INFO)
VPN_DEAD_MSG_STUCK: Final = EventKind("VPN_AD_DEAD_MSG_MOVE_FAILED", ERROR)  # ours: a fault or the store
VPN_DEAD_MSG_STUCK_CLEAR: Final = EventKind("VPN_AD_DEAD_MSG_MOVE_FAILED_CLEAR", INFO)
VPN_DEAD_MSG_LOST: Final = EventKind("VPN_AD_DEAD_MSG_LOST", WARNING)  # ours: no dead message queue takes it
VPN_MESSAGE_UNWRITABLE: Final = EventKind("VPN_AD_MSG_UNWRITABLE", ERROR)  # ours: rejected after a fault
VPN_REBALANCE_STARTED: Final = EventKind("VPN_AD_PARTITIONED_QUEUE_REBALANCE_STARTED", INFO)
VPN_REBALANCE_COMPLETED: Final = EventKind("VPN_AD_PARTITIONED_QUEUE_REBALANCE_COMPLETED", INFO)
# Ours: the selectors of consumers of a partitioned queue differ: a message may wait for an owner that never takes it.
VPN_SELECTORS_DIFFER: Final = EventKind("VPN_AD_PARTITIONED_QUEUE_SELECTORS_DIFFER", WARNING)
VPN_SELECTORS_DIFFER_CLEAR: Final = EventKind("VPN_AD_PARTITIONED_QUEUE_SELECTORS_DIFFER_CLEAR", INFO)
VPN_REST_CONSUMER_UP: Final = EventKind("VPN_REST_CONSUMER_UP", INFO)
VPN_REST_CONSUMER_DOWN: Final = EventKind("VPN_REST_CONSUMER_DOWN", WARNING)
# Ours: the address of a web server is not permitted as a push target.
VPN_REST_TARGET_REFUSED: Final = EventKind("VPN_REST_CONSUMER_TARGET_REFUSED", WARNING)
VPN_QUEUE_BINDING_UP: Final = EventKind("VPN_REST_DELIVERY_POINT_BINDING_UP", INFO)
VPN_QUEUE_BINDING_DOWN: Final = EventKind("VPN_REST_DELIVERY_POINT_BINDING_DOWN", WARNING)
VPN_BRIDGE_UP: Final = EventKind("VPN_BRIDGING_LINK_UP", INFO)
VPN_BRIDGE_DOWN: Final = EventKind("VPN_BRIDGING_LINK_DOWN", WARNING)
# Ours: of one rule of a bridge, which has a queue here, or publishes here.
VPN_BRIDGE_RULE_UP: Final = EventKind("VPN_BRIDGING_RULE_UP", INFO)
VPN_BRIDGE_RULE_DOWN: Final = EventKind("VPN_BRIDGING_RULE_DOWN", WARNING)
VPN_BRIDGE_RULE_LOWERED: Final = EventKind("VPN_BRIDGING_RULE_LOWERED", WARNING)
VPN_CURSOR_LAG_EXCEEDED: Final = EventKind("VPN_AD_CURSOR_LAG_EXCEED", WARNING)  # ours: a durable cursor was released
VPN_CURSOR_LAG_CLEAR: Final = EventKind("VPN_AD_CURSOR_LAG_CLEAR", INFO)
VPN_CURSOR_BINDING_LOST: Final = EventKind("VPN_AD_CURSOR_BINDING_LOST", NOTICE)  # no heartbeat in time

CLIENT_CONNECTED: Final = EventKind("CLIENT_CLIENT_CONNECT", INFO)
CLIENT_DISCONNECTED: Final = EventKind("CLIENT_CLIENT_DISCONNECT", INFO)
# A publisher flow carries the guaranteed messages of a client.
CLIENT_FLOW_OPENED: Final = EventKind("CLIENT_CLIENT_OPEN_FLOW", INFO)
CLIENT_FLOW_CLOSED: Final = EventKind("CLIENT_CLIENT_CLOSE_FLOW", INFO)
CLIENT_BOUND: Final = EventKind("CLIENT_CLIENT_BIND_SUCCESS", INFO)
CLIENT_BIND_FAILED: Final = EventKind("CLIENT_CLIENT_BIND_FAILED", NOTICE)
CLIENT_UNBOUND: Final = EventKind("CLIENT_CLIENT_UNBIND", INFO)
# Solace has the next four in its ACL log.
CLIENT_CONNECT_FAILED: Final = EventKind("CLIENT_CLIENT_CONNECT_FAIL", NOTICE)
CLIENT_PUBLISH_DENIED: Final = EventKind("CLIENT_CLIENT_PUBLISH_DENIED", NOTICE)
CLIENT_SUBSCRIBE_DENIED: Final = EventKind("CLIENT_CLIENT_SUBSCRIBE_DENIED", NOTICE)
CLIENT_PERMISSION_DENIED: Final = EventKind("CLIENT_CLIENT_PERMISSION_DENIED", NOTICE)
# Ours: a payload does not fit a rule of the message VPN, whatever the rule does then.
CLIENT_PAYLOAD_INVALID: Final = EventKind("CLIENT_CLIENT_PAYLOAD_INVALID", NOTICE)
CLIENT_PARTITION_ASSIGNED: Final = EventKind("CLIENT_AD_PARTITIONED_QUEUE_ASSIGNED", INFO)


# For audits: clients admitted or refused, actions denied, objects created and deleted.
AUDITED: Final = frozenset(
    {
        SYSTEM_TLS_FAILED,
        SYSTEM_LOGIN_DENIED,
        SYSTEM_ADMIN_COMMAND,
        SYSTEM_ADMIN_QUERY,
        SYSTEM_PASSWORD_HASHES_EXPORTED,
        SYSTEM_VPN_CREATED,
        SYSTEM_VPN_DELETED,
        VPN_QUEUE_CREATED,
        VPN_QUEUE_DELETED,
        VPN_QUEUE_MOVE,
        VPN_QUEUE_MOVE_CANCELLED,
        CLIENT_CONNECTED,
        CLIENT_DISCONNECTED,
        CLIENT_BOUND,
        CLIENT_BIND_FAILED,
        CLIENT_UNBOUND,
        CLIENT_CONNECT_FAILED,
        CLIENT_PUBLISH_DENIED,
        CLIENT_SUBSCRIBE_DENIED,
        CLIENT_PERMISSION_DENIED,
        CLIENT_PAYLOAD_INVALID,
    }
)


@final
class Event:
    """One event that occurred."""

    __slots__ = ("client", "description", "details", "kind", "vpn", "wall_ms")

    def __init__(
        self,
        kind: EventKind,
        description: str,
        *,
        vpn: str,
        client: str,
        wall_ms: int,
        details: dict[str, str] | None = None,
    ) -> None:
        self.kind = kind
        self.description = description
        self.vpn = vpn  # NOBODY for the node
        self.client = client  # its name, or NOBODY
        self.wall_ms = wall_ms
        self.details = details  # parts of the description by name, for programs

    def text(self) -> str:
        """Return the line that is logged and published: `SCOPE: EVENT: vpn client description`."""
        return f"{self.kind.scope}: {self.kind.name}: {self.vpn} {as_word(self.client)} {self.description}"

    def topic(self, prefix: str, router: str) -> str:
        """Return the topic below SMF_PREFIX or MQTT_PREFIX, as in `#LOG/INFO/CLIENT/router/EVENT/vpn/client`."""
        kind = self.kind
        topic = f"{prefix}/{kind.level}/{kind.scope}/{router}/{kind.name}"
        if kind.scope == SYSTEM:
            return topic
        if kind.scope == VPN:
            return f"{topic}/{self.vpn}"
        return f"{topic}/{self.vpn}/{topic_level(self.client)}"

    def __repr__(self) -> str:
        return f"Event({self.text()!r})"


def as_word(name: str) -> str:
    """Return a name that a client chose as one word of a text: quoted and escaped where it could be read as more.

    Otherwise a name such as `a connected, b` would report what did not happen.
    """
    return name if name and name.isprintable() and _MORE_THAN_A_WORD.isdisjoint(name) else repr(name)


def topic_level(name: str) -> str:
    """Return a client's name as one level of a topic, percent-encoded where it would not be exactly one."""
    shown = name[:CLIENT_LEVEL_CHARS_MAX]
    return "".join([f"%{ord(each):02X}" if each in ESCAPED_IN_TOPICS else each for each in shown])


@final
class EventAllowance:
    """A rate limit for events of one kind: BURST at once, RATE_PER_S in the long run.

    Invariant: `0 <= left <= BURST`.
    """

    __slots__ = ("_filled_ms", "_left_thousandths")

    def __init__(self, now_ms: int) -> None:
        self._left_thousandths = BURST * 1000
        self._filled_ms = now_ms

    def take(self, now_ms: int) -> bool:
        """Use one; return False when none is left."""
        refill = (now_ms - self._filled_ms) * RATE_PER_S
        self._filled_ms = now_ms
        left = min(BURST * 1000, self._left_thousandths + refill)
        self._left_thousandths = left - 1000 if left >= 1000 else left
        return left >= 1000
