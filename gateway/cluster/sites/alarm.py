"""What an owner reports to operators of the other site: that it is behind for too long, and when it is not any more."""

from collections.abc import Callable
from typing import Final, final

from sluicegate.messaging.observability.events import SYSTEM_REPLICATION_DOWN, SYSTEM_REPLICATION_UP, EventKind
from sluicegate.storage.replication.sites.receiving import SiteLag


@final
class SiteAlarm:
    """Whether a loss of this site would lose more than operators accept."""

    def __init__(self, mate: str, lag_s_max: float, report: Callable[[EventKind, str], None], now_s: float) -> None:
        self._mate: Final = mate
        self._lag_s_max: Final = lag_s_max
        self._report: Final = report
        self._known_s = now_s  # when the lag was known last
        self._is_down = False

    def look(self, lag: SiteLag | None, now_s: float) -> None:
        """Take what the other site lacks, None while that is not known, by the monotonic clock."""
        if lag is not None:
            self._known_s = now_s
        age_s = now_s - self._known_s if lag is None else lag.age_s
        if not self._is_down and age_s > self._lag_s_max:
            self._is_down = True
            lacks = "nothing is known of it" if lag is None else f"it lacks {lag.messages} messages of the log"
            self._report(SYSTEM_REPLICATION_DOWN, f"site {self._mate} is behind by {age_s:.0f} s: {lacks}")
        elif self._is_down and lag is not None and lag.age_s <= self._lag_s_max:
            self._is_down = False
            self._report(SYSTEM_REPLICATION_UP, f"site {self._mate} lacks nothing older than {self._lag_s_max:g} s")
