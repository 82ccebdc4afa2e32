"""Cases that measure what a broker writes to its disk for durable messages: on a new spool, and on one that was full.

The bytes are those of /proc/PID/io: what the broker's processes have handed to disks, in pages of 4 KiB. A fill is
measured, and then the drain of the same messages. A spool that was used is filled and drained before.
"""

from typing import Final

from bench.brokers import measure
from bench.brokers.broker import Broker
from bench.cases.footprint import drain, fill, prepare_backlog
from bench.load.outcome import Figure, Outcome

USED_WINDOW: Final = 2000


def run_writes(
    broker: Broker, *, window: int, messages: int, payload_bytes: int, used_by: int, timeout_s: float
) -> Outcome:
    """Fill and drain a queue, after `used_by` other messages came and went; count the bytes that are written."""
    prepare_backlog(broker)
    if used_by:
        fill(broker, used_by, timeout_s, window=USED_WINDOW)
        drain(broker, used_by, timeout_s, window=USED_WINDOW)
    payload = messages * payload_bytes
    began = measure.written_bytes(broker.pid)
    _, fill_s = fill(broker, messages, timeout_s, window=window, payload_bytes=payload_bytes)
    filled = measure.written_bytes(broker.pid)
    drained, _ = drain(broker, messages, timeout_s, window=window, payload_bytes=payload_bytes)
    ended = measure.written_bytes(broker.pid)
    return Outcome(
        headline=Figure("bytes written per byte of payload, filled and drained", (ended - began) / payload, "B/B"),
        higher_is_better=False,
        figures=(
            Figure("to fill", (filled - began) / payload, "B/B"),
            Figure("per window that was filled", (filled - began) / messages * window / 1024, "KiB"),
            Figure("confirmed", messages / fill_s, "msg/s"),
        ),
        faults=drained.faults,
    )
