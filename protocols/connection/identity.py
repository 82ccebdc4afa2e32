"""The identity of one client, and its place in the roster, from its authentication to the end of its connection.

See also: authentication (`protocols.security.authentication`), and what a client may do (`messaging.clients.rights`).
"""

from typing import final

from sluicegate.actors.messages.queues import MAX_BIND_COUNT_EXCEEDED, PERMISSION_DENIED, BindRefused
from sluicegate.actors.runtime.clock import Clock
from sluicegate.messaging.clients.rights import EGRESS_FLOWS, ClientDenied, ClientRights
from sluicegate.messaging.clients.roster import ClientRoster
from sluicegate.protocols.security.authentication import Principal


@final
class Identity(ClientRights):
    """The client of one connection. A client that was admitted leaves the roster with `close`, in any case.

    It is what the client may do as well, because the two live together: its own rights are those of the first
    admission. Who is admitted again, as another user or in another message VPN, has further ones, and requests that
    were under way keep the first.

    Proving who one is takes time, in which the connection may end: who is admitted after that has no place. What it may
    do can still be asked, by requests that were under way.
    """

    def __init__(self, roster: ClientRoster) -> None:
        super().__init__()
        self._was_admitted = False  # so its own rights are taken
        self._is_admitted = False
        self._is_closed = False
        self.is_visitor = False  # it has its place at another broker of this machine
        self.is_sibling = False  # it is another broker of this machine, and no client
        self.user = ""  # empty: anonymous, or not known yet
        self._roster = roster
        self._further: ClientRights | None = None
        self._valid_until_ms = 0  # wall clock; 0: for ever

    @property
    def vpn(self) -> str:
        """The message VPN it is in: so far the one of its listener, until it is admitted."""
        return self._roster.vpn

    def enter(self, roster: ClientRoster) -> None:
        """Be in the message VPN of this roster from now on. What it was in another one, it is no more."""
        if roster is self._roster:
            return
        self._leave()
        self.user = ""
        self._valid_until_ms = 0
        self._roster = roster

    @property
    def counts_here(self) -> bool:
        """Whether its connection is that of a client that has its place at this broker, or may get one."""
        return not (self.is_visitor or self.is_sibling)

    @property
    def rights(self) -> ClientRights:
        """What the client may do; it was admitted, or visits."""
        rights = self if self.is_visitor else self.admitted()
        assert rights is not None, "nobody asks on behalf of a client that is not admitted"
        return rights

    def admitted(self) -> ClientRights | None:
        """Return what the client may do, None before it is admitted."""
        if not self._is_admitted:
            return None
        return self if self._further is None else self._further

    def authenticated(self, principal: Principal) -> None:
        """Note who the client is, and for how long it is let in."""
        self.user = principal.user_name
        self._valid_until_ms = principal.valid_until_ms

    def principal(self) -> Principal:
        """Return who the client has shown to be, and for how long it is let in."""
        return Principal(self.user, self._valid_until_ms)

    def admit(self, client: str, host: str, now_ms: int, *, takes_over: bool = False) -> ClientRights:
        """Give the client its place in the roster, under its name. Raises ClientDenied.

        `now_ms` is on the clock of timers.
        """
        self._leave()  # what it was before it may be no more, whether or not it is let in
        rights: ClientRights = ClientRights() if self._was_admitted else self
        self._roster.admit(self.user, client, host, now_ms, takes_over=takes_over, rights=rights)
        if self._was_admitted:
            self._further = rights
        self._was_admitted = True
        self._is_admitted = True
        if self._is_closed:
            self._roster.leave(rights)
        return rights

    def visit(self, principal: Principal, client: str, now_ms: int) -> ClientRights:
        """Give a client its rights that has its place in the roster of another broker of this machine. Idempotent.

        Here it counts as nobody's connection.
        """
        assert not self._was_admitted, "it has its place there"
        if not self.is_visitor:
            self.authenticated(principal)
            self._roster.visit(self.user, client, now_ms, self)
            self.is_visitor = True
        return self

    def check_bind(self, count: int) -> None:
        """Raise BindRefused, counted and told, unless the client, which has `count` flows, may have one more."""
        try:
            self.rights.check_flow(count)
        except ClientDenied as denied:
            code = MAX_BIND_COUNT_EXCEEDED if denied.reason == EGRESS_FLOWS else PERMISSION_DENIED
            raise BindRefused(code, denied.text) from None

    def is_over(self, clock: Clock) -> bool:
        """Return whether the client was let in for a time that has passed."""
        return 0 < self._valid_until_ms < clock.wall_ms()

    def close(self) -> None:
        """Give the place up, if there is one, for good; what the client may do can still be asked. Idempotent."""
        rights = self.admitted()
        if rights is not None and not self._is_closed:
            self._roster.leave(rights)
        if self.is_visitor and not self._is_closed:
            self._roster.end_visit(self)
        self._is_closed = True

    def _leave(self) -> None:
        """Give the place up, and with it what the client may do."""
        rights = self.admitted()
        self._is_admitted = False
        if rights is not None and not self._is_closed:
            self._roster.leave(rights)
