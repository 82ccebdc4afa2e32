"""Wills: when one is published, once and unchanged, and when it is not (sections 3.1.2.5, 3.1.3.2)."""

import asyncio

import pytest

import support.mqtt.packets as mqtt
from support.broker.running_broker import RunningBroker
from support.mqtt.packets import Published, WillPart
from support.mqtt.raw_client import DEADLINE_S, RawClient

TICK_S = 0.01  # timers of an event loop are no more exact than that
IN_TIME_S = 3  # for a client to come back
EVERY_LEVEL = pytest.mark.parametrize("level", [3, 4, 5])


async def heir(broker: RunningBroker, level: int = 5, qos: int = 2) -> RawClient:
    """Return a client that is there for the will."""
    client = await broker.connect("heir", level)
    await client.subscribe("will/topic", qos=qos)
    return client


def is_fresh(message: Published, *, expiry_s: int) -> bool:
    """Return whether a message has (almost) all of its time before it."""
    (left_s,) = message.values(2)
    assert isinstance(left_s, int)
    return expiry_s - DEADLINE_S < left_s <= expiry_s


async def until(moment_s: float) -> None:
    """Wait until the loop's clock shows a moment: for what must not happen before, or must have happened by then."""
    await asyncio.sleep(max(0, moment_s - asyncio.get_running_loop().time()))


@EVERY_LEVEL
async def test_a_client_that_falls_silent_is_closed_and_its_will_published(broker: RunningBroker, level: int) -> None:
    """[3.1.2-22]: one and a half times the keep alive."""
    witness = await heir(broker, level)
    client = await broker.connect("silent", level, keep_alive_s=200, will=WillPart())
    broker.forward(280)
    assert broker.node.mqtt.listeners["mqtt"].connection_count == 2
    broker.forward(30)
    await client.is_ended(0x8D)
    assert await witness.payloads(1) == [b"gone"]


async def test_a_ping_in_time_keeps_a_connection_alive(broker: RunningBroker) -> None:
    """[3.1.2-20] [3.12.4-1]."""
    client = await broker.connect("pinging", 5, keep_alive_s=200)
    for _ in range(6):
        broker.forward(100)
        await client.round_trip()


async def test_keep_alive_0_allows_any_silence(broker: RunningBroker) -> None:
    """Section 3.1.2.10."""
    client = await broker.connect("silent", 5, keep_alive_s=0)
    for _ in range(10):
        broker.forward(100_000)
    await client.round_trip()


async def test_packets_from_the_broker_do_not_keep_a_client_alive(broker: RunningBroker) -> None:
    """[3.1.2-22] counts packets from the client only."""
    publisher = await broker.connect()
    client = await broker.connect("listening", 5, keep_alive_s=200)
    await client.subscribe("t")
    for _ in range(5):
        await publisher.publish("t", qos=0)
        assert (await client.message()).topic == "t"
        broker.forward(50)
    broker.forward(60)
    await client.is_ended(0x8D)


async def test_half_a_packet_does_not_keep_a_client_alive(broker: RunningBroker) -> None:
    """[3.1.2-22] counts packets, not bytes."""
    client = await broker.connect("dripping", 5, keep_alive_s=200)
    client.send(b"\x30\x50")
    await client.drained()
    await (await broker.connect("another")).round_trip()  # the broker reads what is there; it has nothing to answer
    broker.forward(310)
    await client.is_ended(0x8D)


async def test_a_goodbye_that_waits_behind_a_request_deletes_the_will(broker: RunningBroker) -> None:
    """[3.14.4-3]: it was received, though the client comes again before its turn."""
    broker.ignores_violations()
    witness = await heir(broker)
    await broker.connect_durable("polite", will=WillPart())
    again = await broker.open(5)
    await witness.round_trip()  # it is there
    cells = list(broker.node.mqtt.connections.children or ())
    leaving, coming = cells[-2].behaviour, cells[-1].behaviour

    def all_in_one_turn() -> None:
        leaving.received(mqtt.subscribe(("t", 1), level=5) + mqtt.disconnect(0))
        expiry = mqtt.session_expiry(3600)
        coming.received(mqtt.connect("polite", level=5, clean_start=False, properties=expiry))

    asyncio.get_running_loop().call_soon(all_in_one_turn)
    assert (await again.connack()).session_present
    await witness.is_quiet()


