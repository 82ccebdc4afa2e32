"""Client profiles: what the clients of a username may do, and how much. Named as in Solace.

A profile is plain data. `messaging.clients.roster` counts what all connections of a username share, and
`messaging.clients.rights` counts what each connection has for itself.
"""

from dataclasses import dataclass
from typing import Final

UNLIMITED: Final = 0  # of rates
COUNT_MAX: Final = 1_000_000  # above the range of every limit below


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
    max_connection_count: int = COUNT_MAX  # of all usernames that have this profile
    max_connection_count_per_client_username: int = COUNT_MAX
    max_egress_flow_count: int = COUNT_MAX  # a client's flows on queues
    max_ingress_flow_count: int = COUNT_MAX  # a client's publisher flows
    max_subscription_count: int = COUNT_MAX  # a client's subscriptions to topics
    max_endpoint_count_per_client_username: int = COUNT_MAX  # queues created and owned by clients of a username
    max_msg_rate: int = UNLIMITED  # messages a second taken from a client; further ones wait
