"""HTTP publishers: a POST to a topic or queue, and the response once the message is stored."""

import asyncio
import base64
import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.operations.node import NodeOperations
from support.broker.running_broker import RunningBroker
from support.http.client import http_client, words
from support.mqtt.raw_client import DEADLINE_S, RawClient
from support.network.tokens import TokenServer

GRANTED_QOS_1 = 1
NO_MATCHING_SUBSCRIBERS = 0x10
NOT_AUTHORIZED = 0x87
PAYLOAD_FORMAT, MESSAGE_EXPIRY, CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION_DATA, USER_PROPERTY = 1, 2, 3, 8, 9, 38


def url(broker: RunningBroker) -> str:
    return f"http://127.0.0.1:{broker.node.http.listeners['http'].port}"


async def subscriber(broker: RunningBroker, topic: str) -> RawClient:
    client = await broker.connect(level=5)
    assert await client.subscribe(topic, qos=1) == [GRANTED_QOS_1]
    return client


async def create(broker: RunningBroker, name: str, **attributes: object) -> None:
    await NodeOperations(broker.node).create_queue({"name": name, **attributes})


async def held(broker: RunningBroker, name: str) -> int:
    view = await NodeOperations(broker.node).show_queue(name)
    return view.ready_count


async def test_a_post_to_a_topic_reaches_its_subscribers(broker: RunningBroker) -> None:
    """Solace 8.5: POST /TOPIC/<topic>; 200 after acceptance, with nothing in the body."""
    device = await subscriber(broker, "plant/+/state")
    async with http_client(broker) as client:
        answer = await client.post("/TOPIC/plant/7/state", content=b"on")
    assert (answer.status_code, answer.content) == (200, b"")
    got = await device.message()
    assert (got.topic, got.payload, got.qos) == ("plant/7/state", b"on", 1)


async def test_a_path_without_prefix_is_a_topic(broker: RunningBroker) -> None:
    """Solace 8.5; percent-encoding is undone."""
    device = await subscriber(broker, "#")
    async with http_client(broker) as client:
        assert (await client.post("/plant/%C3%BC%20b", content=b"x")).status_code == 200
    assert (await device.message()).topic == "plant/\u00fc b"


async def test_a_post_to_a_queue_is_answered_once_the_message_is_in_it(broker: RunningBroker) -> None:
    """Solace 8.5: POST /QUEUE/<name>; for persistent only after it is stored."""
    await create(broker, "orders")
    async with http_client(broker) as client:
        for number in range(5):
            assert (await client.post("/QUEUE/orders", content=str(number))).status_code == 200
    assert await held(broker, "orders") == 5
    consumer = await broker.connect(level=5)
    await consumer.subscribe("$queue/orders", qos=1)
    assert [(await consumer.message()).payload for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]


async def test_attributes_of_a_message_travel(broker: RunningBroker) -> None:
    """Solace 8.5 and 8.6: headers to the normalised message, seen by an MQTT 5 consumer."""
    device = await subscriber(broker, "t")
    async with http_client(broker) as client:
        headers = {
            "Content-Type": "application/json",
            "Solace-Correlation-ID": "c-1",
            "Solace-Reply-To-Destination": "/TOPIC/replies",
            "Solace-Time-To-Live-In-ms": "90000",
            "Solace-User-Property-Region": "EU",
            "Solace-User-Property-Weight": "12; type=int32",
            "Solace-User-Property-JMSXGroupID": "customer-7",
        }
        assert (await client.post("/TOPIC/t", content=b"{}", headers=headers)).status_code == 200
    got = await device.message()
    assert got.values(CONTENT_TYPE)[0] == "application/json"
    assert got.values(CORRELATION_DATA)[0] == b"c-1"
    assert got.values(RESPONSE_TOPIC)[0] == "replies"
    assert 80 <= int(str(got.values(MESSAGE_EXPIRY)[0])) <= 90
    assert got.values(PAYLOAD_FORMAT) == [1]
    assert ("Region", "EU") in got.values(USER_PROPERTY)
    assert ("Weight", "12") in got.values(USER_PROPERTY)
    assert ("JMSXGroupID", "customer-7") in got.values(USER_PROPERTY)


