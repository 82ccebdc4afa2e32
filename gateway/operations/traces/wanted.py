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

    def authenticates_each_request(self, connection: ClientConnection) -> bool:
        """Return whether each request of the connection says by itself whether it is of such a client."""


@dataclass(frozen=True)
class ClientsNamed:
    """The clients of a name: mostly one, with one connection after the other."""

    vpn: str
    name: str

    def includes(self, rights: ClientRights) -> bool:
        """Return whether it has the name."""
        return rights.client == self.name

    def authenticates_each_request(self, connection: ClientConnection) -> bool:
        """No: the connection is the client's, and has its name from its first request on."""
        return False


@dataclass(frozen=True)
class ClientsOf:
    """The clients of a username; of an empty one, those that were admitted without any."""

    vpn: str
    username: str

    def includes(self, rights: ClientRights) -> bool:
        """Return whether it was admitted under the username."""
        return rights.username == self.username

    def authenticates_each_request(self, connection: ClientConnection) -> bool:
        """In HTTP: a proxy sends the requests of many users on one connection."""
        return isinstance(connection, HttpConnection)
