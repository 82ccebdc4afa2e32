"""The entry of one client in the session directory, with its timers while the client is disconnected."""

from typing import final

from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import ActorCell, TimerHandle
from sluicegate.messaging.message.publication import Publication
from sluicegate.protocols.mqtt.codec.events import Will
from sluicegate.protocols.mqtt.session.session import Session


@final
class SessionEntry:
    """One client's place in the directory."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.connection: ActorCell | None = None
        self.closed_wall_ms = 0  # when the last connection ended, or else the broker was started; from then it expires
        self.will: Will | None = None  # delayed
        self.will_timer: TimerHandle | None = None
        self.will_published: Publication | None = None  # not stored yet; what brings its state to the store
        self.expiry_timer: TimerHandle | None = None
        self.store_timer: TimerHandle | None = None
        self.counts_as_kept = False  # in `protocols.mqtt.session.room`, as the next
        self.usage_bytes = 0
        self.released: LoopFuture[None] | None = None  # of who waits until the connection has given the session back

    def stop_timers(self) -> None:
        """Call off what was to happen while the client is away."""
        for timer in (self.will_timer, self.expiry_timer, self.store_timer):
            if timer is not None:
                timer.cancel()
        self.will_timer = self.expiry_timer = self.store_timer = None

    def write_no_more(self) -> None:
        """Whoever has the session next writes its rows, or deletes them: nothing may reach the store behind that."""
        if self.will_published is not None:
            self.will_published.session_rows = None
            self.will_published = None
