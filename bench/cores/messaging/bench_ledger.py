"""Micro-benchmark of the ledger: what a message costs on its way in, out and off, and whether long lists bend it.

Run with `python bench/cores/bench_ledger.py`, the repository's root on PYTHONPATH; for the compiled figures, after a
compiled build. Times are processor time of this thread, the best of several rounds.
"""

from collections.abc import Callable
from random import Random
from time import thread_time_ns
from typing import Final

from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import AT_LEAST_ONCE, MessageBatch
from sluicegate.messaging.message.outcomes import ACCEPTED, FAILED
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.partitions import ledger as ledger_module
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.paging import page_loaded, pages_written, plan_pages
from sluicegate.messaging.partitions.recovery import redelivered_ranges
from sluicegate.messaging.partitions.state.flows import DeliveryRules, Flow
from sluicegate.messaging.queues.credit import CreditWindow

PAYLOAD: Final = bytes(100)
BATCH_MESSAGES: Final = 300
ROUNDS: Final = 5
WAITING: Final = 200_000
PAGE_BYTES: Final = 32_768


def batch_of(count: int) -> MessageBatch:
    """Return a batch of equal payloads."""
    return MessageBatch(
        topic="plant/7/temperature",
        topics=None,
        payloads=[PAYLOAD] * count,
        headers=None,
        qos=AT_LEAST_ONCE,
        retain=False,
        publisher="meter-17",
        received_ms=0,
        payload_bytes=len(PAYLOAD) * count,
    )


def ledger_with(flows_count: int, *, limit: int) -> Ledger:
    """Return a durable ledger with flows, each with its own window."""
    ledger = Ledger(durable=True, rules=DeliveryRules(unacked_count_max=1 << 30))
    for number in range(1, flows_count + 1):
        window: CreditWindow[Address] = CreditWindow(limit)
        flow = Flow(flow_id=number, queue_name="q", client="c", address=Address(), window=window, bound_order=number)
        ledger.attach(flow, number)
    return ledger


def append(ledger: Ledger, batch: MessageBatch) -> None:
    """Append a batch as a publication that the journal has."""
    publication = Publication(batch, publisher=None, token=0, partitions_count=1)
    publication.sequenced(1, ledger.append(batch, publication), None)
    publication.record_number = 1
    publication.confirmed = True


def forget_effects(ledger: Ledger) -> None:
    """Empty the effects, as the partition does at the end of a turn."""
    effects = ledger.effects
    effects.settled = []
    effects.released_publications = []
    effects.dropped_pages = []
    effects.starved_flows = []
    effects.released_count = 0
    effects.released_bytes = 0


def settle(ledger: Ledger, flow: Flow, first: int, end: int, outcome: int = ACCEPTED) -> None:
    """Settle, and return the credit."""
    flow.window.give(ledger.settle(flow.flow_id, first, end, outcome))


def in_and_out(ledger: Ledger, batch: MessageBatch, turns: int) -> None:
    """Append, deliver and settle in order, turn by turn."""
    for _ in range(turns):
        append(ledger, batch)
        for each in ledger.deliver(0):
            settle(ledger, each.flow, each.first_sequence, each.first_sequence + each.stop_row - each.start_row)
        forget_effects(ledger)