@pytest.mark.parametrize("header", ["Sluicegate-Partition-Key", "Solace-User-Property-JMSXGroupID"])
async def test_messages_of_one_key_lie_in_one_partition(broker: RunningBroker, header: str) -> None:
    """Solace 5.2: JMSXGroupID is the partition key; ours is its own name for it."""
    await create(broker, "parts", access_type="non-exclusive", partition_count=8)
    async with http_client(broker) as client:
        for number in range(6):
            answer = await client.post("/QUEUE/parts", content=str(number), headers={header: "k"})
            assert answer.status_code == 200
    view = await NodeOperations(broker.node).show_queue("parts")
    assert sorted(each.ready_count for each in view.partitions)[-2:] == [0, 6]


async def test_a_direct_message_is_not_kept(broker: RunningBroker) -> None:
    """Solace 8.5: Solace-Delivery-Mode, in any case of letters."""
    device = await broker.connect(level=5)
    await device.subscribe("t", qos=1)
    async with http_client(broker) as client:
        headers = {"solace-delivery-mode": "DIRECT"}
        assert (await client.post("/TOPIC/t", content=b"x", headers=headers)).status_code == 200
    assert (await device.message()).qos == 0


@pytest.mark.parametrize(
    ("path", "headers", "status", "detail"),
    [
        ("/QUEUE/none", {}, 400, "there is no such queue"),
        ("/QUEUE/", {}, 400, "/QUEUE/ without the name of a queue"),
        ("/TOPIC/a/%23", {}, 400, "topic 'a/#': "),
        ("/%FF", {}, 400, "the path is not UTF-8 when its percent-encoding is undone"),
        ("/a", {"Solace-Delivery-Mode": "Fast"}, 400, "is none of Direct, Non-Persistent, Persistent"),
        ("/a", {"Solace-Time-To-Live-In-ms": "-1"}, 400, "is no whole number from 0 to"),
        ("/a", {"Solace-DMQ-Eligible": "yes"}, 400, "'yes' is neither true nor false"),
        ("/a", {"Solace-User-Property-n": "300; type=int8"}, 400, "user property 'n': 300 is no int8: -128 to 127"),
        ("/a", {"Solace-User-Property-n": "1; type=map"}, 400, "the type 'map' is none of string"),
        ("/a", {"Solace-Reply-To-Destination": "replies"}, 400, "'replies' is neither /QUEUE/name nor /TOPIC/topic"),
        ("/a", {"Sluicegate-Partition-Key": "k" * 256}, 400, "a partition key of more than 255 bytes"),
        ("/a", {"Sluicegate-Partion-Key": "k"}, 400, "there is no header 'sluicegate-partion-key'"),
        ("/a", {"Content-Encoding": "br"}, 415, "'br' is neither gzip nor identity"),
        ("/a", {"Content-Encoding": "gzip"}, 400, "the body is not a whole gzip member"),
        ("/a", {"Sluicegate-Batch": "zip"}, 400, "'zip' is neither ndjson nor multipart"),
        ("/a", {"Authorization": "Basic !"}, 400, "is not the base64 of name:password"),
        ("/a", {"Authorization": "Digest x"}, 401, "is not supported here"),
    ],
)
async def test_a_request_that_means_nothing_hears_why(
    broker: RunningBroker, path: str, headers: dict[str, str], status: int, detail: str
) -> None:
    """Solace 8.5: 4xx is not to be sent again unchanged; the body says what was wrong."""
    async with http_client(broker) as client:
        answer = await client.post(path, content=b"x", headers=headers)
        assert answer.status_code == status
        assert detail in words(answer)
        assert (await client.post("/TOPIC/fine", content=b"x")).status_code == 200, "the connection goes on"


async def test_errors_are_json_for_those_who_take_that(broker: RunningBroker) -> None:
    async with http_client(broker) as client:
        answer = await client.post("/QUEUE/none", headers={"Accept": "application/json"})
    assert answer.json() == {"code": 400, "reason": "Queue Not Found", "detail": "there is no such queue (none)"}


async def test_errors_are_problem_documents_for_clients_that_accept_them(broker: RunningBroker) -> None:
    """RFC 9457 3: the media type, and title, status and detail."""
    async with http_client(broker) as client:
        for accept in ("application/problem+json", "application/json, Application/Problem+JSON;q=0.5"):
            answer = await client.post("/QUEUE/none", headers={"Accept": accept})
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json() == {
                "type": "about:blank",
                "title": "Queue Not Found",
                "status": 400,
                "detail": "there is no such queue (none)",
            }


