"""The examples in Rust: fe2o3-amqp and rumqttc."""

from pathlib import Path

import pytest

from sluicegate.testing import Broker
from support.examples import scenarios
from support.examples.programs import Programs, build, copied, toolchain

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]  # the first build compiles all libraries


@pytest.fixture(scope="module")
def built() -> Path:
    cargo = toolchain("cargo")
    folder = copied("rust")
    build(folder, cargo, "build", "--quiet", "--locked", "--jobs", "1")
    return folder / "target" / "debug"


@pytest.mark.parametrize("client", ["amqp", "mqtt"])
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
def test_rust(client: str, check: scenarios.Scenario, built: Path, broker: Broker) -> None:
    check(Programs(lambda name: [str(built / f"{client}_{name}")], broker), broker)


@pytest.mark.parametrize(
    "check",
    [
        scenarios.a_transaction_takes_an_order_and_leaves_an_invoice,
        scenarios.a_rejected_message_is_found_in_the_dead_message_queue,
    ],
    ids=lambda check: check.__name__,
)
def test_fe2o3_amqp(check: scenarios.Scenario, built: Path, broker: Broker) -> None:
    check(Programs(lambda name: [str(built / f"amqp_{name}")], broker), broker)
