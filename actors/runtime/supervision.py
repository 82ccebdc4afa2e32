"""What becomes of an actor that failed: its restart policy, and the record it keeps of restarts."""

from dataclasses import dataclass
from enum import Enum


class OnFailure(Enum):
    """What a supervisor does about a failed actor."""

    RESTART = "restart"  # a fresh instance under the same address; waiting messages stay
    RELOAD = "reload"  # as RESTART; failing too often, it handles nothing more until its state was made anew
    STOP = "stop"  # this actor and its children end; nobody else does
    ESCALATE = "escalate"  # the parent counts as failed


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How often an actor may fail before its parent counts as failed."""

    on_failure: OnFailure
    restarts_max: int = 5
    within_ms: int = 60_000


ONE_CONNECTION = RestartPolicy(OnFailure.STOP)  # a crash of a connection costs that connection
RESTARTED = RestartPolicy(OnFailure.RESTART)
RELOADED = RestartPolicy(OnFailure.RELOAD)
VITAL = RestartPolicy(OnFailure.ESCALATE)  # without it the node cannot keep its promises


class RestartLog:
    """Remembers when an actor was restarted, to tell a hiccup from a loop of crashes."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self._times_ms: list[int] = []
        self.count = 0

    def may_restart(self, now_ms: int) -> bool:
        """Note a failure; return whether the policy allows a restart."""
        if self._policy.on_failure not in (OnFailure.RESTART, OnFailure.RELOAD):
            return False
        self._times_ms = [then for then in self._times_ms if now_ms - then < self._policy.within_ms]
        if len(self._times_ms) >= self._policy.restarts_max:
            return False
        self._times_ms.append(now_ms)
        self.count += 1
        return True

    def anew(self) -> "RestartLog":
        """Return a log without failures, that goes on counting restarts."""
        log = RestartLog(self._policy)
        log.count = self.count + 1
        return log
