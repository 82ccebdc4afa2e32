"""Events for operators, emitted by any object on the loop.

An event may be emitted in the middle of a publish, so `actors.publishing.event_log` logs and publishes it.
`messaging.observability.events` defines kinds, texts and topics.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, final

from sluicegate.actors.runtime.clock import Clock
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.observability.events import NOBODY, SYSTEM, Event, EventAllowance, EventKind

RECENT_MAX: Final = 1000  # about 300 bytes each


@final
class EventRecord:
    """The emitted events: counts, and the latest events, whose numbers ascend by one from 1."""

    def __init__(self) -> None:
        self.log: Address | None = None  # the event log; None during assembly of the node
        self.counts: dict[str, int] = {}  # name -> events emitted
        self.suppressed: dict[str, int] = {}  # name -> events beyond the allowance
        self._recent: deque[tuple[int, Event]] = deque(maxlen=RECENT_MAX)
        self._last_number = 0

    def add(self, event: Event) -> None:
        """Record an event, and pass it to the event log. One for the audit log alone is only passed on."""
        if not event.kind.audit_only:
            name = event.kind.name
            self.counts[name] = self.counts.get(name, 0) + 1
            self._last_number += 1
            self._recent.append((self._last_number, event))
        if self.log is not None:
            self.log.post(event)

    def recent(self, after: int, limit: int) -> list[tuple[int, Event]]:
        """Return events with numbers above `after`, oldest first; the latest ones when there are more than `limit`."""
        found = [each for each in self._recent if each[0] > after]
        return found[-limit:]


@final
class EventCall(Address):
    """Calls a function with each event, in place of the event log: in a process that has none."""

    def __init__(self, call: Callable[[Event], None]) -> None:
        self._call = call

    def post(self, message: object) -> None:
        """Call it."""
        assert isinstance(message, Event), "nothing else is posted to an event log"
        self._call(message)


@final
class Events:
    """The emitter of events of one message VPN. A flood of one kind is limited, and what exceeds the limit is counted.

    Events of the scope SYSTEM concern the node, whichever VPN emits them.
    """

    def __init__(self, clock: Clock, record: EventRecord | None = None, vpn: str = DEFAULT_VPN) -> None:
        self.record = record or EventRecord()
        self._vpn = vpn
        self._clock = clock
        self._allowances: dict[str, EventAllowance] = {}

    def of(self, vpn: str) -> "Events":
        """Return the emitter of another message VPN. Its floods do not count against this one."""
        return Events(self._clock, self.record, vpn)

    def emit(
        self, kind: EventKind, description: str, *, client: str = NOBODY, details: dict[str, str] | None = None
    ) -> None:
        """Emit an event. `client` is the client it concerns, for kinds of the scope CLIENT.

        `details` are values of the description that log lines also have by name.
        """
        if self.admits(kind):
            self.tell(kind, description, client=client, details=details)

    def admits(self, kind: EventKind) -> bool:
        """Return whether an event of this kind may be emitted now, by `tell`; a suppressed one is counted."""
        if not kind.limited or self._may_come(kind.name):
            return True
        self.record.suppressed[kind.name] = self.record.suppressed.get(kind.name, 0) + 1
        return False

    def tell(
        self, kind: EventKind, description: str, *, client: str = NOBODY, details: dict[str, str] | None = None
    ) -> None:
        """Emit an admitted event."""
        vpn = NOBODY if kind.scope == SYSTEM else self._vpn
        wall_ms = self._clock.wall_ms()
        self.record.add(Event(kind, description, vpn=vpn, client=client, wall_ms=wall_ms, details=details))

    def _may_come(self, name: str) -> bool:
        now_ms = self._clock.now_ms()
        allowance = self._allowances.get(name)
        if allowance is None:
            allowance = self._allowances[name] = EventAllowance(now_ms)
        return allowance.take(now_ms)
