"""The limits of clients: the profile of one client, and the quotas of a message VPN for all its clients together.

A profile says what the clients of a username may do, and how much; it is named as in Solace, and plain data.
`messaging.clients.roster` counts what all connections of a username share, and `messaging.clients.rights` counts what
each connection has for itself. Of the quotas of a message VPN, the roster counts connections, the queue directory
queues, the topic space subscriptions, and the session directory MQTT sessions.
"""

from dataclasses import dataclass
from typing import Final, final

from sluicegate.messaging.limits.quota import SharedQuota
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.topics.subscription_index import subscription_bytes
from sluicegate.messaging.topics.syntax import TopicFilter

UNLIMITED: Final = 0  # of rates
COUNT_MAX: Final = 1_000_000  # above the range of every limit in a profile
NO_QUOTA: Final = 1 << 40


@dataclass(frozen=True, kw_only=True)
class ClientProfile:
    """One profile. A count limits what exists at the same time."""

    name: str
    dto_local_priority: int = 1  # for Deliver-To-One: 1 (the best) to 4, or DELIVER_ALWAYS
    allow_guaranteed_msg_send_enabled: bool = True
    allow_guaranteed_msg_receive_enabled: bool = True
    allow_guaranteed_endpoint_create_enabled: bool = True
    allow_shared_subscriptions_enabled: bool = True
    allow_transacted_sessions_enabled: bool = True
    allow_bridge_connections_enabled: bool = False  # links of other brokers
    max_connection_count: int = COUNT_MAX  # of all usernames that have this profile
    max_connection_count_per_client_username: int = COUNT_MAX
    max_egress_flow_count: int = COUNT_MAX  # a client's flows on queues
    max_ingress_flow_count: int = COUNT_MAX  # a client's publisher flows
    max_subscription_count: int = COUNT_MAX  # a client's subscriptions to topics
    max_endpoint_count_per_client_username: int = COUNT_MAX  # queues created and owned by clients of a username
    max_msg_rate: int = UNLIMITED  # messages a second taken from a client; further ones wait


@final
class VpnQuota:
    """The quotas of one message VPN. A configuration may change them at any time; what exists already stays."""

    def __init__(self, space: TopicSpace | None = None) -> None:
        self.connection_count_max = NO_QUOTA
        self.endpoint_count_max = NO_QUOTA
        self.subscription_count_max = NO_QUOTA
        self.subscription_bytes_max = NO_QUOTA
        self.session_count_max = NO_QUOTA  # of MQTT sessions that outlive their connections
        self.session_bytes_max = NO_QUOTA  # of all MQTT sessions
        self.shared: SharedQuota | None = None  # what the other brokers of this machine have of it
        self._space = space  # counts the subscriptions; None: not counted

    def subscriptions_refusal(self, filters: list[TopicFilter], count: int, beside_bytes: int = 0) -> str:
        """Return why `count` more subscriptions with these filters are refused; empty: they are not.

        They are of clients or queues. Beside their filters they count for `beside_bytes`, which is negative where they
        replace others. Subscriptions that take no more than before are never refused for their bytes.
        """
        space = self._space
        if space is None:
            return ""
        shared = self.shared
        counted, count_max = space.subscriptions_count + count, self.subscription_count_max
        if count > 0 and (
            counted > count_max or (shared is not None and not shared.subscriptions.admits(counted, count_max))
        ):
            return f"the VPN has {self.subscription_count_max}"
        size = beside_bytes + sum([subscription_bytes(each) for each in filters])
        taken, bytes_max = space.subscriptions_bytes + size, self.subscription_bytes_max
        if size > 0 and (
            taken > bytes_max or (shared is not None and not shared.subscription_bytes.admits(taken, bytes_max))
        ):
            return f"those of the VPN take {self.subscription_bytes_max} bytes"
        return ""