@EVERY_LEVEL
async def test_a_goodbye_deletes_the_will(broker: RunningBroker, level: int) -> None:
    """[3.1.2-10] [3.14.4-3]."""
    witness = await heir(broker, level)
    client = await broker.connect("polite", level, will=WillPart())
    await client.leave()
    await witness.is_quiet()


@pytest.mark.parametrize("reason_code", [0x04, 0x80])
async def test_disconnect_may_ask_for_the_will(broker: RunningBroker, reason_code: int) -> None:
    """[3.14.4-3]: every reason code but 0x00."""
    witness = await heir(broker)
    client = await broker.connect("willing", 5, will=WillPart())
    await client.leave(reason_code)
    assert await witness.payloads(1) == [b"gone"]


@EVERY_LEVEL
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_lost_connection_publishes_the_will_once_and_as_it_was_set(
    broker: RunningBroker, level: int, qos: int
) -> None:
    """[3.1.2-8] [3.1.2-14]."""
    witness = await heir(broker, level)
    client = await broker.connect("lost", level, will=WillPart(qos=qos, payload=b""))
    await client.vanish()
    (will,) = await witness.messages(1)
    assert (will.topic, will.payload, will.qos, will.retain) == ("will/topic", b"", qos, False)
    await witness.is_quiet()


@EVERY_LEVEL
async def test_a_retained_will_is_there_for_later_subscribers(broker: RunningBroker, level: int) -> None:
    """[3.1.2-15]."""
    witness = await heir(broker, level, qos=0)
    client = await broker.connect("lost", level, will=WillPart(retain=True))
    await client.vanish()
    assert not (await witness.message()).retain
    later = await broker.connect("later", level)
    await later.subscribe("will/topic")
    assert (await later.message()).retain


async def test_a_delayed_will_waits(broker: RunningBroker) -> None:
    """[3.1.3-9]: published when the delay has passed, not before."""
    witness = await heir(broker)
    will = WillPart(properties=mqtt.will_delay(1))
    client = await broker.connect("lost", 5, will=will, properties=mqtt.session_expiry(3600))
    closed_at = asyncio.get_running_loop().time()
    await client.vanish()
    assert await witness.payloads(1) == [b"gone"]
    assert asyncio.get_running_loop().time() - closed_at >= 1 - TICK_S


async def test_a_client_that_returns_in_time_calls_its_will_off(broker: RunningBroker) -> None:
    """[3.1.3-9]."""
    witness = await heir(broker)
    will = WillPart(properties=mqtt.will_delay(IN_TIME_S))
    client = await broker.connect("lost", 5, will=will, properties=mqtt.session_expiry(3600))
    await client.vanish()
    closed_at = asyncio.get_running_loop().time()
    await broker.connect("lost", 5, clean_start=False, properties=mqtt.session_expiry(3600))
    await until(closed_at + IN_TIME_S + 0.5)
    await witness.is_quiet()


async def test_a_new_session_ends_the_old_one_and_publishes_its_will_at_once(broker: RunningBroker) -> None:
    """Section 3.1.2.5: at the latest when the session ends, and Clean Start ends it."""
    witness = await heir(broker)
    will = WillPart(properties=mqtt.will_delay(60))
    client = await broker.connect("lost", 5, will=will, properties=mqtt.session_expiry(100))
    await client.vanish()
    await witness.is_quiet()
    await broker.connect("lost", 5, clean_start=True)
    assert await witness.payloads(1) == [b"gone"]


@pytest.mark.parametrize("expiry_s", [1, 0])
async def test_a_session_that_ends_before_the_delay_publishes_its_will(broker: RunningBroker, expiry_s: int) -> None:
    """Section 3.1.2.5: at the delay or the end of the session, whichever is first. The delay would be too long."""
    witness = await heir(broker)
    will = WillPart(properties=mqtt.will_delay(3600))
    client = await broker.connect("lost", 5, will=will, properties=mqtt.session_expiry(expiry_s))
    closed_at = asyncio.get_running_loop().time()
    await client.vanish()
    assert await witness.payloads(1) == [b"gone"]
    assert asyncio.get_running_loop().time() - closed_at >= expiry_s - TICK_S
    await witness.is_quiet()


