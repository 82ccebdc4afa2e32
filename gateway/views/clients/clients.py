"""Views of connected clients, and the query that selects clients."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

CLIENTS_MAX: Final = 10_000  # of one answer
CLIENTS_DEFAULT: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientView:
    """One connection of a client that was admitted."""

    name: str  # client id, container id or what else its protocol calls it
    client_username: str  # empty: anonymous
    protocol: str
    address: str  # host and port of its end of the connection
    client_profile: str
    acl_profile: str
    connected_s: int  # for how long
    flows_count: int  # queues' flows of the client under this protocol
    unacked_count: int  # messages that it holds unsettled
    messages_received: int  # from it, over this connection
    messages_sent: int  # to it
    bytes_received: int
    bytes_sent: int
    is_paused: bool  # its connection is not read: a destination is full, a request is under way, or it exceeds its rate


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientsView:
    """One page of clients."""

    total_count: int  # of those that were asked for, on this page or not
    clients: tuple[ClientView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuery:
    """Which clients to return, by name. `*` stands for any characters, `?` for one; an empty name is for all."""

    client_name: str = ""
    names: Collection[str] | None = None  # only clients of these names, which are no patterns
    after: int = 0  # clients to pass over
    limit: int = CLIENTS_DEFAULT
