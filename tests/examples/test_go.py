"""The examples in Go: Azure's go-amqp and Eclipse's paho.golang."""

from pathlib import Path

import pytest

from sluicegate.testing import Broker
from support.examples import scenarios
from support.examples.programs import Programs, build, copied, toolchain

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]  # the first build compiles much of Go's library

CLIENTS = ("amqp", "mqtt")


@pytest.fixture(scope="module")
def built() -> Path:
    go = toolchain("go")
    folder = copied("go")
    for client in CLIENTS:
        build(folder, go, "build", "-p", "1", "-o", f"bin/{client}/", f"./{client}/...")
    return folder / "bin"


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    "check",
    [
        scenarios.orders_are_published_with_a_key,
        scenarios.workers_share_the_queue_and_keep_the_order_of_keys,
        scenarios.requests_are_answered,
        scenarios.a_question_without_an_address_for_its_answer_does_no_harm,
        scenarios.a_question_whose_answer_is_refused_does_no_harm,
    ],
    ids=lambda check: check.__name__,
)
def test_go(client: str, check: scenarios.Scenario, built: Path, broker: Broker) -> None:
    check(Programs(lambda name: [str(built / client / name)], broker), broker)


def test_go_amqp_rejects_a_message(built: Path, broker: Broker) -> None:
    programs = Programs(lambda name: [str(built / "amqp" / name)], broker)
    scenarios.a_rejected_message_is_found_in_the_dead_message_queue(programs, broker)
