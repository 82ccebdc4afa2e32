"""The examples in Spring Boot: the AMQP 1.0 JMS starter, one application whose profiles are the programs."""

from pathlib import Path

import pytest

from sluicegate.testing import Broker
from support.examples import scenarios
from support.examples.programs import Programs, build, copied, toolchain

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]  # the first build downloads


@pytest.fixture(scope="module")
def built() -> Path:
    maven = toolchain("mvn")
    folder = copied("spring-boot")
    build(folder, maven, "--batch-mode", "--quiet", "package")
    return folder / "target" / "orders.jar"


@pytest.fixture
def programs(built: Path, broker: Broker) -> Programs:
    java = toolchain("java")
    return Programs(lambda name: [java, "-jar", str(built), f"--spring.profiles.active={name}"], broker)


@pytest.mark.parametrize(
    "check",
    [
        scenarios.orders_are_published_with_a_key,
        scenarios.workers_share_the_queue_and_keep_the_order_of_keys,
        scenarios.requests_are_answered,
        scenarios.a_question_without_an_address_for_its_answer_does_no_harm,
        scenarios.a_transaction_takes_an_order_and_leaves_an_invoice,
        scenarios.a_message_that_fails_is_found_in_the_dead_message_queue,
    ],
    ids=lambda check: check.__name__,
)
def test_spring_boot(check: scenarios.Scenario, programs: Programs, broker: Broker) -> None:
    check(programs, broker)
