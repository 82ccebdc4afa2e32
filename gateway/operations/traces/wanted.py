"""Which clients a trace follows: those of a name, or those of a username."""

from dataclasses import dataclass
from typing import Protocol

from sluicegate.gateway.node.servers.server import ClientConnection
from sluicegate.messaging.clients.rights import ClientRights
from sluicegate.protocols.http.connection import HttpConnection


class Wanted(Protocol):
    """The clients of one message VPN that a trace follows."""

    @property
    def vpn(self) -> str:
        """The message VPN."""

    def includes(self, rights: ClientRights) -> bool:
        """Return whether a client that was admitted is one of them."""

    def may_change(self, connection: ClientConnection) -> bool:
        """Return whether the connection may be that of such a client for one request, and not for the next one."""


@dataclass(frozen=True)
class ClientsNamed:
    """The clients of a name: mostly one, with one connection after the other."""

    vpn: str
    name: str

    def includes(self, rights: ClientRights) -> bool:
        """Return whether it has the name."""
        return rights.client == self.name

    def may_change(self, connection: ClientConnection) -> bool:
        """No: a client keeps its name."""
        return False


@dataclass(frozen=True)
class ClientsOf:
    """The clients of a username; of an empty one, those that were admitted without any."""

    vpn: str
    username: str

    def includes(self, rights: ClientRights) -> bool:
        """Return whether it was admitted under the username."""
        return rights.username == self.username

    def may_change(self, connection: ClientConnection) -> bool:
        """In HTTP each request is authenticated by itself, and a proxy sends those of many users."""
        return isinstance(connection, HttpConnection)
