"""Counters of one protocol over all of its connections, open and closed."""

from dataclasses import dataclass, field

from sluicegate.messaging.observability.latency import LatencyHistogram


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
