"""A poll that asks before its sockets are served: for a process that may have been paused between poll and answer."""

from collections.abc import Callable
from typing import Any, Final, final


@final
class GuardedPoll:
    """What `select.epoll` does, but that sockets which may not be served any more are not found ready."""

    def __init__(self, poll: Any, may_serve: Callable[[], bool], always_fd: int) -> None:
        """`may_serve` is asked after each poll; what is watched as `always_fd` is found ready whatever it says."""
        self._poll: Final = poll
        self._may_serve: Final = may_serve
        self._always_fd: Final = always_fd
        self.register: Final = poll.register
        self.modify: Final = poll.modify
        self.unregister: Final = poll.unregister
        self.close: Final = poll.close

    def poll(self, timeout: float | None, limit: int) -> list[tuple[int, int]]:
        """Return what is ready, after `timeout` seconds at most."""
        ready: list[tuple[int, int]] = self._poll.poll(timeout, limit)
        if self._may_serve():
            return ready
        return [each for each in ready if each[0] == self._always_fd]
