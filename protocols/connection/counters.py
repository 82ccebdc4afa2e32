"""Counters of one protocol over all of its connections, open and closed, and of one connection."""

from dataclasses import dataclass, field
from typing import final

from mypy_extensions import i64

from sluicegate.messaging.observability.latency import LatencyHistogram


@final
class Traffic:
    """Messages and bytes of one connection, counted where those of its protocol are: by reads, writes and batches."""

    __slots__ = ("bytes_received", "bytes_sent", "messages_received", "messages_sent")

    def __init__(self) -> None:
        self.messages_received: i64 = 0
        self.messages_sent: i64 = 0
        self.bytes_received: i64 = 0
        self.bytes_sent: i64 = 0


@dataclass(slots=True)
class ProtocolCounters:
    """Totals of one protocol of one node."""

    connected: int = 0
    refused: dict[str, int] = field(default_factory=dict)  # connections that were refused, by reason
    violated: dict[str, int] = field(default_factory=dict)  # connections ended for what the peer did, by reason
    dropped: dict[str, int] = field(
        default_factory=dict
    )  # messages that were dropped without telling any client, by reason
    confirmations: LatencyHistogram = field(default_factory=LatencyHistogram)  # from publish to confirmation
    messages_received: int = 0
    messages_sent: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
    saved_received: int = 0  # bytes that compression has kept off the wire; the flow protocol counts them
    saved_sent: int = 0

    def count(self, counter: dict[str, int], reason: str, number: int = 1) -> None:
        """Count under a reason."""
        counter[reason] = counter.get(reason, 0) + number