@pytest.mark.settings("spool.usage_bytes_max=1MiB", "spool.map_bytes_max=64MiB")
async def test_a_full_spool_is_503(broker: RunningBroker) -> None:
    """Solace 8.5: 503 spool over quota; consumers make room, and the same request goes through."""
    await create(broker, "q")
    async with http_client(broker) as client:
        assert (await client.post("/QUEUE/q", content=bytes(900_000))).status_code == 200
        refused = await client.post("/QUEUE/q", content=bytes(300_000))
        assert (refused.status_code, words(refused)) == (503, "the broker's message spool is full (q)")
        await NodeOperations(broker.node).purge_queue("q")
        assert (await client.post("/QUEUE/q", content=bytes(300_000))).status_code == 200


@pytest.mark.settings("http.max_body_size=64KiB", "http.max_message_size=1KiB")
async def test_bodies_and_messages_have_limits(broker: RunningBroker) -> None:
    """A body announced too large, one that turns out so, one that inflates; and a message within a body."""

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield bytes(1000)

    async with http_client(broker) as client:
        assert (await client.post("/a", content=bytes(70_000))).status_code == 413
        assert (await client.post("/a", content=endless())).status_code == 413
        bomb = gzip.compress(bytes(10_000_000))
        assert (await client.post("/a", content=bomb, headers={"Content-Encoding": "gzip"})).status_code == 413
        assert (await client.post("/a", content=bytes(1025))).status_code == 413
        assert (await client.post("/a", content=bytes(1024))).status_code == 200


async def test_a_body_may_be_gzip(broker: RunningBroker) -> None:
    device = await subscriber(broker, "t")
    async with http_client(broker) as client:
        packed = gzip.compress(b"hello")
        assert (await client.post("/t", content=packed, headers={"Content-Encoding": "gzip"})).status_code == 200
        cut = await client.post("/t", content=packed[:-4], headers={"Content-Encoding": "gzip"})
        assert (cut.status_code, words(cut)) == (400, "the body is not a whole gzip member")
    assert (await device.message()).payload == b"hello"


async def test_lines_of_json_are_messages_with_a_result_each(broker: RunningBroker) -> None:
    """Each line stands for itself: what is wrong with one does not hold up the others."""
    await create(broker, "q")
    device = await subscriber(broker, "a/b")
    lines = [
        {"payload": "one"},
        {"destination": "/TOPIC/a/b", "payload": {"n": 2}, "headers": {"Solace-Correlation-ID": "c"}},
        {"destination": "/QUEUE/none", "payload": "three"},
        {"base64": base64.b64encode(bytes([0, 255])).decode()},
        {"payload": "five", "headers": {"Solace-Priority": "many"}},
        {"paylod": "six"},
    ]
    body = b"\n".join(orjson.dumps(line) for line in lines) + b"\n{broken\n"
    async with http_client(broker) as client:
        answer = await client.post("/QUEUE/q", content=body, headers={"Sluicegate-Batch": "ndjson"})
    assert answer.status_code == 207
    results = [orjson.loads(line) for line in answer.text.splitlines()]
    assert [result["status"] for result in results] == [200, 200, 400, 200, 400, 400, 400]
    assert results[2]["reason"] == "Queue Not Found"
    assert results[5]["detail"] == "the line is not an object of base64, destination, headers, payload"
    got = await device.message()
    assert (got.payload, got.values(CONTENT_TYPE)[0]) == (b'{"n":2}', "application/json")
    assert await held(broker, "q") == 2


async def test_parts_of_a_body_are_messages_with_a_result_each(broker: RunningBroker) -> None:
    device = await subscriber(broker, "#")
    body = (
        b"--cut\r\nSolace-User-Property-Who: one\r\n\r\nfirst\r\nwith lines\r\n"
        b"--cut\r\nSluicegate-Destination: /TOPIC/b\r\n\r\n\x00\xff\r\n"
        b"--cut--\r\n"
    )
    headers = {"Sluicegate-Batch": "multipart", "Content-Type": "multipart/mixed; boundary=cut"}
    async with http_client(broker) as client:
        answer = await client.post("/TOPIC/a", content=body, headers=headers)
        assert (answer.status_code, answer.text) == (200, '{"status":200}\n{"status":200}\n')
        cut = await client.post("/TOPIC/a", content=body[:-6], headers=headers)
        assert (cut.status_code, "last boundary" in words(cut)) == (400, True)
    first, second = await device.message(), await device.message()
    assert (first.topic, first.payload) == ("a", b"first\r\nwith lines")
    assert ("Who", "one") in first.values(USER_PROPERTY)
    assert (second.topic, second.payload) == ("b", b"\x00\xff")


