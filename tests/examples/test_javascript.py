"""The examples in JavaScript: MQTT.js and rhea."""

import pytest

from sluicegate.testing import Broker
from support.examples import scenarios
from support.examples.programs import Programs, copied
from support.processes.foreign_programs import node_modules, program

pytestmark = [pytest.mark.interop]

CHECKS = (
    scenarios.orders_are_published_with_a_key,
    scenarios.workers_share_the_queue_and_keep_the_order_of_keys,
    scenarios.requests_are_answered,
    scenarios.a_question_without_an_address_for_its_answer_does_no_harm,
    scenarios.a_rejected_message_is_found_in_the_dead_message_queue,
)


@pytest.mark.parametrize("client", ["mqtt_js", "rhea"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_javascript(client: str, check: scenarios.Scenario, broker: Broker) -> None:
    installed = node_modules("mqtt" if client == "mqtt_js" else "rhea")
    folder = copied("javascript")
    if not (folder / "node_modules").is_symlink():
        (folder / "node_modules").symlink_to(installed)
    check(Programs(lambda name: [program("node"), str(folder / client / f"{name}.js")], broker), broker)
