"""Gateway mode: HTTP requests are messages that wait for a reply, and the reply is the response."""

import asyncio

import pytest

import support.mqtt.packets as mqtt
from support.broker.running_broker import RunningBroker
from support.http.client import http_client
from support.mqtt.raw_client import RawClient

MESSAGE_EXPIRY, CONTENT_TYPE, RESPONSE_TOPIC, USER_PROPERTY = 2, 3, 8, 38

pytestmark = [pytest.mark.settings("vpn.service_rest_mode=gateway")]


async def service(broker: RunningBroker, topic: str) -> RawClient:
    """A service behind the gateway, which speaks MQTT 5."""
    client = await broker.connect(level=5)
    assert await client.subscribe(topic, qos=1) == [1]
    return client


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "POST"])
async def test_a_request_is_a_message_and_its_reply_the_response(broker: RunningBroker, method: str) -> None:
    """Solace 8.5: topic METHOD/path; Non-Persistent, TTL 30000 ms; any method."""
    behind = await service(broker, f"{method}/prices/#")
    async with http_client(broker) as client:
        headers = {"X-Region": "eu; type=int32", "Content-Type": "text/plain", "Authorization": ""}
        asking = asyncio.create_task(client.request(method, "/prices/a%20b?full=1", content=b"?", headers=headers))
        asked = await behind.message()
        assert (asked.topic, asked.payload, asked.qos) == (f"{method}/prices/a b", b"?", 1)
        assert 20 <= int(str(asked.values(MESSAGE_EXPIRY)[0])) <= 30
        said = dict(asked.values(USER_PROPERTY))  # type: ignore[arg-type]  # pairs of texts
        assert said["JMS_Solace_HTTP_method"] == method
        assert said["JMS_Solace_HTTP_target_path_query_verbatim"] == "/prices/a%20b?full=1"
        assert said["JMS_Solace_HTTP_field_X-Region"] == "eu; type=int32"
        assert not [name for name in said if "authorization" in name.lower()]
        [reply_topic] = asked.values(RESPONSE_TOPIC)
        await behind.publish(str(reply_topic), b"7", qos=1, properties=mqtt.text_property(CONTENT_TYPE, "text/plain"))
        answer = await asking
        assert (answer.status_code, answer.content, answer.headers["content-type"]) == (200, b"7", "text/plain")


async def test_a_request_without_a_consumer_gets_404(broker: RunningBroker) -> None:
    """Solace 8.5: no match is a 404 with an error body."""
    async with http_client(broker) as client:
        answer = await client.get("/none")
    assert (answer.status_code, "No Subscription Match" in answer.text) == (404, True)


async def test_a_request_may_say_how_long_it_waits(broker: RunningBroker) -> None:
    await service(broker, "GET/#")
    async with http_client(broker) as client:
        answer = await client.get("/slow", headers={"Solace-Reply-Wait-Time-In-ms": "1"})
    assert (answer.status_code, "Reply Timeout" in answer.text) == (504, True)


async def test_paths_of_messaging_mode_are_topics_here(broker: RunningBroker) -> None:
    behind = await service(broker, "POST/QUEUE/q")
    async with http_client(broker) as client:
        asking = asyncio.create_task(client.post("/QUEUE/q", content=b"x"))
        asked = await behind.message()
        [reply_topic] = asked.values(RESPONSE_TOPIC)
        await behind.publish(str(reply_topic), b"", qos=0)
        assert (await asking).status_code == 200


@pytest.mark.settings("vpn.service_rest_mode=gateway", "http.allowed_origins=['*']")
async def test_a_page_that_asks_what_it_may_send_is_answered_by_the_gateway(broker: RunningBroker) -> None:
    """Fetch standard, CORS protocol; any other OPTIONS is relayed."""
    async with http_client(broker) as client:
        asks = {"Origin": "https://shop.example", "Access-Control-Request-Method": "PUT"}
        answer = await client.options("/a", headers=asks)
        assert (answer.status_code, answer.headers["access-control-allow-methods"]) == (204, "PUT")
        assert (await client.options("/a")).status_code == 404