@pytest.mark.settings("http.batch_messages_max=2")
async def test_a_batch_has_a_largest_size(broker: RunningBroker) -> None:
    async with http_client(broker) as client:
        answer = await client.post("/a", content=b"{}\n{}\n{}\n", headers={"Sluicegate-Batch": "ndjson"})
    assert (answer.status_code, words(answer)) == (413, "more than 2 messages in one request")


@pytest.mark.accounts(anna="secret")
async def test_only_users_publish_where_there_are_users(broker: RunningBroker) -> None:
    """RFC 7617; the answer does not say which of both was wrong."""
    async with http_client(broker) as client:
        stranger = await client.post("/a")
        assert stranger.status_code == 401
        assert (
            stranger.headers["www-authenticate"]
            == 'Basic realm="sluicegate", charset="UTF-8", Bearer realm="sluicegate"'
        )
        wrong = [await client.post("/a", auth=pair) for pair in (("anna", "wrong"), ("nobody", "secret"))]
        assert {(each.status_code, each.text) for each in wrong} == {(401, wrong[0].text)}
        assert (await client.post("/a", auth=("anna", "secret"))).status_code == 200
        assert (await client.post("/a")).status_code == 401, "who was let in before does not count"
    assert broker.node.http.counters.refused == {"not_authenticated": 4}


async def test_other_methods_get_405_with_the_allowed_ones(broker: RunningBroker) -> None:
    async with http_client(broker) as client:
        answer = await client.put("/a")
        assert (answer.status_code, answer.headers["allow"]) == (405, "OPTIONS, POST")
        assert (await client.head("/a")).status_code == 405


async def test_failed_requests_are_counted_by_status(broker: RunningBroker) -> None:
    async with http_client(broker) as client:
        for path in ("/a", "/QUEUE/none", "/QUEUE/other"):
            await client.post(path)
        await client.put("/a")
    assert broker.node.http.error_responses == {400: 2, 405: 1}


@pytest.mark.settings("http.allowed_origins=[https://shop.example]")
async def test_scripts_of_allowed_pages_may_publish(broker: RunningBroker) -> None:
    """Fetch standard, CORS protocol: preflight, and the answer itself."""
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "solace-priority"}
    async with http_client(broker) as client:
        for origin, statuses in (("https://shop.example", (204, 200)), ("https://evil.example", (403, 403))):
            preflight = await client.options("/a", headers={"Origin": origin, **asks})
            answer = await client.post("/a", headers={"Origin": origin})
            assert (preflight.status_code, answer.status_code) == statuses
            allowed = origin if statuses == (204, 200) else None
            for each in (preflight, answer):
                assert each.headers.get("access-control-allow-origin") == allowed
        assert preflight.headers.get("access-control-allow-headers") is None


async def pieces_until_end(reader: asyncio.StreamReader) -> bytes:
    return await asyncio.wait_for(reader.read(), DEADLINE_S)


