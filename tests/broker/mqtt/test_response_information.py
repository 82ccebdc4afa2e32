"""Response Information (sections 3.1.2.11.6, 3.2.2.3.14, 4.10.1): where a client may have its responses sent."""

import pytest

import support.mqtt.packets as mqtt
from support.broker.running_broker import RunningBroker

RESPONSE_INFORMATION = 26  # property of CONNACK
ASSIGNED_CLIENT_IDENTIFIER = 18
ASKS = mqtt.request_response_information(1)
BY_CLIENT = pytest.mark.settings("mqtt.response_information=response/%c")


@BY_CLIENT
async def test_a_requester_is_told_its_own_topic_and_gets_the_response_there(broker: RunningBroker) -> None:
    responder = await broker.connect("responder", 5)
    await responder.subscribe("request")
    requester = await broker.connect("pump-7", 5, properties=ASKS)
    topic = requester.accepted.value(RESPONSE_INFORMATION)
    assert topic == "response/pump-7"
    await requester.subscribe(f"{topic}/#")
    await requester.publish("request", properties=mqtt.response_topic(f"{topic}/1"))
    asked = (await responder.messages(1))[0]
    await responder.publish(str(dict(asked.properties)[8]), b"done")
    assert await requester.payloads(1) == [b"done"]


@BY_CLIENT
@pytest.mark.parametrize("properties", [b"", mqtt.request_response_information(0)])
async def test_a_client_that_does_not_ask_is_told_nothing(broker: RunningBroker, properties: bytes) -> None:
    """[3.1.2-28]."""
    accepted = (await broker.connect("c", 5, properties=properties)).accepted
    assert RESPONSE_INFORMATION not in dict(accepted.properties)


@BY_CLIENT
@pytest.mark.parametrize("level", [3, 4])
async def test_clients_of_3_x_are_accepted_as_ever(broker: RunningBroker, level: int) -> None:
    await (await broker.connect("c", level)).round_trip()


async def test_without_the_setting_nobody_is_told_anything(broker: RunningBroker) -> None:
    accepted = (await broker.connect("c", 5, properties=ASKS)).accepted
    assert RESPONSE_INFORMATION not in dict(accepted.properties)


@BY_CLIENT
async def test_an_assigned_identifier_counts(broker: RunningBroker) -> None:
    client = await broker.open(5)
    accepted = await client.connect("", properties=ASKS)
    assert accepted.value(RESPONSE_INFORMATION) == f"response/{accepted.value(ASSIGNED_CLIENT_IDENTIFIER)!s}"


@BY_CLIENT
@pytest.mark.parametrize("client_id", ["+", "a/#", "c" * 100])
async def test_a_topic_that_cannot_be_said_is_left_out(broker: RunningBroker, client_id: str) -> None:
    """[3.1.2-24]: of the last one the CONNACK would be larger than its client takes."""
    properties = ASKS + mqtt.maximum_packet_size(100)
    accepted = (await broker.connect(client_id, 5, properties=properties)).accepted
    assert RESPONSE_INFORMATION not in dict(accepted.properties)


@pytest.mark.accounts(ada="engine")
@pytest.mark.settings("mqtt.response_information=%u/response")
async def test_a_user_name_may_be_in_it(broker: RunningBroker) -> None:
    accepted = (await broker.connect("c", 5, user_name="ada", password=b"engine", properties=ASKS)).accepted
    assert accepted.value(RESPONSE_INFORMATION) == "ada/response"


@pytest.mark.settings("mqtt.response_information=%u/response")
async def test_a_client_without_user_name_has_no_topic_of_its_user(broker: RunningBroker) -> None:
    accepted = (await broker.connect("c", 5, properties=ASKS)).accepted
    assert RESPONSE_INFORMATION not in dict(accepted.properties)
