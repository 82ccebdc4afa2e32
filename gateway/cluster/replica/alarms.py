"""What an owner reports to operators of its replicas and its log: each thing when it begins, and when it is over."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, final

from sluicegate.gateway.cluster.membership.members import ReplicaState
from sluicegate.messaging.observability.events import (
    SYSTEM_HA_LOG_DOWN,
    SYSTEM_HA_LOG_UP,
    SYSTEM_HA_STANDBY_DOWN,
    SYSTEM_HA_STANDBY_UP,
    EventKind,
)

APPEND_S_MAX: Final = 2.0  # an append that waits longer for a majority of the servers
STANDBY_S: Final = 10.0  # a standby that starts, or is behind for less, is nothing to report

Report = Callable[[EventKind, str], None]


@final
class Alarms:
    """What is wrong now, as the owner sees it."""

    def __init__(self, report: Report, why_away: Callable[[str], str]) -> None:
        """`why_away` returns why a replica may be away of which nothing is heard; empty if that is not known."""
        self._report: Final = report
        self._why_away: Final = why_away
        self._well_s: dict[str, float] = {}  # when each standby was well last, or was heard of first
        self._down: Final[set[str]] = set()  # standbys that were reported
        self._log_is_down = False

    def look(
        self,
        standbys: Sequence[str],
        present: Mapping[str, ReplicaState],
        append_waits_s: float,
        now_s: float,
        *,
        held_back: str = "",
    ) -> None:
        """Take the state of all by the monotonic clock. `standbys`: the names of all other replicas.

        `append_waits_s`: how long the oldest append has waited; `held_back`: why nothing may be appended.
        """
        self._well_s = {name: self._well_s.get(name, now_s) for name in standbys}
        self._down.intersection_update(standbys)
        if not self._log_is_down and (held_back or append_waits_s > APPEND_S_MAX):
            self._log_is_down = True
            why = held_back or "no majority of the NATS servers confirms what is appended to the log"
            self._report(SYSTEM_HA_LOG_DOWN, why)
        elif self._log_is_down and append_waits_s == 0 and not held_back:
            self._log_is_down = False
            self._report(SYSTEM_HA_LOG_UP, "a majority of the NATS servers confirms what is appended to the log")
        for name, well_s in self._well_s.items():
            state = present.get(name)
            if state is not None and state.caught_up:
                self._well_s[name] = now_s
                if name in self._down:
                    self._down.discard(name)
                    self._report(SYSTEM_HA_STANDBY_UP, f"replica {name} can take over")
            elif name not in self._down and now_s - well_s > STANDBY_S:
                self._down.add(name)
                if state is None:
                    why = self._why_away(name) or "nothing is heard of it"
                else:
                    why = state.problem or f"it is {state.role}, and behind"
                self._report(SYSTEM_HA_STANDBY_DOWN, f"replica {name} could not take over: {why}")
