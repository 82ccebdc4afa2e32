"""The state of a publisher: messages that the gateway has not answered, kept over reconnections.

Flow: publishing. After a reconnect a named publisher drops what the gateway has and sends the rest again under the same
sequences, so nothing is stored twice. The gateway does not know an anonymous one after a reconnect: it sends again
what was not answered, under new sequences, and messages that had been stored are stored twice.
"""

from collections import deque
from typing import Final, final

from sluicegate.protocols.flow.client.errors import (
    FlowClientError,
    IncarnationChanged,
    MessageTooLarge,
    PublisherEnded,
    PublisherForgotten,
)
from sluicegate.protocols.flow.client.messages import Message
from sluicegate.protocols.flow.client.session.flow import OPEN, ClientFlow
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frame import CLOSE_PUB
from sluicegate.protocols.flow.codec.frames.flow import OpenPub, PubOpened
from sluicegate.protocols.flow.codec.frames.publish import PubAck, Refusal, write_publish
from sluicegate.protocols.flow.codec.frames.session import Error
from sluicegate.protocols.flow.codec.limits import FRAME_BYTES_MAX
from sluicegate.protocols.flow.engine.engine import FlowEngine

REFUSALS_KEPT_MAX: Final = 1_000  # between two calls of the program; further ones are only counted
PUMP_BYTES_MAX: Final = 256 * 1024  # sent in one turn; what reads the socket gets its turns as well


@final
class Outgoing:
    """One message in the outbox."""

    __slots__ = ("is_awaited", "message", "refusal", "sequence")

    def __init__(self, sequence: int, message: Message, *, is_awaited: bool) -> None:
        self.sequence = sequence
        self.message = message
        self.is_awaited = is_awaited  # the program waits for its answer
        self.refusal: Refusal | None = None


