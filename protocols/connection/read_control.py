"""Read control: when the broker stops reading from one client, so that TCP's window holds back this client alone.

A publisher is not read from while a destination it feeds is over its high mark, while a request of it waits for another
actor, while too many of its publishes are unanswered, or while it is ahead of the rate that its profile allows.
"""

from typing import Final

from sluicegate.actors.messages.data import Resume
from sluicegate.messaging.clients.rights import ClientRights
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.queues.pressure import Pressure
from sluicegate.protocols.transport.interface import ByteTransport

UNANSWERED_MAX: Final = 20_000  # publishes of a client whose protocol has no window, or a very large one


class ReadControl:
    """Whether bytes are taken from one client."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._transport: ByteTransport | None = None
        self._waits_for: list[Pressure] | None = None  # None: for none
        self._rights: ClientRights | None = None
        self._busy = False  # a request is being carried out
        self._too_many_unanswered = False
        self._relay_full = False  # another process takes no more of what is passed on to it
        self._ahead = False  # of its rate
        self.stopped = False  # the client is not read from

    def attach(self, transport: ByteTransport | None) -> None:
        """Take the transport; None: it is gone."""
        self._transport = transport

    def limit(self, rights: ClientRights) -> None:
        """Hold the client to the rate of its profile."""
        self._rights = rights

    def tick(self, now_ms: int) -> None:
        """Bring time, which a client ahead of its rate waits for."""
        rights = self._rights
        if rights is not None:
            rights.refill(now_ms)
            if self._ahead and not rights.is_ahead():
                self._ahead = False
                self._address.post(Resume())  # a request may wait for this message

    def busy(self, busy: bool) -> None:
        """Note that a request is being carried out, or is done."""
        self._busy = busy
        self._decide()

    def published(self, pressures: list[Pressure], unanswered_count: int) -> None:
        """Note what a publish ran into. Empties the list."""
        if pressures:
            for pressure in pressures:
                if pressure.over and (self._waits_for is None or pressure not in self._waits_for):
                    pressure.wait(self._address)
                    self._waits_for = [*(self._waits_for or ()), pressure]
            pressures.clear()
        rights = self._rights
        if rights is not None and rights.is_ahead():
            self._ahead = True
        self.answered(unanswered_count)

    def answered(self, unanswered_count: int) -> None:
        """Note how many publishes wait for an answer."""
        self._too_many_unanswered = unanswered_count > UNANSWERED_MAX
        self._decide()

    def relaying(self, is_full: bool) -> None:
        """Note whether another process, which what the client sends is passed on to, can take no more."""
        self._relay_full = is_full
        self._decide()

    def resume(self) -> None:
        """A destination can take more, or is waited for no longer. One may be full again by now: its word is spent."""
        self._waits_for = [pressure for pressure in self._waits_for or () if pressure.over] or None
        for pressure in self._waits_for or ():
            pressure.wait(self._address)
        self._decide()

    def waits_for_a_destination(self) -> bool:
        """Return whether the client is not read from because a consumer is slow."""
        return self._waits_for is not None

    def _decide(self) -> None:
        stop = self._busy or self._too_many_unanswered or self._relay_full or self._ahead or self._waits_for is not None
        if stop == self.stopped:
            return
        self.stopped = stop
        transport = self._transport
        if stop:
            if transport is not None:
                transport.pause_reading()
        elif transport is not None:
            transport.resume_reading()
