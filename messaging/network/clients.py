"""The MQTT clients of one message VPN, as the brokers of a network know them: whose connection is the newest.

A client identifier is one client in the whole network: the connection that began last stays, and an earlier one ends.
Each broker stamps the connections that begin at it, and tells its neighbors. A stamp is the broker's wall clock in
milliseconds, or the latest stamp that it has seen plus one, if that is later; equal ones are ordered by the brokers'
names. So all brokers choose the same connection, in whatever order they hear, and a client that moves wins over the
connection that it has left, whatever the clocks show. Stamps order and decide nothing else: a wrong clock loses
nothing.

Without links nothing is kept and nobody is told.
"""

from typing import Final, NamedTuple, final

from mypy_extensions import mypyc_attr

from sluicegate.messaging.message.address import Address


class ClientSeen(NamedTuple):
    """A connection of a client at one broker."""

    client_id: str
    stamp: int  # 0: it began before its broker had links
    user: str  # empty: anonymous
    is_clean: bool  # it began without a former session
    is_news: bool  # it has just begun; else it began while there was no link


@mypyc_attr(allow_interpreted_subclasses=True)  # tests derive it
class ClientsOutput:
    """The way to one neighbor. A class and not a Protocol, like `Address`."""

    def client_connected(self, seen: ClientSeen) -> None:
        """Tell the neighbor of a connection. Never blocks."""
        raise AssertionError("client_connected is abstract")


@final
class ConnectedElsewhere:
    """Link -> directory of sessions: clients have connections at a neighbor."""

    __slots__ = ("broker", "clients", "output")

    def __init__(self, broker: str, clients: list[ClientSeen], output: ClientsOutput) -> None:
        self.broker = broker
        self.clients = clients
        self.output = output  # is told of newer connections here


@final
class NoteConnected:
    """Links -> directory of sessions: note those who are connected (`NetworkClients.were_connected`)."""

    __slots__ = ()


@final
class NetworkClients:
    """The clients that are connected to this broker by their own identifiers, while it has links."""

    def __init__(self, broker: str) -> None:
        self.broker: Final = broker
        self.directory: Address | None = None  # of sessions; set when it starts
        self.ended_count = 0  # connections that have ended because their clients connected at a neighbor
        self.other_user_count = 0  # connections at neighbors, of other users than the session here
        self.last_stamp = 0
        self._outputs: list[ClientsOutput] = []
        self._connected: dict[str, ClientSeen] = {}  # in the order of their stamps

    @property
    def has_links(self) -> bool:
        """Whether there is somebody to tell."""
        return bool(self._outputs)

    def join(self, output: ClientsOutput) -> None:
        """Begin to tell a neighbor."""
        if not self._outputs and self.directory is not None:
            self.directory.post(NoteConnected())
        self._outputs.append(output)

    def leave(self, output: ClientsOutput) -> None:
        """Tell a neighbor no more."""
        self._outputs.remove(output)
        if not self._outputs:
            self._connected = {}

    def were_connected(self, clients: list[tuple[str, str]]) -> None:
        """Note clients, each with its user, that were connected before there were links."""
        since = self._connected
        earlier = [ClientSeen(name, 0, user, False, False) for name, user in clients if name not in since]
        self._connected = {seen.client_id: seen for seen in earlier}
        self._connected.update(since)

    def connected(self, client_id: str, user: str, *, is_clean: bool, wall_ms: int) -> None:
        """Note a connection that begins, and tell all neighbors."""
        self.last_stamp = max(wall_ms, self.last_stamp + 1)
        seen = ClientSeen(client_id, self.last_stamp, user, is_clean, True)
        self._connected.pop(client_id, None)
        self._connected[client_id] = seen
        for output in self._outputs:
            output.client_connected(seen)

    def gone(self, client_id: str) -> None:
        """Note that a client has no connection any more."""
        self._connected.pop(client_id, None)

    def known(self, client_id: str) -> ClientSeen | None:
        """Return the connection of a client; None: none that neighbors hear of."""
        return self._connected.get(client_id)

    def since(self, stamp: int) -> list[ClientSeen]:
        """Return the connections with this stamp or a later one, for a neighbor that may not know them."""
        found: list[ClientSeen] = []
        for seen in reversed(self._connected.values()):
            if seen.stamp < stamp:
                break
            found.append(ClientSeen(seen.client_id, seen.stamp, seen.user, seen.is_clean, False))
        found.reverse()
        return found

    def heard(self, stamp: int) -> None:
        """Stamp later than this from now on: a neighbor has given it."""
        self.last_stamp = max(self.last_stamp, stamp)

    def is_newer(self, elsewhere: ClientSeen, broker: str) -> bool:
        """Return whether a connection at a neighbor is newer than the one here."""
        here = self._connected.get(elsewhere.client_id)
        stamp = 0 if here is None else here.stamp
        if elsewhere.stamp != stamp:
            return elsewhere.stamp > stamp
        return broker > self.broker
