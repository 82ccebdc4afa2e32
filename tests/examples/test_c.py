"""The examples in C: Eclipse Paho's synchronous client."""

from pathlib import Path

import pytest

from sluicegate.testing import Broker
from support.examples import scenarios
from support.examples.programs import Programs, build, copied, toolchain

pytestmark = [pytest.mark.interop]

HEADER = Path("/usr/include/MQTTClient.h")


@pytest.fixture(scope="module")
def built() -> Path:
    make = toolchain("make")
    toolchain("cc")
    if not HEADER.is_file():
        pytest.skip("Debian's libpaho-mqtt-dev is not installed")
    folder = copied("c")
    build(folder, make)
    return folder


@pytest.mark.parametrize(
    "check",
    [
        scenarios.orders_are_published_with_a_key,
        scenarios.workers_share_the_queue_and_keep_the_order_of_keys,
        scenarios.requests_are_answered,
    ],
    ids=lambda check: check.__name__,
)
def test_paho_c(check: scenarios.Scenario, built: Path, broker: Broker) -> None:
    check(Programs(lambda name: [str(built / name)], broker), broker)
