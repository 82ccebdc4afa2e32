"""The message VPN of a client. The connections of a protocol find it once, before they admit the client.

It is the VPN of the listener, unless the client names one: in its protocol's own way, or behind its user name, as in
`alice@sales`. VPNs themselves belong to the gateway; a protocol has its own services of each.
"""

from collections.abc import Mapping
from typing import Final, Generic, Protocol, TypeVar, final

from sluicegate.messaging.clients.rights import NOT_AUTHENTICATED, VPN_UNKNOWN, ClientDenied
from sluicegate.messaging.clients.roster import ClientRoster
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.protocols.connection.passed_client import PassedClient
from sluicegate.protocols.security.authentication import Authenticator

SEPARATOR: Final = "@"
NAME_SHOWN_CHARS_MAX: Final = 80  # of a name that a stranger gave


class VpnServices(Protocol):
    """What connections of every protocol use of a VPN to admit a client."""

    @property
    def authenticator(self) -> Authenticator:
        """Authenticates clients."""

    @property
    def clients(self) -> ClientRoster:
        """Admits clients."""


S = TypeVar("S", bound=VpnServices)


@final
class MessageVpns(Generic[S]):
    """The VPNs of a node, with what the connections of one protocol use of each. `default` is among them.

    A connection keeps the object that was in force when it was made, with the limits that it began with. VPNs that are
    created or deleted later concern it all the same: it finds them by `successor`.
    """

    def __init__(self, services: Mapping[str, S], listeners: Mapping[str, str]) -> None:
        """`listeners` are the VPNs of listeners, by their names; of others it is `default`."""
        self._services = dict(services)
        self._listeners = dict(listeners)
        self.successor: MessageVpns[S] | None = None  # what a reload has put in the place of this

    def put(self, name: str, services: S) -> None:
        """Add a VPN that was created."""
        self._services[name] = services

    def remove(self, name: str) -> None:
        """Remove a VPN that was deleted."""
        self._services.pop(name, None)

    @property
    def default(self) -> S:
        """What connections use until they know better."""
        return self._services[DEFAULT_VPN]

    def of_listener(self, listener: str) -> S:
        """Return the services for a client of a listener that names no VPN."""
        return self._services[self._listeners.get(listener, DEFAULT_VPN)]

    def named(self, name: str, here: S, client: str) -> S:
        """Return the services of a VPN. Raises ClientDenied, counted and told in the VPN where the client is so far."""
        found = self.find(name)
        if found is None:
            text = f"403 Message VPN Not Allowed: there is no message VPN {name[:NAME_SHOWN_CHARS_MAX]!r}"
            here.clients.denials.deny(VPN_UNKNOWN, client, text)
            raise ClientDenied(VPN_UNKNOWN, text)
        return found

    def of_passed(self, client: PassedClient, here: S) -> S:
        """Return the services of the VPN of a client that another broker of this machine has authenticated.

        What a backend has granted its user holds here too. Raises ClientDenied, counted and told, where it cannot.
        """
        found = self.named(client.vpn, here, client.name)
        user_name, granted = client.principal.user_name, client.granted
        if granted is not None and not found.authenticator.takes_over(user_name, granted):
            text = (
                f"401 Unauthorized: user {user_name!r}, whom another broker of this machine let in, cannot come in here"
            )
            found.clients.denials.deny(NOT_AUTHENTICATED, client.name, text)
            raise ClientDenied(NOT_AUTHENTICATED, text)
        return found

    def of_user(self, user_name: str, here: S, client: str) -> tuple[str, S]:
        """Return a user's own name, and the services of the VPN that it names behind its last `@`, or of `here`.

        Names with an `@` of their own stay whole where they are those of an account, and on a node that has `default`
        only, unless they end in `@default`. So do names that end like that of an account and in no VPN: were those
        refused for that, it would show which of them are accounts. Raises ClientDenied.
        """
        name = self.named_by(user_name, here)
        if name is None:
            return user_name, here
        return user_name[: -len(name) - len(SEPARATOR)], self.named(name, here, client)

    def named_by(self, user_name: str, here: S) -> str | None:
        """Return the VPN that a user name names, which may not exist; None: it names none. See `of_user`."""
        _, separator, name = user_name.rpartition(SEPARATOR)
        if not separator or here.authenticator.knows(user_name):
            return None
        if len(self._latest()._services) == 1 and name != DEFAULT_VPN:
            return None
        if self.find(name) is None and here.authenticator.knows_domain(user_name):
            return None
        return name

    def find(self, name: str) -> S | None:
        """Return the services of a VPN: those of this object, if the VPN is still the same."""
        latest = self._latest()._services.get(name)
        own = self._services.get(name)
        return own if latest is not None and own is not None and own.clients is latest.clients else latest

    def _latest(self) -> "MessageVpns[S]":
        latest = self
        while latest.successor is not None:
            latest = latest.successor
        return latest