async def test_a_will_carries_its_properties_but_not_its_delay(broker: RunningBroker) -> None:
    """[3.1.3-10] and section 3.1.3.2; its expiry counts from the moment it is published."""
    witness = await heir(broker)
    properties = b"".join(
        [
            mqtt.will_delay(1),
            mqtt.content_type("text/plain"),
            mqtt.response_topic("reply/here"),
            mqtt.correlation_data(b"\x00\x01"),
            mqtt.payload_format(1),
            mqtt.user_property("k", "2"),
            mqtt.user_property("k", "1"),
            mqtt.message_expiry(60_000),
        ]
    )
    client = await broker.connect(
        "lost", 5, will=WillPart(qos=1, properties=properties), properties=mqtt.session_expiry(10)
    )
    await client.vanish()
    (will,) = await witness.messages(1)
    assert is_fresh(will, expiry_s=60_000)
    assert sorted((each for each in will.properties if each[0] != 2), key=lambda each: each[0]) == [
        (1, 1),
        (3, "text/plain"),
        (8, "reply/here"),
        (9, b"\x00\x01"),
        (38, ("k", "2")),
        (38, ("k", "1")),
    ]


@pytest.mark.parametrize("level", [3, 4, 5])
async def test_takeover_publishes_the_will_of_the_old_connection(broker: RunningBroker, level: int) -> None:
    """[3.1.2-8]: the older connection ends without a DISCONNECT of its client."""
    witness = await heir(broker, level)
    await broker.connect("same", level, will=WillPart())
    await broker.connect("same", level, clean_start=True)
    assert await witness.payloads(1) == [b"gone"]


async def test_takeover_of_a_session_that_goes_on_calls_a_delayed_will_off(broker: RunningBroker) -> None:
    """[3.1.3-9]: the new connection comes before the delay has passed."""
    witness = await heir(broker)
    will = WillPart(properties=mqtt.will_delay(IN_TIME_S))
    await broker.connect("same", 5, will=will, properties=mqtt.session_expiry(3600))
    taken_at = asyncio.get_running_loop().time()
    await broker.connect("same", 5, clean_start=False, properties=mqtt.session_expiry(3600))
    await until(taken_at + IN_TIME_S + 0.5)
    await witness.is_quiet()


async def test_a_delayed_will_survives_a_restart(broker: RunningBroker) -> None:
    """Section 3.1.2.5: the will is part of the session, and the session is stored."""
    witness = await broker.connect_durable("heir")  # is there for the will however long the restart takes
    await witness.subscribe("will/topic", qos=1)
    will = WillPart(qos=1, properties=mqtt.will_delay(1) + mqtt.user_property("k", "v") + mqtt.message_expiry(60_000))
    client = await broker.connect("lost", 5, will=will, properties=mqtt.session_expiry(3600))
    await client.vanish()
    await broker.restart()
    witness = await broker.connect_durable("heir")
    (published,) = await witness.messages(1)
    assert (published.payload, published.values(38)) == (b"gone", [("k", "v")])
    assert is_fresh(published, expiry_s=60_000)


async def test_the_broker_s_own_topics_are_no_will_topics(broker: RunningBroker) -> None:
    """Section 3.2.2.2, reason code 0x90."""
    client = await broker.open(5)
    client.send(mqtt.connect("liar", level=5, will=WillPart("$SYS/uptime")))
    await client.is_refused(0x90)


@pytest.mark.parametrize("level", [3, 4])
async def test_a_3_x_client_is_let_in_without_a_will_on_the_broker_s_own_topics(
    broker: RunningBroker, level: int
) -> None:
    """What it publishes there is dropped and counted as well; bridges of mosquitto do both, and would never get in."""
    witness = await broker.connect("witness")
    await witness.subscribe("#", "$SYS/broker/connection/#")
    client = await broker.connect("bridge", level, will=WillPart("$SYS/broker/connection/bridge/state"))
    assert broker.node.mqtt.counters.dropped == {"invalid_topic": 1}
    await client.vanish()
    await broker.has_no_more_than(sessions=1, queues=0)
    await witness.is_quiet()
