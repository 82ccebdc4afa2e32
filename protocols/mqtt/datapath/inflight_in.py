"""The unacknowledged publishes of one client, in the order published [4.6.0-2].

PUBACK and PUBREC are sent in the order of the PUBLISH packets, so a publish that is stored waits for those before it.
"""

from collections import deque
from typing import Final, final

from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.message.ranges import RangeSet

SUCCESS: Final = 0


@final
class Unanswered:
    """One batch of publishes: its packet ids, and how many confirmations it still waits for."""

    __slots__ = (
        "count",
        "packet_ids",
        "pending",
        "publication",
        "qos",
        "reason_code",
        "reason_text",
        "received_ms",
        "token",
    )

    def __init__(self, token: int, qos: int, packet_ids: list[tuple[int, int]], count: int, pending: int) -> None:
        self.token = token
        self.qos = qos
        self.packet_ids = packet_ids  # runs (first, last), inclusive
        self.count = count
        self.pending = pending
        self.reason_code = SUCCESS
        self.reason_text = ""  # explains a refusal
        self.received_ms = 0  # wall clock; 0: its latency does not count
        self.publication: Publication | None = None  # of a QoS 2 publish whose session outlives the connection


@final
class InflightIn:
    """The publishes of one connection that are not answered yet, and the QoS 2 ids of its session.

    `received` are ids of QoS 2 publishes between PUBREC and PUBREL: the same id again is a repetition [4.3.3-10].
    """

    def __init__(self, received: RangeSet) -> None:
        self.received = received
        self.unanswered_count = 0  # messages
        self._line: deque[Unanswered] | None = None  # until something waits: an empty one takes 600 bytes
        self._by_token: dict[int, Unanswered] = {}
        self._tokens = 0

    def next_token(self) -> int:
        """Return a token for the next publish."""
        self._tokens += 1
        return self._tokens

    def add(self, token: int, qos: int, packet_ids: list[tuple[int, int]], count: int, pending: int) -> Unanswered:
        """Put a batch in line."""
        entry = Unanswered(token, qos, packet_ids, count, pending)
        if self._line is None:
            self._line = deque()
        self._line.append(entry)
        if pending:
            self._by_token[token] = entry
        self.unanswered_count += count
        return entry

    def confirmed(self, token: int, reason_code: int, reason_text: str = "") -> Unanswered | None:
        """Note one confirmation of a batch, or a refusal; return the batch when none is to come."""
        entry = self._by_token.get(token)
        if entry is None:
            return None
        entry.pending -= 1
        if reason_code:
            entry.reason_code = reason_code
            entry.reason_text = reason_text
        if entry.pending:
            return None
        del self._by_token[token]
        return entry

    def unanswered(self) -> list[Unanswered]:
        """Return the batches in line, oldest first."""
        return [] if self._line is None else list(self._line)

    def take_answerable(self) -> list[Unanswered]:
        """Return the batches at the head of the line that can be answered now."""
        line = self._line
        answerable: list[Unanswered] = []
        while line and line[0].pending == 0:
            entry = line.popleft()
            self.unanswered_count -= entry.count
            answerable.append(entry)
        return answerable
