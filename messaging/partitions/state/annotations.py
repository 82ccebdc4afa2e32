"""Annotations that consumers put on messages they release, for the next consumer (AMQP 3.4.5).

An annotation is bytes in the format of the protocol it came in, and only that protocol reads it. Several annotations on
one message are concatenated. They live in memory, as long as their messages and no longer than the ledger.
"""

from typing import Final, final

ANNOTATION_BYTES_MAX: Final = 4_096  # on one message
ANNOTATIONS_BYTES_MAX: Final = 1 << 20  # of one partition


@final
class DeliveryAnnotations:
    """The annotations on the messages of one partition."""

    def __init__(self) -> None:
        self.by_sequence: dict[int, bytes] = {}
        self.lost_count = 0  # annotations that were discarded: too many, or too long
        self._bytes = 0

    def cleared(self) -> "DeliveryAnnotations":
        """Return an object without annotations; the counter stays."""
        annotations = DeliveryAnnotations()
        annotations.lost_count = self.lost_count
        return annotations

    def add(self, first: int, end: int, annotation: bytes) -> None:
        """Add an annotation to the messages `[first, end)`, after existing ones."""
        size = len(annotation)
        for sequence in range(first, end):
            before = self.by_sequence.get(sequence, b"")
            if len(before) + size > ANNOTATION_BYTES_MAX or self._bytes + size > ANNOTATIONS_BYTES_MAX:
                self.lost_count += 1
                continue
            self.by_sequence[sequence] = before + annotation
            self._bytes += size

    def alike_until(self, first: int, end: int) -> int:
        """Return the end of the part of `[first, end)` without annotations; an annotated message is alone."""
        if first in self.by_sequence:
            return first + 1
        stop = first + 1
        while stop < end and stop not in self.by_sequence:
            stop += 1
        return stop

    def forget(self, first: int, end: int) -> None:
        """Discard the annotations of the messages `[first, end)`."""
        for sequence in range(first, end):
            self._bytes -= len(self.by_sequence.pop(sequence, b""))