async def test_requests_may_be_sent_ahead_of_answers(broker: RunningBroker) -> None:
    """RFC 9112 9.3.2: answers come in the order of requests."""
    await create(broker, "q")
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.node.http.listeners["http"].port)
    one = b"POST /QUEUE/%b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n%b"
    last = b"POST /QUEUE/q HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nConnection: close\r\n\r\nz"
    writer.write(one % (b"q", b"a") + one % (b"none", b"b") + one % (b"q", b"c") + last)
    answers = (await pieces_until_end(reader)).split(b"HTTP/1.1 ")[1:]
    assert [int(answer[:3]) for answer in answers] == [200, 400, 200, 200]
    writer.close()
    assert await held(broker, "q") == 3


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"no http at all\r\n\r\n", 400),
        (b"POST /a HTTP/1.1\r\nX: " + bytes(40_000).replace(b"\0", b"x"), 431),
        (
            b"POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
        ),
    ],
)
async def test_an_invalid_request_ends_the_connection(broker: RunningBroker, sent: bytes, status: int) -> None:
    """RFC 9112 2.2, 6.1; RFC 6585 5. Never a hang, and never memory without end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.node.http.listeners["http"].port)
    writer.write(sent)
    answer = await pieces_until_end(reader)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    writer.close()


@pytest.mark.parametrize(
    ("begun", "missing"),
    [
        (b"", b"the head of the request was not complete within 10 s"),
        (b"POST /a HT", b"the head of the request was not complete within 10 s"),
        (
            b"POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nab",
            b"the body was not complete after 31.",
        ),
    ],
)
async def test_a_request_that_does_not_end_ends_the_connection(
    broker: RunningBroker, begun: bytes, missing: bytes
) -> None:
    """RFC 9110 15.5.9. The answer says what was waited for."""
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.node.http.listeners["http"].port)
    writer.write(begun)
    while broker.node.http.counters.bytes_received < len(begun) or broker.node.http.counters.connected < 1:
        await asyncio.sleep(0.01)
    broker.forward(31)
    broker.node.http.tick()
    answer = await pieces_until_end(reader)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert missing in answer
    writer.close()


async def test_a_client_that_leaves_while_its_message_is_stored_does_no_harm(broker: RunningBroker) -> None:
    """The message was taken: it stays, and its answer is for nobody."""
    await create(broker, "q")
    for _ in range(20):
        _, writer = await asyncio.open_connection("127.0.0.1", broker.node.http.listeners["http"].port)
        writer.write(b"POST /QUEUE/q HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx")
        await writer.drain()
        writer.transport.abort()
    async with http_client(broker) as client:
        assert (await client.post("/QUEUE/q")).status_code == 200
    assert 1 <= await held(broker, "q") <= 21


async def test_a_bearer_token_lets_in_for_as_long_as_it_is_valid(tmp_path: Path) -> None:
    """RFC 6750 2.1; on a connection that stays open, too."""
    server = TokenServer(tmp_path)
    settings = (*server.settings, "authentication.allow_anonymous=false", "http.keep_alive_s=3600")
    async with RunningBroker(tmp_path / "data", settings) as broker, http_client(broker) as client:
        soon = broker.clock.wall_ms() // 1000 + 100
        bearer = {"Authorization": f"Bearer {server.token(exp=soon)}"}
        assert (await client.post("/a", headers=bearer)).status_code == 200
        assert (await client.post("/a", headers=bearer)).status_code == 200
        broker.clock.forward(300)
        assert (await client.post("/a", headers=bearer)).status_code == 401
        other = {"Authorization": f"Bearer {server.token(aud='somebody else')}"}
        assert (await client.post("/a", headers=other)).status_code == 401


async def test_a_request_waits_for_its_reply(broker: RunningBroker) -> None:
    """Solace 8.5: Solace-Reply-Wait-Time-In-ms; the reply's attributes come as headers."""
    device = await subscriber(broker, "prices/ask")
    async with http_client(broker) as client:
        for number in range(2):
            headers = {"Solace-Reply-Wait-Time-In-ms": "FOREVER" if number else "60000"}
            asking = asyncio.create_task(client.post("/TOPIC/prices/ask", content=b"?", headers=headers))
            asked = await device.message()
            [reply_topic] = asked.values(RESPONSE_TOPIC)
            assert str(reply_topic).startswith("$reply/")
            assert await device.subscribe("$reply/#") == await device.subscribe(str(reply_topic)) == [NOT_AUTHORIZED]
            properties = mqtt.user_property("Unit", "EUR") + mqtt.text_property(CONTENT_TYPE, "text/plain")
            await device.publish(str(reply_topic), b"%d" % number, qos=number, properties=properties)
            answer = await asking
            assert (answer.status_code, answer.content) == (200, b"%d" % number)
            assert answer.headers["content-type"] == "text/plain"
            assert answer.headers["solace-user-property-unit"] == "EUR"
            device.acknowledge(asked)
        late = await device.publish(str(reply_topic), b"late", qos=1)
        assert late in (0, NO_MATCHING_SUBSCRIBERS)
        timed_out = await client.post("/TOPIC/prices/ask", headers={"Solace-Reply-Wait-Time-In-ms": "1"})
        assert (timed_out.status_code, words(timed_out)) == (504, "no reply within 1 ms")
    assert broker.node.http.counters.dropped == {"reply_too_late": 1}


