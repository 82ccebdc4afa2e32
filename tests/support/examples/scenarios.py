"""What the programs of each client library have to do, by name: one function for each column of examples/README.md."""

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

import sluicegate
from sluicegate.testing import Broker
from support.examples.programs import WITHIN_S, Programs

Scenario = Callable[[Programs, Broker], None]

CUSTOMERS: Final = 8
ROUND: Final = 5  # orders of each customer


def create_queues(broker: Broker) -> None:
    """Create the queues that examples/README.md has its readers create."""
    broker.create_queue("dead")
    broker.create_queue(
        "orders",
        subscriptions=["orders/>"],
        access_type="non-exclusive",
        partition_count=4,
        partition_rebalance_delay_s=0,
        partition_rebalance_max_handoff_time_s=60,  # no order is broken by a machine that is slow
        dead_msg_queue="dead",
        max_redelivery_count=3,
    )
    broker.create_queue("invoices")
    broker.create_queue("prices", access_type="non-exclusive")


def orders_are_published_with_a_key(programs: Programs, broker: Broker) -> None:
    """`publish`: each customer's orders lie in one partition, in their order."""
    assert programs.run("publish") == ["12 orders published"]
    found = broker.drain("orders")
    by_key = {
        f"customer-{key}": [f"order {number}" for number in range(1, 13) if number % 3 + 1 == key] for key in (1, 2, 3)
    }
    assert _by_key((str(each.key), each.text) for each in found) == by_key
    assert len({(each.key, each.partition) for each in found}) == len(by_key)


def workers_share_the_queue_and_keep_the_order_of_keys(programs: Programs, broker: Broker) -> None:
    """`consume`, twice: each gets some of the customers, and the orders of a customer in their order."""
    published: list[tuple[str, str]] = []
    with programs.running("consume") as first, programs.running("consume") as second:
        broker.wait_for_consumers("orders", 2, within_s=WITHIN_S)
        deadline = time.monotonic() + WITHIN_S
        while not (first.lines and second.lines):  # the second one gets partitions when the first has let go of them
            assert time.monotonic() < deadline, (first.lines, second.lines)
            orders = [
                (f"customer-{customer}", f"order {len(published) // CUSTOMERS + number}")
                for number in range(ROUND)
                for customer in range(CUSTOMERS)
            ]
            broker.publish(
                *(sluicegate.Message(text.encode(), topic="orders/eu", key=key, is_text=True) for key, text in orders)
            )
            published += orders
            broker.wait_until_empty("orders", within_s=WITHIN_S)
    seen = [_by_key(_split(running.lines)) for running in (first, second)]
    assert {pair for running in (first, second) for pair in _split(running.lines)} == set(published)
    for by_key in seen:
        for texts in by_key.values():
            assert texts == sorted(texts, key=_number)


def a_request_is_answered(asking: Programs, answering: Programs, broker: Broker) -> None:
    """`request` and `reply`."""
    with answering.running("reply"):
        broker.wait_for_consumers("prices", 1, within_s=WITHIN_S)
        assert asking.run("request") == ["apple: 0.30"]
        broker.wait_until_empty("prices", within_s=WITHIN_S)


def a_question_without_an_address_for_its_answer_does_no_harm(programs: Programs, broker: Broker) -> None:
    """`reply` goes on, and answers the next question."""
    broker.publish(sluicegate.Message(b"pear", queue="prices", is_text=True))
    a_request_is_answered(programs, programs, broker)


def a_question_whose_answer_is_refused_does_no_harm(programs: Programs, broker: Broker) -> None:
    """`reply` goes on: the shopper has left, and its queue with it. The question does not come again."""
    broker.publish(sluicegate.Message(b"pear", queue="prices", is_text=True, reply_to="#q/gone"))
    a_request_is_answered(programs, programs, broker)


def requests_are_answered(programs: Programs, broker: Broker) -> None:
    """`request` and `reply` of one client."""
    a_request_is_answered(programs, programs, broker)


def a_transaction_takes_an_order_and_leaves_an_invoice(programs: Programs, broker: Broker) -> None:
    """`transaction`."""
    broker.publish(sluicegate.Message(b"order 1", topic="orders/eu", key="customer-1", is_text=True))
    assert programs.run("transaction") == ["committed: invoice for order 1"]
    broker.wait_until_empty("orders", within_s=WITHIN_S)
    assert [(each.key, each.text) for each in broker.drain("invoices")] == [("customer-1", "invoice for order 1")]


def a_rejected_message_is_found_in_the_dead_message_queue(programs: Programs, broker: Broker) -> None:
    """`dead_messages`, of a client that can reject."""
    _find_dead(programs, broker, "rejected")


def a_message_that_fails_is_found_in_the_dead_message_queue(programs: Programs, broker: Broker) -> None:
    """`dead_messages`, of a client that can only fail."""
    _find_dead(programs, broker, "max_redelivery_exceeded")


def _find_dead(programs: Programs, broker: Broker, reason: str) -> None:
    broker.publish(sluicegate.Message(b"order 1", topic="orders/eu", key="customer-4", is_text=True))
    lines = programs.run("dead_messages")
    assert lines[0] == "done: order 1"
    assert lines[-1] == f"dead: no order at all ({reason})"
    broker.wait_until_empty("orders", within_s=WITHIN_S)
    broker.wait_until_empty("dead", within_s=WITHIN_S)


def _split(lines: list[str]) -> list[tuple[str, str]]:
    found = [re.fullmatch(r"(\S+): (order \d+)", line) for line in lines]
    assert None not in found, lines
    return [(each[1], each[2]) for each in found if each is not None]


def _by_key(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    texts: defaultdict[str, list[str]] = defaultdict(list)
    for key, text in pairs:
        texts[key].append(text)
    return dict(texts)


def _number(text: str) -> int:
    return int(text.removeprefix("order "))
