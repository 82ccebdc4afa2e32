"""The requests of one HTTP connection with their responses, and whose each of them was.

Each request is authenticated by itself, and a proxy sends those of many users on one connection. So who was admitted
is asked of the very request that the connection has answered, when its response begins to pass.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import TypeAlias

from sluicegate.gateway.views.clients.traces import TracedPacket
from sluicegate.messaging.clients.rights import ClientRights
from sluicegate.protocols.http.codec.message_in import VPN_HEADER
from sluicegate.protocols.http.codec.requests import Request, basic_credentials
from sluicegate.protocols.http.connection import HttpConnection

Fields: TypeAlias = list[tuple[str, str]]


@dataclass(slots=True)
class Exchange:
    """A request and its response."""

    method: str
    is_shown: bool  # it is for the message VPN of the trace
    authorization: str = field(default="", repr=False)
    is_responded: bool = False  # its response has begun to pass, so it is known whose it is
    rights: ClientRights | None = None  # of the client that the request was admitted as; None: it was not
    vpn: str = ""  # that it was admitted to
    pending: list[TracedPacket] = field(default_factory=list)  # until it is known whose it is
    left_out_count: int = 0  # packets before that, for which there was no room


class Exchanges:
    """The requests of one connection whose responses have not passed, oldest first: both directions need them.

    The trace reads the same bytes as the connection, so its n-th request is the n-th of the connection. It may begin
    within a request that it does not see: so it counts from the first on that it sees whole.
    """

    def __init__(self, connection: HttpConnection, vpn: str) -> None:
        """`vpn` is the message VPN whose requests may be shown."""
        self._connection = connection
        self._vpn = vpn
        self._unanswered: deque[Exchange] = deque()
        self._is_in_step = False  # a request was seen, so the unanswered ones are known
        responding, unanswered = connection.responding_requests(), connection.unanswered_requests()
        self._latest = responding[-1] if responding else None  # of those that were taken up
        self._responding = deque(unanswered[:1])  # in the connection, whose responses have not begun to pass
        self._responded: Request | None = None  # whose response was the latest to begin

    def requested(self, method: str, fields: Fields) -> Exchange:
        """Take a request, before the connection does."""
        if not self._is_in_step:
            self._is_in_step = True
            waiting = [each for each in self._connection.unanswered_requests() if each is not self._responded]
            self._unanswered = deque(self._exchange_of(each) for each in waiting)
        exchange = self._exchange(method, fields)
        self._unanswered.append(exchange)
        return exchange

    def responded(self, status: int) -> Exchange:
        """Return the exchange of a response with this status. Interim responses leave the request unanswered.

        An interim response is not written before the request was admitted.
        """
        self._take_up()
        is_final = status >= 200
        request = self._responding[0] if self._responding else None
        if is_final and request is not None:
            self._responded = self._responding.popleft()
        if not self._unanswered:  # its beginning came before the trace's, or it is none
            exchange = self._exchange_of(request)
        else:
            exchange = self._unanswered.popleft() if is_final else self._unanswered[0]
        exchange.is_responded = True
        if request is not None and request.header("authorization").strip() == exchange.authorization:
            exchange.rights, exchange.vpn = request.rights, request.vpn
        return exchange

    def _take_up(self) -> None:
        """Take up the requests whose responses are in what the connection has just written."""
        found = self._connection.responding_requests()
        known = next((at for at, each in enumerate(found) if each is self._latest), -1)
        self._responding += found[known + 1 :]
        if found:
            self._latest = found[-1]

    def _exchange_of(self, request: Request | None) -> Exchange:
        if request is None:
            return Exchange("", self._connection.identity.vpn == self._vpn)
        return self._exchange(request.method, request.fields)

    def _exchange(self, method: str, fields: Fields) -> Exchange:
        by_name = {name.lower(): value for name, value in fields}
        return Exchange(method, self._is_here(by_name), by_name.get("authorization", "").strip())

    def _is_here(self, by_name: dict[str, str]) -> bool:
        """Return whether a request is for this message VPN, as signing in will find."""
        connection = self._connection
        here = connection.listener_services
        if named := by_name.get(VPN_HEADER):
            found = connection.vpns.find(named)
            if found is None:
                return False
            here = found
        scheme, _, value = by_name.get("authorization", "").partition(" ")
        if scheme.lower() == "basic":
            try:
                user_name, _ = basic_credentials(value.strip())
            except ValueError:
                return False  # it is refused, and says of nobody who they are
            named_by_user = connection.vpns.named_by(user_name, here)
            return (here.clients.vpn if named_by_user is None else named_by_user) == self._vpn
        return here.clients.vpn == self._vpn
