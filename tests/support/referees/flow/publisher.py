"""The referee of the flow protocol's publishers: the responses, and what is remembered for a name."""

import struct
from collections import deque

from support.referees.flow.grammar import CODES, Fields, Frame, number_of, texts_of
from support.referees.violations import expect


class Remembered:
    """What the gateway has said of a publisher's name, over all connections of one life of it."""

    def __init__(self) -> None:
        self.flow: PublisherReferee | None = None  # that opened it last
        self.epoch = 0
        self.stored_through = 0
        self.confirmed_through = 0  # the highest sequence that was answered and not refused


class PublisherReferee:
    """Judges one flow from its OPEN_PUB on."""

    opened_by = "OPEN_PUB"
    ended_by = "CLOSE_PUB"

    def __init__(self, asked: Fields, names: dict[str, Remembered], vpn: str) -> None:
        self.is_over = False
        name = "".join(texts_of(asked, "name"))
        self._known = names.setdefault(f"{vpn}/{name}", Remembered()) if name else Remembered()
        self._is_named = bool(name)
        self._answered_through = 0
        self._limit = 0
        self._sent: deque[int] = deque()  # sequences without an answer

    def answered(self, fields: Fields) -> None:
        """Judge the answer to OPEN_PUB."""
        epoch, through = number_of(fields, "publisher epoch"), number_of(fields, "stored through")
        highest, limit = number_of(fields, "stored highest"), number_of(fields, "sequence limit")
        expect(through <= highest and through < limit, "Publishing", "OPEN_PUB is answered by {}", fields)
        known = self._known
        if not self._is_named:
            expect(epoch == through == highest == 0, "Named publishers", "without a name {}", fields)
        elif epoch == 1 and highest == 0:  # new, or forgotten
            self._known.stored_through = self._known.confirmed_through = 0
        else:
            expect(epoch > known.epoch, "Named publishers", "epoch {} behind {}", epoch, known.epoch)
            expect(through >= known.stored_through, "Named publishers", "{} behind {}", fields, known.stored_through)
            expect(
                highest >= known.confirmed_through, "Named publishers", "{}, not {}", fields, known.confirmed_through
            )
        known.flow, known.epoch, known.stored_through = self, epoch, through
        self._answered_through, self._limit = through, limit

    def gateway_says(self, frame: Frame, fields: Fields) -> None:
        """Judge what comes on the flow. Raises WireViolation."""
        expect(frame.kind == "PUB_ACK", "Publishing", "{}", frame)
        expect(self._known.flow is self, "Named publishers", "{}, and the publisher was opened elsewhere", frame)
        body, before = frame.body, self._answered_through
        expect(len(body) >= 18, "Publishing", "{}", frame)
        through, limit, count = struct.unpack_from(">QQH", body)
        expect(through > before, "Publishing", "answered through {}, and before through {}", through, before)
        expect(limit >= max(self._limit, through), "Publishing", "limit {} behind {}", limit, self._limit)
        answered: list[int] = []
        while self._sent and self._sent[0] <= through:
            answered.append(self._sent.popleft())
        expect(bool(answered) and answered[-1] == through, "Publishing", "{} is answered, of {}", through, answered)
        pos, last_before = 18, before
        for _ in range(count):
            expect(len(body) >= pos + 20, "Publishing", "{}", frame)
            first, last, code, text_bytes = struct.unpack_from(">QQHH", body, pos)
            is_new = last_before < first <= last <= through
            expect(is_new, "Publishing", "{} to {} are refused, behind {} of {}", first, last, last_before, through)
            expect(first in answered and last in answered, "Publishing", "{} to {} are refused", first, last)
            expect(code in CODES and code > 0, "Errors", "{} to {} are refused by {:#x}", first, last, code)
            body[pos + 20 : pos + 20 + text_bytes].decode()
            answered = [each for each in answered if not first <= each <= last]
            pos, last_before = pos + 20 + text_bytes, last
        expect(pos == len(body), "Publishing", "{} bytes in {}", pos, frame)
        self._answered_through, self._limit = through, limit
        if answered:
            self._known.confirmed_through = max(self._known.confirmed_through, answered[-1])

    def client_says(self, frame: Frame) -> None:
        """Learn what is published."""
        if frame.kind == "PUBLISH":
            self._sent.append(int.from_bytes(frame.body[:8], "big"))
