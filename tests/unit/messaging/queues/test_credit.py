"""Credit of consumers: limits of a flow and of the node, and the line of partitions that wait for it."""

from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.outcomes import ACCEPTED
from sluicegate.messaging.partitions.explain import WaitReason, key_status
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.state.flows import DeliveryRules, Flow
from sluicegate.messaging.queues.credit import CreditPool, CreditWindow, WaitingLine
from support.cores.messages import flow_of, keyed, numbered


def delivered_count(ledger: Ledger) -> int:
    return sum(each.stop_row - each.start_row for each in ledger.deliver(0))


def ledger_with(flow: Flow, *, messages: int, unacked_count_max: int = 1000) -> Ledger:
    ledger = Ledger(durable=True, rules=DeliveryRules(unacked_count_max=unacked_count_max))
    ledger.append(numbered(messages), None)
    ledger.attach(flow, 1)
    return ledger


def test_at_the_maximum_of_the_node_no_consumer_gets_more() -> None:
    """Solace 6.4: the system-wide delivered-unacked maximum."""
    pool: CreditPool[Address] = CreditPool(5)
    first = ledger_with(flow_of(1, window=CreditWindow(4, pool)), messages=4)
    window: CreditWindow[Address] = CreditWindow(4, pool)
    second = ledger_with(flow_of(2, window=window), messages=4)

    assert (delivered_count(first), delivered_count(second)) == (4, 1)
    assert pool.available() == 0
    [starved] = second.effects.starved_flows
    starved.window.wait(waiter := Address())

    first.settle(1, 1, 3, ACCEPTED)
    first.flows[1].flow.window.give(2)
    assert pool.next_window() is window
    assert window.waiters_for_room() == [waiter]
    assert delivered_count(second) == 2


def test_a_consumer_that_goes_gives_everything_back() -> None:
    pool: CreditPool[Address] = CreditPool(5)
    window: CreditWindow[Address] = CreditWindow(5, pool)
    window.take(5)
    window.close()
    assert (pool.used, window.available()) == (0, 0)


def test_a_consumer_that_goes_stands_in_line_no_more() -> None:
    pool: CreditPool[Address] = CreditPool(1)
    holder: CreditWindow[Address] = CreditWindow(4, pool)
    window: CreditWindow[Address] = CreditWindow(4, pool)
    holder.take(1)
    window.wait(Address())
    window.close()
    assert pool.next_window() is None


def test_who_settles_while_others_wait_for_the_node_stands_behind_them() -> None:
    pool: CreditPool[Address] = CreditPool(1)
    first: CreditWindow[Address] = CreditWindow(4, pool)
    second: CreditWindow[Address] = CreditWindow(4, pool)
    second.take(1)
    first.wait(Address())
    second.give(1)
    second.wait(Address())

    assert second.next_waiters() == []
    assert [pool.next_window(), pool.next_window(), pool.next_window()] == [first, second, None]


def test_no_partition_is_woken_before_the_node_has_room() -> None:
    """Retained messages count and do not wait, so more may be held than the maximum."""
    pool: CreditPool[Address] = CreditPool(2)
    looks: list[int] = []
    pool.has_room = lambda: looks.append(pool.used)
    window: CreditWindow[Address] = CreditWindow(4, pool)
    window.take(3)
    window.wait(Address())
    window.give(1)
    assert looks == []
    window.give(1)
    assert looks == [1]


def test_settlements_of_one_turn_call_no_more_partitions_than_there_is_credit_for() -> None:
    """Who was called may have nothing any more: what it leaves is for the next, after a look."""
    window: CreditWindow[Address] = CreditWindow(5)
    window.take(5)
    partitions = [Address() for _ in range(5)]
    for each in partitions:
        window.wait(each)
    window.give(2)
    assert window.next_waiters() == partitions[:2]
    window.give(1)
    assert window.next_waiters() == partitions[2:3]
    assert window.further_waiters() == partitions[3:]


def test_a_consumer_whose_socket_is_full_has_room_for_nothing() -> None:
    pool: CreditPool[Address] = CreditPool(3)
    window: CreditWindow[Address] = CreditWindow(4, pool)
    window.is_shut = True
    assert (window.room(), window.available()) == (0, 0)


def test_a_key_that_waits_for_the_whole_node_says_so() -> None:
    pool: CreditPool[Address] = CreditPool(1)
    ledger = Ledger(durable=True, rules=DeliveryRules())
    ledger.append(keyed(["a", "b"]), None)
    ledger.attach(flow_of(1, window=CreditWindow(10, pool)), 1)
    ledger.deliver(0)
    assert key_status(ledger, "b").reason is WaitReason.NODE_UNACKED_MAX


def test_a_flow_holds_no_more_over_its_partitions_than_the_queue_allows() -> None:
    """Solace 4.2: maxDeliveredUnackedMsgsPerFlow."""
    flow = flow_of(1, limit=100)
    first = ledger_with(flow, messages=3, unacked_count_max=4)
    second = ledger_with(flow, messages=3, unacked_count_max=4)
    assert (delivered_count(first), delivered_count(second)) == (3, 1)

    first.settle(1, 1, 3, ACCEPTED)
    flow.window.give(2)
    assert delivered_count(second) == 2


def test_a_partition_that_is_taken_away_counts_no_more() -> None:
    flow = flow_of(1, limit=100)
    first = ledger_with(flow, messages=3, unacked_count_max=3)
    second = ledger_with(flow, messages=3, unacked_count_max=3)
    assert (delivered_count(first), delivered_count(second)) == (3, 0)
    first.detach(1, count_as_failed=False)
    assert flow.unacked_count() == 0
    assert delivered_count(second) == 3


@given(
    steps=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(1, 4)), max_size=60),
    unacked_count_max=st.integers(1, 6),
)
def test_no_order_of_deliveries_and_settlements_exceeds_the_maximum(
    steps: list[tuple[int, int, int]], unacked_count_max: int
) -> None:
    """Goal: the shortcut near the maximum never lets a flow have more. Method: two partitions, add them up."""
    flow = flow_of(1, limit=50)
    ledgers = [ledger_with(flow, messages=1, unacked_count_max=unacked_count_max) for _ in range(2)]
    for what, number, count in steps:
        ledger = ledgers[number]
        if what == 0:
            ledger.append(numbered(count), None)
        elif what == 1:
            ledger.deliver(0)
        else:
            for first, _ in ledger.flows[1].in_flight.ranges()[:1]:
                flow.window.give(ledger.settle(1, first, first + 1, ACCEPTED))
        held = sum(ledger.flows[1].in_flight.total for ledger in ledgers)
        assert held == flow.unacked_count() <= unacked_count_max


@given(waiters_count=st.integers(1, 6), called_counts=st.lists(st.integers(1, 6), max_size=30))
def test_each_is_the_first_once_before_anybody_is_again(waiters_count: int, called_counts: list[int]) -> None:
    """Goal: turns, however many are called at a time. Method: the first takes all, and everybody has more to take."""
    line: WaitingLine[int] = WaitingLine()
    for waiter in range(waiters_count):
        line.stand(waiter, has_taken=False)
    firsts = []
    for count in called_counts:
        called = line.call(min(count, waiters_count))
        firsts.append(called[0])
        for waiter in called:
            line.stand(waiter, has_taken=waiter == called[0])
        line.end_round()
        assert line.count == waiters_count
    assert firsts == [number % waiters_count for number in range(len(firsts))]
