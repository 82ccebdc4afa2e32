"""A bulk read of one range of sequences, chunk by chunk, over reconnections.

Flow: bulk, reading. Chunks that have arrived stay valid. After a reconnect the rest of the range is requested.
"""

from collections import deque
from typing import final

from sluicegate.protocols.flow.client.errors import FlowClientError, IncarnationChanged, ReadFailed
from sluicegate.protocols.flow.client.session.flow import ENDED, OPEN, ClientFlow
from sluicegate.protocols.flow.codec.frame import UNBIND
from sluicegate.protocols.flow.codec.frames.rows import Read, Reading, RowsReceived
from sluicegate.protocols.flow.codec.frames.session import Error
from sluicegate.protocols.flow.codec.frames.settle import Credit
from sluicegate.protocols.flow.engine.engine import FlowEngine


@final
class RangeFlow(ClientFlow):
    """The core of one range read. Invariant: at most `ahead` chunks lie here or are on their way."""

    def __init__(
        self,
        queue: str,
        partition: int,
        first: int,
        end: int,
        *,
        columns: int,
        chunk_bytes: int,
        ahead: int,
        cursor: str,
        epoch: int,
    ) -> None:
        super().__init__(UNBIND)
        self.queue = queue
        self.partition = partition
        self.next_sequence = first  # of what has not arrived
        self.end_sequence = end
        self.incarnation = 0  # of the spool; 0: not known yet
        self.is_through = False  # all has arrived that can be read
        self._columns = columns
        self._chunk_bytes = chunk_bytes
        self._ahead = ahead
        self._cursor = cursor
        self._epoch = epoch
        self._line: deque[RowsReceived] = deque()  # not taken by the program
        self._number = 0  # of the last chunk that arrived on this flow
        self._granted = 0  # the highest number that may come

    def take(self) -> RowsReceived | None:
        """Return the next chunk, if it is here."""
        if not self._line:
            return None
        self.is_dirty = True
        return self._line.popleft()

    def request(self, request_id: int, flow_id: int) -> bytes:
        """Return READ, for what has not arrived."""
        self._number = 0
        self._granted = self._ahead - len(self._line)
        return Read(
            flow_id,
            request_id,
            self.queue,
            self.partition,
            self.next_sequence,
            self.end_sequence,
            self._columns,
            self._chunk_bytes,
            self._granted,
            self._cursor,
            self._epoch,
        ).encode()

    def opened(self, frame: Reading) -> None:
        """Begin or continue, within the same spool only: in another the same sequences are other messages."""
        if self.incarnation not in (0, frame.incarnation):
            text = f"the gateway has spool {frame.incarnation:016x} now; what was read is of {self.incarnation:016x}"
            self.end(IncarnationChanged(text))
            return
        self.incarnation = frame.incarnation
        self.phase = OPEN
        self.was_open = True
        self.has_news = True

    def arrived(self, rows: RowsReceived) -> None:
        """Keep a chunk until the program takes it."""
        self._line.append(rows)
        self._number = rows.number
        self.next_sequence = rows.next_sequence
        self.has_news = True
        if rows.is_last:
            self.is_through = True
            self.phase = ENDED

    def pump(self, engine: FlowEngine) -> None:
        """Send credit for the room that there is."""
        self.is_dirty = False
        granted = self._number + self._ahead - len(self._line)
        if self.phase == OPEN and granted > self._granted:
            self._granted = granted
            engine.send(Credit(self.flow_id, granted, False, False).encode())

    def ended_by(self, frame: Error) -> FlowClientError:
        """Return the error for one with which the gateway ended the flow."""
        return ReadFailed(frame.code, frame.text)

    def __repr__(self) -> str:
        return f"RangeFlow({self.queue!r}/{self.partition}, {self.next_sequence} of {self.end_sequence})"