@pytest.mark.parametrize(
    ("headers", "detail"),
    [
        ({"Solace-Reply-Wait-Time-In-ms": "soon"}, "is not FOREVER or a whole number from 1 to"),
        (
            {"Solace-Reply-Wait-Time-In-ms": "1", "Solace-Reply-To-Destination": "/TOPIC/r"},
            "exclude each other",
        ),
    ],
)
async def test_a_wait_that_means_nothing_hears_why(broker: RunningBroker, headers: dict[str, str], detail: str) -> None:
    async with http_client(broker) as client:
        answer = await client.post("/a", headers=headers)
    assert answer.status_code == 400
    assert detail in words(answer)


async def test_a_client_that_leaves_while_it_waits_leaves_nothing_behind(broker: RunningBroker) -> None:
    before = broker.node.default.space.subscriptions_count
    device = await subscriber(broker, "ask")
    _, writer = await asyncio.open_connection("127.0.0.1", broker.node.http.listeners["http"].port)
    writer.write(
        b"POST /ask HTTP/1.1\r\nHost: localhost\r\nSolace-Reply-Wait-Time-In-ms: FOREVER\r\nContent-Length: 0\r\n\r\n"
    )
    device.acknowledge(await device.message())
    writer.transport.abort()
    async with asyncio.timeout(DEADLINE_S):
        while broker.node.default.space.subscriptions_count > before + 1 or broker.node.http.open_connections():
            await asyncio.sleep(0.01)


async def test_a_missing_queue_is_named_beside_a_topic_without_subscribers(broker: RunningBroker) -> None:
    """A queue must exist, a topic need not be heard."""
    lines = [{"destination": "/TOPIC/none"}, {"destination": "/QUEUE/none"}, {"destination": "/TOPIC/none"}]
    body = b"\n".join(orjson.dumps(line) for line in lines)
    async with http_client(broker) as client:
        answer = await client.post("/TOPIC/a", content=body, headers={"Sluicegate-Batch": "ndjson"})
    assert [orjson.loads(line)["status"] for line in answer.text.splitlines()] == [200, 400, 200]


@pytest.mark.parametrize("mode", ["Persistent", "Direct"])
async def test_a_message_that_reaches_nobody_is_reported_and_refused_by_request(
    broker: RunningBroker, mode: str
) -> None:
    """A mistyped path, `/QUEU/orders`, is a topic."""
    await create(broker, "orders")
    headers = {"Solace-Delivery-Mode": mode}
    async with http_client(broker) as client:
        answer = await client.post("/QUEU/orders", content=b"x", headers=headers)
        assert answer.status_code == 200
        assert answer.headers["sluicegate-matched"] == "false"
        assert answer.json()["matched"] is False
        assert "'QUEU/orders'" in answer.json()["detail"]
        asked = {**headers, "Sluicegate-Require-Match": "true"}
        refused = await client.post("/QUEU/orders", content=b"x", headers=asked)
        assert refused.status_code == 503
        assert "nobody subscribes" in words(refused)
        taken = await client.post("/QUEUE/orders", content=b"x", headers=asked)
        assert (taken.status_code, taken.content, "sluicegate-matched" in taken.headers) == (200, b"", False)
        again = await client.post("/QUEU/orders", content=b"x", headers=headers)
        assert again.status_code == 200, "the header is of one request"
        wrong = await client.post("/QUEU/orders", content=b"x", headers={"Sluicegate-Require-Match": "perhaps"})
        assert wrong.status_code == 400


async def test_each_message_of_a_batch_that_reaches_nobody_is_reported(broker: RunningBroker) -> None:
    await create(broker, "orders")
    lines = b'{"payload": "a"}\n{"payload": "b", "destination": "/TOPIC/nobody"}\n{"payload": "c"}\n'
    async with http_client(broker) as client:
        answer = await client.post("/QUEUE/orders", content=lines, headers={"Sluicegate-Batch": "ndjson"})
        assert [orjson.loads(line) for line in answer.text.splitlines()] == [
            {"status": 200},
            {"status": 200, "matched": False},
            {"status": 200},
        ]
        assert (answer.status_code, answer.headers["sluicegate-matched"]) == (200, "false")
        asked = {"Sluicegate-Batch": "ndjson", "Sluicegate-Require-Match": "true"}
        refused = await client.post("/QUEUE/orders", content=lines, headers=asked)
        assert [orjson.loads(line)["status"] for line in refused.text.splitlines()] == [200, 503, 200]
