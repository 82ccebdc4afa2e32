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
        self.closed_wall_ms = 0  # end of the last connection, or start of the broker; expiry counts from it
        self.will: Will | None = None  # delayed
        self.will_timer: TimerHandle | None = None
        self.will_published: Publication | None = None  # not stored yet; what brings its state to the store
        self.expiry_timer: TimerHandle | None = None
        self.store_timer: TimerHandle | None = None
        self.counts_as_kept = False  # in `protocols.mqtt.session.room`, as the next
        self.usage_bytes = 0
        self.released: LoopFuture[None] | None = None  # resolved when the connection has returned the session

    def stop_timers(self) -> None:
        """Cancel the timers of the disconnected client."""
        for timer in (self.will_timer, self.expiry_timer, self.store_timer):
            if timer is not None:
                timer.cancel()
        self.will_timer = self.expiry_timer = self.store_timer = None

    def write_no_more(self) -> None:
        """Drop pending writes: the session's next owner writes or deletes its rows, and no older write may follow."""
        if self.will_published is not None:
            self.will_published.session_rows = None
            self.will_published = None
