"""The examples in C: Eclipse Paho's synchronous client, and Apache Qpid Proton."""

from pathlib import Path

import pytest

from sluicegate.testing import Broker
from support.examples import scenarios
from support.examples.programs import Programs, build, copied, toolchain

pytestmark = [pytest.mark.interop]

PAHO = Path("/usr/include/MQTTClient.h")
PROTON = Path("/usr/include/proton/proactor.h")


def made(client: str, header: Path, package: str) -> Path:
    """Return the folder with the programs of a client."""
    make = toolchain("make")
    toolchain("cc")
    if not header.is_file():
        pytest.skip(f"Debian's {package} is not installed")
    folder = copied("c")
    build(folder, make, client)
    return folder / client


@pytest.fixture(scope="module")
def paho() -> Path:
    return made("paho", PAHO, "libpaho-mqtt-dev")


@pytest.fixture(scope="module")
def proton() -> Path:
    return made("proton", PROTON, "libqpid-proton11-dev")


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
def test_paho_c(check: scenarios.Scenario, paho: Path, broker: Broker) -> None:
    check(Programs(lambda name: [str(paho / name)], broker), broker)


@pytest.mark.parametrize(
    "check",
    [
        scenarios.orders_are_published_with_a_key,
        scenarios.workers_share_the_queue_and_keep_the_order_of_keys,
        scenarios.requests_are_answered,
        scenarios.a_question_without_an_address_for_its_answer_does_no_harm,
        scenarios.a_question_whose_answer_is_refused_does_no_harm,
        scenarios.a_rejected_message_is_found_in_the_dead_message_queue,
    ],
    ids=lambda check: check.__name__,
)
def test_proton_c(check: scenarios.Scenario, proton: Path, broker: Broker) -> None:
    check(Programs(lambda name: [str(proton / name)], broker), broker)