@final
class Outbox(ClientFlow):
    """The core of one publisher.

    Invariants: `_sent` and behind it `_waiting` ascend; `unanswered_count` and `unanswered_bytes` are those of both.
    """

    def __init__(self, name: str, *, window: int, bytes_max: int) -> None:
        super().__init__(CLOSE_PUB)
        self.name = name  # empty: nothing is remembered of it
        self.window = window  # messages that may lie here without answer
        self.bytes_max = bytes_max
        self.epoch = 0  # counts the openings of that name
        self.stored_through = 0  # as of the last opening
        self.stored_highest = 0  # that the gateway has stored, as far as it is known here
        self.incarnation = 0  # of the spool that the last opening found; 0: none was opened yet
        self.unanswered_count = 0
        self.unanswered_bytes = 0
        self.answered: list[Outgoing] = []  # those that are awaited, for the owner to take
        self.refusals: list[Refusal] = []  # of messages that are not awaited, since the last `take_refusals`
        self.refused_count = 0
        self.frame_bytes_max = FRAME_BYTES_MAX  # the gateway's maximum, as of the last WELCOME
        self._sent: deque[Outgoing] = deque()  # on the present connection
        self._waiting: deque[Outgoing] = deque()
        self._last_sequence = 0  # given out, or used before this program was there
        self._is_begun = False  # something was put in
        self._answered_through = 0
        self._granted = 0  # the gateway's window, of sequences
        self._sequence_max = 0  # on the wire
        self._filler = 0  # the sequence of the last message that was sent to be refused, on the present connection
        self._wire_base = 0  # what sequences lie above those on the wire: of publishers without a name

    # --- the program's side ---

    def has_room(self) -> bool:
        """Whether one more message may be put in. One that is large may go beyond the limit of bytes, alone."""
        return self.unanswered_count < self.window and self.unanswered_bytes < self.bytes_max

    def put(self, message: Message, sequence: int, *, is_awaited: bool) -> Outgoing:
        """Take a message, under a sequence of the program's choice or, with 0, the next. Raises FlowClientError.

        Raises ValueError for a sequence that does not ascend, or lies so far ahead that the window never reaches it.
        """
        self.check_running()
        self.check_size(message)
        if sequence == 0:
            sequence = self._last_sequence + 1
        else:
            self._check_sequence(sequence)
        self._last_sequence = sequence
        self._is_begun = True
        outgoing = Outgoing(sequence, message, is_awaited=is_awaited)
        self._waiting.append(outgoing)
        self.unanswered_count += 1
        self.unanswered_bytes += message.size_max
        self.is_dirty = True
        return outgoing

    def check_size(self, message: Message) -> None:
        """Raise MessageTooLarge for a message that does not fit into a frame."""
        if message.size_max > self.frame_bytes_max and len(message.encode(self.flow_id, 0)) > self.frame_bytes_max:
            raise MessageTooLarge(f"{message!r} needs more than the {self.frame_bytes_max} bytes of a frame")

    def _check_sequence(self, sequence: int) -> None:
        """A program that has its messages still may begin with any that the gateway has not answered for good."""
        if not self.name:
            raise ValueError("sequences of the program's choice need a publisher with a name")
        last = self._last_sequence if self._is_begun else self.stored_through
        if sequence <= last:
            raise ValueError(f"sequence {sequence} behind {last}: they ascend")
        highest = max(last, self._sequence_max) + self._granted
        if sequence > highest:
            raise ValueError(f"sequence {sequence}: gaps are at most the gateway's window, here up to {highest}")

    @property
    def sent_count(self) -> int:
        """How many messages the gateway has got on this connection, or is getting, and not answered."""
        return len(self._sent)

    def take_refusals(self) -> tuple[list[Refusal], int]:
        """Return the refusals since the last time, REFUSALS_KEPT_MAX at most, and how many messages they all are."""
        refusals, count = self.refusals, self.refused_count
        self.refusals, self.refused_count = [], 0
        return refusals, count

    # --- the gateway's side ---

    def request(self, request_id: int, flow_id: int) -> bytes:
        """Return OPEN_PUB."""
        return OpenPub(flow_id, request_id, self.name, self.window).encode()

    def opened(self, frame: PubOpened) -> None:
        """Begin, or continue from the gateway's state."""
        self.phase = OPEN
        self._filler = 0
        self.epoch = frame.epoch
        self._granted = frame.sequence_max - frame.stored_through
        self._sequence_max = frame.sequence_max
        before, self.incarnation = self.incarnation, frame.incarnation
        if not self.name:
            first = self._waiting[0].sequence if self._waiting else self._last_sequence + 1
            self._wire_base = first - 1
        elif before not in (0, frame.incarnation) and not self._is_known_to(frame):
            self.end(
                IncarnationChanged(
                    f"publisher {self.name!r}: the gateway has spool {frame.incarnation:016x} now, with its messages "
                    f"through {frame.stored_through}; in spool {before:016x} they were stored through "
                    f"{self.stored_highest}"
                )
            )
            return
        elif frame.stored_highest < self.stored_highest:
            text = f"publisher {self.name!r}: the gateway has {frame.stored_highest}, and had {self.stored_highest}"
            self.end(PublisherForgotten(text))
            return
        else:
            self.stored_through = frame.stored_through
            self.stored_highest = frame.stored_highest
            self._answer_through(frame.stored_through, [])
            if not self.was_open:  # messages without a sequence of the program's choice are new
                self._last_sequence = frame.stored_highest
        self.was_open = True
        self.is_dirty = True
        self.has_news = True

    def _is_known_to(self, frame: PubOpened) -> bool:
        """Return whether another spool has exactly the answered messages, so that continuing loses and repeats none.

        Messages above that may be ours, or another use of the name's: that cannot be known.
        """
        return frame.stored_highest <= self._answered_through and frame.stored_through >= self.stored_highest

    def acknowledged(self, ack: PubAck) -> None:
        """Take an answer of the gateway."""
        self._sequence_max = max(self._sequence_max, ack.sequence_max)
        self._answer_through(ack.answered_through + self._wire_base, ack.refusals)
        self.is_dirty = len(self._waiting) > 0
        self.has_news = True

    def _answer_through(self, through: int, refusals: list[Refusal]) -> None:
        """Let go of everything up to a sequence. Refusals ascend, and name sequences of the wire."""
        self._answered_through = max(self._answered_through, through)
        base = self._wire_base
        index = 0
        for line in (self._sent, self._waiting):
            while line and line[0].sequence <= through:
                outgoing = line.popleft()
                self.unanswered_count -= 1
                self.unanswered_bytes -= outgoing.message.size_max
                wire_sequence = outgoing.sequence - base
                while index < len(refusals) and refusals[index].last < wire_sequence:
                    index += 1
                if index < len(refusals) and refusals[index].first <= wire_sequence:
                    frame = refusals[index]
                    outgoing.refusal = Refusal(outgoing.sequence, outgoing.sequence, frame.code, frame.text)
                else:
                    self.stored_highest = outgoing.sequence
                self._report_answer(outgoing)

    def _report_answer(self, outgoing: Outgoing) -> None:
        """Make the answer to one message known."""
        refusal = outgoing.refusal
        if outgoing.is_awaited:
            self.answered.append(outgoing)
        elif refusal is not None:
            self.refused_count += 1
            if len(self.refusals) < REFUSALS_KEPT_MAX:
                self.refusals.append(refusal)

    def pump(self, engine: FlowEngine) -> None:
        """Send within the gateway's window, at most PUMP_BYTES_MAX; it stays dirty if there is more."""
        self.is_dirty = False
        if self.phase != OPEN:
            return
        sent_bytes = 0
        waiting = self._waiting
        while waiting and waiting[0].sequence - self._wire_base <= self._sequence_max:
            outgoing = waiting[0]
            frame = outgoing.message.encode(self.flow_id, outgoing.sequence - self._wire_base)
            if len(frame) > self.frame_bytes_max:  # a gateway that took more when the message was put in
                self._give_up(outgoing)
                continue
            if sent_bytes > PUMP_BYTES_MAX:
                self.is_dirty = True
                return
            sent_bytes += len(frame)
            engine.send(frame)
            self._sent.append(waiting.popleft())
        if waiting and not self._sent and self._filler != self._sequence_max:
            self._make_way(engine)

    def _make_way(self, engine: FlowEngine) -> None:
        """Move a window that ends before what waits, though nothing is unanswered.

        The gateway counts a refusal as heard when it gets what only that answer allowed us to send. So after a
        reconnect the window may end just where it ended before, and we have been answered for all of it. A message to
        no topic, under the last sequence that may be sent, is refused or, if that is stored, passed over: either way
        it is answered, and the window moves on.
        """
        self._filler = self._sequence_max
        nowhere = write_publish(self.flow_id, self._filler, "", b"", None, to_queue=False, ttl_ms=0, delay_ms=0)
        engine.send(nowhere)

    def _give_up(self, outgoing: Outgoing) -> None:
        self._waiting.popleft()
        self.unanswered_count -= 1
        self.unanswered_bytes -= outgoing.message.size_max
        text = f"a frame has at most {self.frame_bytes_max} bytes since the connection was made again"
        outgoing.refusal = Refusal(outgoing.sequence, outgoing.sequence, codes.FRAME_TOO_LARGE, text)
        self._report_answer(outgoing)
        self.has_news = True

    def interrupted(self, reason: str) -> None:
        """Move unanswered messages back to the front of the queue."""
        super().interrupted(reason)
        self._sent.extend(self._waiting)
        self._waiting, self._sent = self._sent, self._waiting
        self._sent.clear()

    def ended_by(self, frame: Error) -> FlowClientError:
        """Return the error for one with which the gateway ended the publisher."""
        return PublisherEnded(frame.code, frame.text)

    def check(self) -> None:
        """Assert the invariants."""
        sequences = [each.sequence for each in self._sent] + [each.sequence for each in self._waiting]
        assert sequences == sorted(set(sequences)), "sequences ascend"
        assert len(sequences) == self.unanswered_count
        sizes = [each.message.size_max for each in self._sent] + [each.message.size_max for each in self._waiting]
        assert sum(sizes) == self.unanswered_bytes
        assert not sequences or self._answered_through < sequences[0]

    def __repr__(self) -> str:
        return f"Outbox({self.name!r}, {self.unanswered_count} unanswered, through {self._answered_through})"
