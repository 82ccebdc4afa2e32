"""The examples in Java: Qpid JMS, AMQP 1.0 through JMS as it is."""

from pathlib import Path

import pytest

from sluicegate.testing import Broker
from support.examples import scenarios
from support.examples.programs import Programs, build, copied, toolchain

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]  # the first build downloads


@pytest.fixture(scope="module")
def built() -> Path:
    maven = toolchain("mvn")
    folder = copied("java")
    build(folder, maven, "--batch-mode", "--quiet", "package")
    return folder / "target"


@pytest.fixture
def programs(built: Path, broker: Broker) -> Programs:
    def command(name: str) -> list[str]:
        main = name.title().replace("_", "")
        return [toolchain("java"), "-cp", f"{built}/orders.jar:{built}/lib/*", f"orders.{main}"]

    return Programs(command, broker)


CHECKS = (
    scenarios.orders_are_published_with_a_key,
    scenarios.workers_share_the_queue_and_keep_the_order_of_keys,
    scenarios.requests_are_answered,
    scenarios.a_question_without_an_address_for_its_answer_does_no_harm,
    scenarios.a_question_whose_answer_is_refused_does_no_harm,
    scenarios.a_transaction_takes_an_order_and_leaves_an_invoice,
    scenarios.a_rejected_message_is_found_in_the_dead_message_queue,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_qpid_jms(check: scenarios.Scenario, programs: Programs, broker: Broker) -> None:
    check(programs, broker)
