"""The examples in Python: Paho, Qpid Proton, and the client library of the gateway with threads and with asyncio."""

import sys
from collections.abc import Callable

import pytest

from sluicegate.testing import Broker
from support.examples import scenarios
from support.examples.programs import EXAMPLES, Programs

pytestmark = [pytest.mark.interop]

CLIENTS = ("paho_mqtt", "qpid_proton", "flow_threads", "flow_asyncio")


@pytest.fixture
def programs(broker: Broker) -> Callable[[str], Programs]:
    def of(client: str) -> Programs:
        folder = EXAMPLES / "python" / client
        return Programs(lambda name: [sys.executable, str(folder / f"{name}.py")], broker)

    return of


@pytest.mark.parametrize("client", CLIENTS)
def test_orders_are_published_with_a_key(client: str, programs: Callable[[str], Programs], broker: Broker) -> None:
    scenarios.orders_are_published_with_a_key(programs(client), broker)


@pytest.mark.parametrize("client", CLIENTS)
def test_workers_share_a_queue(client: str, programs: Callable[[str], Programs], broker: Broker) -> None:
    scenarios.workers_share_the_queue_and_keep_the_order_of_keys(programs(client), broker)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_question_without_an_address_does_no_harm(
    client: str, programs: Callable[[str], Programs], broker: Broker
) -> None:
    scenarios.a_question_without_an_address_for_its_answer_does_no_harm(programs(client), broker)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_question_whose_answer_is_refused_does_no_harm(
    client: str, programs: Callable[[str], Programs], broker: Broker
) -> None:
    scenarios.a_question_whose_answer_is_refused_does_no_harm(programs(client), broker)


@pytest.mark.parametrize(("client", "other"), list(zip(CLIENTS, CLIENTS[1:] + CLIENTS[:1], strict=True)))
def test_each_client_answers_another(
    client: str, other: str, programs: Callable[[str], Programs], broker: Broker
) -> None:
    scenarios.a_request_is_answered(programs(client), programs(other), broker)


def test_a_transaction_is_committed(programs: Callable[[str], Programs], broker: Broker) -> None:
    scenarios.a_transaction_takes_an_order_and_leaves_an_invoice(programs("qpid_proton"), broker)


@pytest.mark.parametrize("client", CLIENTS)
def test_dead_messages_are_found(client: str, programs: Callable[[str], Programs], broker: Broker) -> None:
    """Paho cannot reject: its acknowledgement has no reason code."""
    if client == "paho_mqtt":
        scenarios.a_message_that_fails_is_found_in_the_dead_message_queue(programs(client), broker)
    else:
        scenarios.a_rejected_message_is_found_in_the_dead_message_queue(programs(client), broker)
