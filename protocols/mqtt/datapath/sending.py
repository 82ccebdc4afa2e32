"""Sending rows to a client, with what was sent of them and what was not in the counters of the protocol."""

from typing import Final

from sluicegate.protocols.connection.counters import ProtocolCounters
from sluicegate.protocols.mqtt.engine.engine import MqttEngine
from sluicegate.protocols.mqtt.engine.rows_out import RowsOut

TOO_LARGE: Final = "packet_too_large"  # why rows that a client cannot take are dropped, in metrics


def send_rows(
    engine: MqttEngine, counters: ProtocolCounters, rows: RowsOut, first_packet_id: int, *, dup: bool
) -> list[int]:
    """Send rows as `MqttEngine.publish` does, and count them; return those too large for the client."""
    skipped = engine.publish(rows, first_packet_id, dup=dup)
    counters.messages_sent += rows.stop - rows.start - len(skipped)
    if len(skipped) > 0:
        counters.count(counters.dropped, TOO_LARGE, len(skipped))
    return skipped
