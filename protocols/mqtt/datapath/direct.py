"""Send direct messages to one client: at most once, without state."""

from typing import Final

from mypy_extensions import i64

from sluicegate.actors.runtime.clock import Clock
from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch
from sluicegate.protocols.connection.counters import ProtocolCounters
from sluicegate.protocols.mqtt.engine.engine import MqttEngine
from sluicegate.protocols.mqtt.engine.publish_run import PublishRun, wall_ms_for
from sluicegate.protocols.mqtt.engine.publish_writer import encode_at_most_once
from sluicegate.protocols.mqtt.session.session import Session
from sluicegate.protocols.mqtt.session.subscriptions import NOT_WANTED

TOO_LARGE: Final = "packet_too_large"  # why rows that a client cannot take are dropped, in metrics


def send_rows(
    engine: MqttEngine, counters: ProtocolCounters, rows: PublishRun, first_packet_id: i64, *, dup: bool
) -> list[int]:
    """Send rows as `MqttEngine.publish` does, and count them; return those too large for the client."""
    skipped = engine.publish(rows, first_packet_id, dup=dup)
    sent_count = rows.stop - rows.start - len(skipped)
    counters.messages_sent += sent_count
    engine.traffic.messages_sent += sent_count
    if len(skipped) > 0:
        counters.count(counters.dropped, TOO_LARGE, len(skipped))
    return skipped


def send_direct(
    engine: MqttEngine, session: Session, counters: ProtocolCounters, batch: MessageBatch, clock: Clock
) -> None:
    """Send a batch at most once, with the options of the session's subscriptions."""
    wall_ms = wall_ms_for(batch, clock)
    table = session.table
    if table.uniform_qos >= 0 and not engine.restricts_output:
        engine.publish_direct(encode_at_most_once(batch, engine.level, wall_ms))
        counters.messages_sent += batch.count
        engine.traffic.messages_sent += batch.count
        return
    if table.uniform_qos >= 0 and batch.topics is None and engine.publish_aliased(batch, wall_ms):
        counters.messages_sent += batch.count
        engine.traffic.messages_sent += batch.count
        return
    own = batch.publisher == session.client_id
    for start, stop, options in table.runs(batch, 0, batch.count, own=own):
        if options is not NOT_WANTED:
            rows = PublishRun(batch, start, stop, AT_MOST_ONCE, options, None, wall_ms, None)
            send_rows(engine, counters, rows, 0, dup=False)