def settle_in_any_order(order: list[int]) -> None:
    """Deliver in batches of 300, and settle one by one in a random order within a window of all of them."""
    ledger = ledger_with(1, limit=1 << 30)
    for _ in range(len(order) // BATCH_MESSAGES):
        append(ledger, batch_of(BATCH_MESSAGES))
    ledger.deliver(0)
    flow = ledger.flows[1].flow
    for sequence in order:
        settle(ledger, flow, sequence, sequence + 1)
    assert ledger.waiting_count == 0


def waiting_ones(count: int) -> Ledger:
    """Return a ledger with one-message segments waiting."""
    ledger = ledger_with(1, limit=300)
    batch = batch_of(1)
    for _ in range(count):
        append(ledger, batch)
    return ledger


def drain(ledger: Ledger, pages: dict[int, list[tuple[int, MessageBatch]]]) -> None:
    """Deliver and settle until no message waits, and read pages on demand."""
    while ledger.waiting_count:
        for each in ledger.deliver(0):
            settle(ledger, each.flow, each.first_sequence, each.first_sequence + each.stop_row - each.start_row)
        for first in ledger.effects.wanted_pages:
            page_loaded(ledger, first, pages.pop(first))
        ledger.effects.wanted_pages = []
        forget_effects(ledger)


def page_out(ledger: Ledger) -> dict[int, list[tuple[int, MessageBatch]]]:
    """Move all messages into pages, 2 MiB at a time."""
    pages: dict[int, list[tuple[int, MessageBatch]]] = {}
    while True:
        plans = plan_pages(ledger, page_bytes=PAGE_BYTES, bytes_to_free=2 << 20, through_record=None)
        if not plans:
            return pages
        for plan in plans:
            pages[plan.first] = plan.runs
            pages_written(ledger, plan)


def best_ns(action: Callable[[], object], rounds: int = ROUNDS) -> int:
    """Return the best round's time."""
    times: list[int] = []
    for _ in range(rounds):
        start = thread_time_ns()
        action()
        times.append(thread_time_ns() - start)
    return min(times)


def report(name: str, total_ns: int, *, messages: int, batches: int) -> None:
    """Print one row."""
    print(f"  {name:62}{total_ns / messages:10.0f} ns/message{total_ns / batches / 1000:10.2f} us/batch")


def bench_turns() -> None:
    """The cost of consumers that keep up."""
    cases = [
        ("append, deliver, settle 300", 1, 1000, BATCH_MESSAGES, 300),
        ("append, deliver, settle 300, three competing flows", 3, 1000, BATCH_MESSAGES, 300),
        ("append, deliver, settle 1, window 1", 1, 1, 1, 20_000),
        ("append, deliver, settle 1, three competing flows", 3, 1000, 1, 20_000),
    ]
    for name, flows_count, limit, count, turns in cases:
        ledger = ledger_with(flows_count, limit=limit)
        batch = batch_of(count)
        total_ns = best_ns(lambda ledger=ledger, batch=batch, turns=turns: in_and_out(ledger, batch, turns))  # type: ignore[misc]
        report(name, total_ns, messages=turns * count, batches=turns)


def bench_disorder() -> None:
    """The cost of settling in another order, and of a longer window."""
    for window in (30_000, 120_000):
        order = list(range(1, window + 1))
        Random(7).shuffle(order)
        total_ns = best_ns(lambda order=order: settle_in_any_order(order), 2)  # type: ignore[misc]
        report(f"settle {window} one by one in random order", total_ns, messages=window, batches=window)


def give_everything_back(ledger: Ledger) -> None:
    """Deliver all, fail all, and collect what a clean stop would write."""
    flow = ledger.flows[1].flow
    flow.window.limit = 1 << 30
    ledger.deliver(0)
    settle(ledger, flow, 1, ledger.next_sequence, FAILED)
    redelivered_ranges(ledger)


def bench_backlog() -> None:
    """The cost of 200,000 waiting one-message batches, step by step."""
    start = thread_time_ns()
    ledger = waiting_ones(WAITING)
    report(f"append {WAITING} batches of one", thread_time_ns() - start, messages=WAITING, batches=WAITING)
    start = thread_time_ns()
    drain(ledger, {})
    report("drain them from memory, window 300", thread_time_ns() - start, messages=WAITING, batches=WAITING)
    ledger = waiting_ones(WAITING)
    start = thread_time_ns()
    pages = page_out(ledger)
    report(
        f"plan and take over {len(pages)} pages of them", thread_time_ns() - start, messages=WAITING, batches=WAITING
    )
    start = thread_time_ns()
    drain(ledger, pages)
    report("drain them from pages, window 300", thread_time_ns() - start, messages=WAITING, batches=WAITING)
    ledger = waiting_ones(WAITING)
    start = thread_time_ns()
    ledger.purge()
    report("purge them", thread_time_ns() - start, messages=WAITING, batches=WAITING)
    ledger = waiting_ones(WAITING)
    start = thread_time_ns()
    for sequence in range(2, WAITING, 2):
        ledger.give_up(sequence, sequence + 1, "not_stored")
    drain(ledger, {})
    report("withdraw every other one, drain the rest", thread_time_ns() - start, messages=WAITING, batches=WAITING)
    ledger = waiting_ones(WAITING)
    start = thread_time_ns()
    give_everything_back(ledger)
    report("deliver all, fail all, cursor of all", thread_time_ns() - start, messages=WAITING, batches=WAITING)


def main() -> None:
    """Run everything."""
    print(f"ledger ({'compiled' if ledger_module.__file__.endswith('.so') else 'interpreted'})")
    bench_turns()
    bench_disorder()
    bench_backlog()


if __name__ == "__main__":
    main()
