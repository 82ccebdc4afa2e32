"""What the configuration allows clients to publish, as it changes by reloads. Jobs have no rights, and need none."""

from simulation.judge.targets import Message, Violation

FORBIDDEN_PREFIX = "work/d/"  # of the topics that a configuration may forbid


class PublishAcl:
    """Since when publishing on some topics is forbidden for sure, or allowed for sure."""

    def __init__(self) -> None:
        self._forbidden_since = 0  # tick; 0: it may be allowed
        self._allowed_since = 1  # the same

    def may_change(self) -> None:
        """A reload begins: from now on the old rule may be in force, or the new one."""
        self._forbidden_since = self._allowed_since = 0

    def is_in_force(self, tick: int, *, forbids: bool) -> None:
        """The configuration is in force since the tick."""
        self._forbidden_since, self._allowed_since = (tick, 0) if forbids else (0, tick)

    def check_accepted(self, message: Message) -> None:
        """A message was confirmed, or is being delivered. Raises Violation when it had to be denied."""
        is_denied = message.topic.startswith(FORBIDDEN_PREFIX) and 0 < self._forbidden_since < message.sent_tick
        if is_denied and not message.publisher.startswith("job "):
            raise Violation(f"{message} was accepted, and its client may not publish there")

    def check_denied(self, message: Message) -> None:
        """A message was denied. Raises Violation when it had to be accepted."""
        if not message.topic.startswith(FORBIDDEN_PREFIX) or 0 < self._allowed_since < message.sent_tick:
            raise Violation(f"{message} was denied, and its client may publish there")
