"""The way of direct messages to one client: at most once, with nothing to remember of them."""

from typing import TYPE_CHECKING, Final

from sluicegate.actors.messages.data import SharedDirect
from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch
from sluicegate.protocols.connection.counters import ProtocolCounters
from sluicegate.protocols.mqtt.engine.engine import MqttEngine
from sluicegate.protocols.mqtt.engine.publish_writer import encode_at_most_once
from sluicegate.protocols.mqtt.engine.rows_out import RowsOut, wall_ms_for
from sluicegate.protocols.mqtt.session.subscriptions import NOT_WANTED

if TYPE_CHECKING:
    from sluicegate.protocols.mqtt.connection import MqttConnection


# Sending rows to a client, with what was sent of them and what was not in the counters of the protocol.


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


def send_direct(connection: "MqttConnection", batch: MessageBatch) -> None:
    """Send a batch at most once, unless the client has too much unread."""
    attached = connection.attached
    if attached is None:
        _note_away(connection, batch.count)
        return
    if _drops(connection, batch.count):
        return
    engine, session, counters = connection.engine, attached.session, connection.services.counters
    wall_ms = wall_ms_for(batch, connection.cell.runtime.clock)
    table = session.table
    if table.uniform_qos >= 0 and not engine.restricts_output:
        engine.publish_direct(encode_at_most_once(batch, engine.level, wall_ms))
        counters.messages_sent += batch.count
        return
    own = batch.publisher == session.client_id
    for start, stop, options in table.runs(batch, 0, batch.count, own=own):
        if options is not NOT_WANTED:
            rows = RowsOut(batch, start, stop, AT_MOST_ONCE, options, None, wall_ms, None)
            send_rows(engine, counters, rows, 0, dup=False)


def send_shared_direct(connection: "MqttConnection", message: SharedDirect) -> None:
    """Send a batch that this client got as a member of a shared group, unless it has too much unread."""
    attached, batch = connection.attached, message.batch
    name = f"$share/{message.group.name}/{message.group.filter_text}"
    extra = None if attached is None else attached.session.shares.get(name)
    if extra is None:  # it has left meanwhile, the group or the gateway
        _note_away(connection, batch.count)
        return
    if _drops(connection, batch.count):
        return
    wall_ms = wall_ms_for(batch, connection.cell.runtime.clock)
    rows = RowsOut(batch, 0, batch.count, AT_MOST_ONCE, extra.options(), None, wall_ms, None)
    send_rows(connection.engine, connection.services.counters, rows, 0, dup=False)


def _note_away(connection: "MqttConnection", count: int) -> None:
    """Count messages that were on their way to the client when it left."""
    connection.services.space.offline_count += count


def _drops(connection: "MqttConnection", count: int) -> bool:
    return connection.write_control is not None and connection.write_control.drops_direct(count)
