"""Restart policies for failed actors, and the record of an actor's restarts."""

from dataclasses import dataclass
from enum import Enum


class OnFailure(Enum):
    """The action of a supervisor for a failed actor."""

    RESTART = "restart"  # a new instance under the same address; waiting messages stay
    RELOAD = "reload"  # as RESTART; if it fails too often, it handles nothing more until its state is reloaded
    STOP = "stop"  # this actor and its children end, and no other
    ESCALATE = "escalate"  # the parent counts as failed


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How often an actor may fail before its parent counts as failed."""

    on_failure: OnFailure
    restarts_max: int = 5
    within_ms: int = 60_000


ONE_CONNECTION = RestartPolicy(OnFailure.STOP)  # a failure of a connection costs that connection
RESTARTED = RestartPolicy(OnFailure.RESTART)
RELOADED = RestartPolicy(OnFailure.RELOAD)
VITAL = RestartPolicy(OnFailure.ESCALATE)  # without it the node cannot keep its promises


class RestartLog:
    """The times of an actor's restarts, to tell a single failure from a loop of failures."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self._times_ms: list[int] = []
        self.count = 0

    def may_restart(self, now_ms: int) -> bool:
        """Record a failure; return whether the policy allows a restart."""
        if self._policy.on_failure not in (OnFailure.RESTART, OnFailure.RELOAD):
            return False
        self._times_ms = [then for then in self._times_ms if now_ms - then < self._policy.within_ms]
        if len(self._times_ms) >= self._policy.restarts_max:
            return False
        self._times_ms.append(now_ms)
        self.count += 1
        return True

    def without_failures(self) -> "RestartLog":
        """Return a log without failures that continues to count restarts."""
        log = RestartLog(self._policy)
        log.count = self.count + 1
        return log
