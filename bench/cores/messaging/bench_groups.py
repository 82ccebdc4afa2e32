"""Micro-benchmark of message groups: what keys cost on a queue whose consumers would else compete.

Three consumers; messages come in batches of 300, as from one read of a socket, or one by one. Their 20 keys take turns,
which is the worst for groups, or come in long runs. A backlog is there before the consumers are.

Run with `python bench/cores/bench_groups.py`, the repository's root on PYTHONPATH; for the compiled figures, after a
compiled build. Times are processor time of this thread, the best of several rounds.
"""

import gc
from collections.abc import Callable
from functools import partial
from time import thread_time_ns
from typing import Final

from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import AT_LEAST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.outcomes import ACCEPTED
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.rules import groups as grouping
from sluicegate.messaging.partitions.state.flows import DeliveryRules, Flow
from sluicegate.messaging.queues.credit import CreditWindow

FLOWS: Final = 3
KEYS: Final = 20
BATCH_MESSAGES: Final = 300
MESSAGES: Final = 30_000
ROUNDS: Final = 5
BUCKETS: Final = 1024


def batch_of(count: int, keys: list[int | None]) -> MessageBatch:
    """Return a batch whose messages have these keys in turn; None: the headers of one without a key."""
    return MessageBatch(
        topic="plant/7/temperature",
        topics=None,
        payloads=[b"x" * 100] * count,
        headers=[Headers(key_hash=-1 if key is None else key) for key in (keys * count)[:count]],
        qos=AT_LEAST_ONCE,
        retain=False,
        publisher="meter-17",
        received_ms=0,
        payload_bytes=100 * count,
    )


def ledger_of(buckets: int) -> Ledger:
    """Return a ledger without consumers."""
    return Ledger(durable=False, rules=DeliveryRules(unacked_count_max=1 << 30, group_buckets=buckets))


def bind(ledger: Ledger) -> None:
    """Attach the consumers, each with room for everything."""
    for number in range(1, FLOWS + 1):
        window: CreditWindow[Address] = CreditWindow(1 << 30)
        flow = Flow(flow_id=number, queue_name="q", client="c", address=Address(), window=window, bound_order=number)
        ledger.attach(flow, number)


def append(ledger: Ledger, batch: MessageBatch) -> None:
    """Append as a partition does."""
    groups = ledger.groups
    order = None if groups is None else groups.arrange(ledger, batch)
    ledger.append(batch if order is None else batch.select(order), None)


def deliver_and_settle(ledger: Ledger) -> int:
    """Deliver everything, and settle each delivery; return how many deliveries that were."""
    count = 0
    while True:
        deliveries = ledger.deliver(0)
        for each in deliveries:
            first = each.first_sequence
            end = first + each.stop_row - each.start_row
            each.flow.window.give(ledger.settle(each.flow.flow_id, first, end, ACCEPTED))
        count += len(deliveries)
        ledger.effects.starved_flows.clear()
        if not deliveries and not ledger.scan_pending():
            return count


def as_it_comes(buckets: int, count: int, keys: list[int | None]) -> int:
    """Append, deliver and settle batches of a size; return the number of deliveries."""
    ledger = ledger_of(buckets)
    bind(ledger)
    batch = batch_of(count, keys)
    deliveries = 0
    for _ in range(MESSAGES // count):
        append(ledger, batch)
        deliveries += deliver_and_settle(ledger)
    assert ledger.waiting_count == 0, "all was settled"
    return deliveries


def backlog(buckets: int, count: int, keys: list[int | None]) -> int:
    """Deliver and settle a backlog from before the consumers; return the number of deliveries."""
    ledger = ledger_of(buckets)
    batch = batch_of(count, keys)
    for _ in range(MESSAGES // count):
        append(ledger, batch)
    bind(ledger)
    deliveries = deliver_and_settle(ledger)
    assert ledger.waiting_count == 0, "all was settled"
    return deliveries


def best_ns(action: Callable[[], int]) -> tuple[int, int]:
    """Return the best round's time, and the number of deliveries of a round."""
    times: list[int] = []
    deliveries = 0
    for _ in range(ROUNDS):
        gc.collect()
        start = thread_time_ns()
        deliveries = action()
        times.append(thread_time_ns() - start)
    return min(times), deliveries


def main() -> None:
    """Run all cases, and print them beside competing consumers of messages with the same headers."""
    print(f"groups ({'interpreted' if grouping.__file__.endswith('.py') else 'compiled'})")
    in_turn: list[int | None] = list(range(KEYS))
    in_runs: list[int | None] = [key for key in range(KEYS) for _ in range(BATCH_MESSAGES // KEYS)]
    ways: list[tuple[str, Callable[[int, int, list[int | None]], int], int]] = [
        ("batches of 300", as_it_comes, BATCH_MESSAGES),
        ("one by one", as_it_comes, 1),
        ("a backlog", backlog, BATCH_MESSAGES),
    ]
    for name, way, count in ways:
        competing_ns, _ = best_ns(partial(way, 0, count, in_turn))
        cases: list[tuple[str, int, list[int | None]]] = [
            ("they compete", 0, in_turn),
            ("no message has a key", BUCKETS, [None]),
            ("keys in runs", BUCKETS, in_runs),
            ("keys in turn", BUCKETS, in_turn),
        ]
        for what, buckets, keys in cases:
            total_ns, deliveries = best_ns(partial(way, buckets, count, keys))
            print(
                f"  {name + ', ' + what:44}{total_ns / MESSAGES:9.0f} ns/message"
                f"{total_ns / competing_ns:8.1f}x{deliveries:9} deliveries"
            )


if __name__ == "__main__":
    main()
