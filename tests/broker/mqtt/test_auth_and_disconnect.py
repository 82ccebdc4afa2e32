"""Enhanced authentication (section 4.12), DISCONNECT (3.14) and the end of the broker."""

import asyncio
import base64
from random import Random

import pytest
from scramp import ScramClient, ScramMechanism

import support.mqtt.packets as mqtt
from sluicegate.protocols.security.scram import NAME_512, stored_text
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import RawClient

METHOD = "SCRAM-SHA-256"
ACCOUNTS = pytest.mark.accounts(ada="engine", grace="compiler")


def scram_client(user_name: str = "ada", password: str = "engine", method: str = METHOD) -> ScramClient:
    return ScramClient([method], user_name, password)


async def proves(client: RawClient, scram: ScramClient, packet: bytes, method: str = METHOD) -> mqtt.Packet:
    """Send the packet with the client's first message, answer the challenge, and return the broker's last word."""
    client.send(packet)
    challenge = mqtt.auth_of(await client.packet())
    assert (challenge.reason_code, challenge.value(21)) == (0x18, method)
    data = challenge.value(22)
    assert isinstance(data, bytes)
    scram.set_server_first(data.decode())
    client.send(mqtt.auth(0x18, method, scram.get_client_final().encode()))
    return await client.packet()


def connect_with(scram: ScramClient, client_id: str = "prover", method: str = METHOD) -> bytes:
    properties = mqtt.authentication_method(method) + mqtt.authentication_data(scram.get_client_first().encode())
    return mqtt.connect(client_id, level=5, properties=properties)


async def proven(broker: RunningBroker, client_id: str = "prover") -> RawClient:
    """Return a client that has proven itself."""
    client = await broker.open(5)
    scram = scram_client()
    answer = mqtt.connack(await proves(client, scram, connect_with(scram, client_id)), 5)
    assert (answer.reason_code, answer.value(21)) == (0, METHOD)
    data = answer.value(22)
    assert isinstance(data, bytes)
    scram.set_server_final(data.decode())  # raises unless the broker has proven itself too
    return client


async def test_auth_is_a_protocol_error_without_a_method(broker: RunningBroker) -> None:
    """[4.12.0-7]."""
    client = await broker.connect(level=5)
    client.send(mqtt.auth(0x19, METHOD, b"n,,n=ada,r=1"))
    await client.is_ended(0x82)


@ACCOUNTS
async def test_a_password_is_proven_without_being_sent(broker: RunningBroker) -> None:
    """[4.12.0-2] [4.12.0-3] [4.12.0-5]."""
    client = await proven(broker)
    await client.subscribe("t")
    await client.publish("t", b"let in")
    assert await client.payloads(1) == [b"let in"]


@ACCOUNTS
async def test_connect_need_not_bring_the_first_message(broker: RunningBroker) -> None:
    """Section 4.12: the server's first AUTH may be empty."""
    client = await broker.open(5)
    client.send(mqtt.connect("prover", level=5, properties=mqtt.authentication_method(METHOD)))
    assert mqtt.auth_of(await client.packet()).reason_code == 0x18
    scram = scram_client()
    answer = await proves(client, scram, mqtt.auth(0x18, METHOD, scram.get_client_first().encode()))
    assert mqtt.connack(answer, 5).reason_code == 0


@ACCOUNTS
@pytest.mark.parametrize(("packet_bytes_max", "is_asked"), [(20, True), (19, False)])
async def test_a_client_that_takes_no_auth_as_large_as_ours_is_refused(
    broker: RunningBroker, packet_bytes_max: int, is_asked: bool
) -> None:
    """[3.1.2-24]: the first AUTH, which is empty but for the method, has 20 bytes."""
    client = await broker.open(5)
    properties = mqtt.authentication_method(METHOD) + mqtt.maximum_packet_size(packet_bytes_max)
    client.send(mqtt.connect("prover", level=5, properties=properties))

    if is_asked:
        assert mqtt.auth_of(await client.packet()).reason_code == 0x18
    else:
        await client.is_refused(0x95)


STORED = ScramMechanism(METHOD).make_auth_info("engine", iteration_count=4096, salt=b"sixteen bytes ok")


@pytest.mark.accounts(ada=stored_text("engine", 15_000, Random(1).randbytes, NAME_512))
async def test_a_secret_that_is_stored_so_is_proven_with_sha_512(broker: RunningBroker) -> None:
    """And as a password, too; with SHA-256 it cannot be, and SASL does not offer it."""
    client = await broker.open(5)
    scram = scram_client(method=NAME_512)
    answer = mqtt.connack(await proves(client, scram, connect_with(scram, method=NAME_512), NAME_512), 5)
    assert (answer.reason_code, answer.value(21)) == (0, NAME_512)
    data = answer.value(22)
    assert isinstance(data, bytes)
    scram.set_server_final(data.decode())
    await broker.connect("plain", 5, user_name="ada", password=b"engine")
    other = await broker.open(5)
    other.send(connect_with(scram_client()))
    await other.is_refused(0x8C)
    assert NAME_512 not in broker.node.default.accounts.authenticator.sasl_mechanisms


def stored_form() -> str:
    """What a password file may hold in place of the password."""
    salt, stored_key, server_key = [base64.b64encode(each).decode() for each in STORED[:3]]
    return f"SCRAM-SHA-256$4096:{salt}${stored_key}:{server_key}"


@pytest.mark.accounts(ada=stored_form())
async def test_a_stored_secret_serves_both_ways(broker: RunningBroker) -> None:
    """RFC 5803: and is itself no password."""
    await proven(broker)
    await broker.connect("plain", 5, user_name="ada", password=b"engine")
    thief = await broker.open(5)
    thief.send(mqtt.connect("thief", level=5, user_name="ada", password=stored_form().encode()))
    await thief.is_refused(0x86)


@ACCOUNTS
@pytest.mark.parametrize(("user_name", "password"), [("ada", "guess"), ("nobody", "engine")])
async def test_a_failed_proof_is_refused(broker: RunningBroker, user_name: str, password: str) -> None:
    """[4.12.0-4]; a name that does not exist is asked as far as one that does."""
    client = await broker.open(5)
    scram = scram_client(user_name, password)
    assert mqtt.connack(await proves(client, scram, connect_with(scram)), 5).reason_code == 0x86
    await client.is_closed()


@ACCOUNTS
async def test_nonsense_is_refused(broker: RunningBroker) -> None:
    """[4.12.0-4]."""
    for data in (b"", b"nonsense", b"\xff\xfe", b"n,,n=ada", b"p=tls-unique,,n=ada,r=abc"):
        client = await broker.open(5)
        properties = mqtt.authentication_method(METHOD) + mqtt.authentication_data(data)
        client.send(mqtt.connect("prover", level=5, properties=properties))
        await client.is_refused(0x86)


@ACCOUNTS
async def test_only_auth_is_allowed_before_the_proof_is_complete(broker: RunningBroker) -> None:
    """[3.1.2-30]."""
    client = await broker.open(5)
    client.send(connect_with(scram_client()))
    await client.awaited(mqtt.AUTH)
    client.send(mqtt.publish("t", level=5))
    await client.is_refused(0x82)


@ACCOUNTS
async def test_the_method_may_not_change(broker: RunningBroker) -> None:
    """[4.12.0-5] [4.12.1-1]."""
    client = await broker.open(5)
    client.send(connect_with(scram_client()))
    await client.awaited(mqtt.AUTH)
    client.send(mqtt.auth(0x18, "other", b"c=biws"))
    await client.is_refused(0x82)
    client = await proven(broker)
    client.send(mqtt.auth(0x19, "other", b"n,,n=ada,r=1"))
    await client.is_ended(0x82)


@ACCOUNTS
async def test_messages_flow_while_a_client_proves_itself_again(broker: RunningBroker) -> None:
    """[4.12.1-1]: AUTH 0x19, 0x18 to and fro, 0x00 at the end."""
    client = await proven(broker)
    await client.subscribe("t")
    scram = scram_client()
    client.send(mqtt.auth(0x19, METHOD, scram.get_client_first().encode()))
    challenge = mqtt.auth_of(await client.packet())
    assert challenge.reason_code == 0x18
    await client.publish("t", b"meanwhile")
    assert await client.payloads(1) == [b"meanwhile"]
    data = challenge.value(22)
    assert isinstance(data, bytes)
    scram.set_server_first(data.decode())
    client.send(mqtt.auth(0x18, METHOD, scram.get_client_final().encode()))
    end = mqtt.auth_of(await client.packet())
    assert (end.reason_code, end.value(21)) == (0x00, METHOD)
    await client.round_trip()


@ACCOUNTS
@pytest.mark.parametrize(("user_name", "password"), [("ada", "guess"), ("grace", "compiler")])
async def test_a_failed_re_authentication_ends_the_connection(
    broker: RunningBroker, user_name: str, password: str
) -> None:
    """[4.12.1-2]; to become somebody else is a failure too."""
    client = await proven(broker)
    scram = scram_client(user_name, password)
    packet = await proves(client, scram, mqtt.auth(0x19, METHOD, scram.get_client_first().encode()))
    assert mqtt.server_disconnect(packet).reason_code == 0x87
    await client.is_closed()


@pytest.mark.parametrize("wanted", [0, 1])
async def test_a_client_may_forgo_reasons(broker: RunningBroker, wanted: int) -> None:
    """[3.1.2-29]: no Reason String or User Property outside PUBLISH, CONNACK and DISCONNECT."""
    client = await broker.connect("terse", 5, properties=mqtt.request_problem_information(wanted))
    client.send(
        mqtt.publish("$SYS/mine", level=5, qos=1, packet_id=1),
        mqtt.subscribe(("a#", 0), level=5, packet_id=2),
        mqtt.unsubscribe("never", level=5, packet_id=3),
    )
    puback = await client.awaited(mqtt.PUBACK)
    assert puback.body[2] == 0x87
    assert len(puback.body) == 3 or wanted
    for kind, code in ((mqtt.SUBACK, 0x8F), (mqtt.UNSUBACK, 0x11)):
        packet = await client.awaited(kind)
        assert packet.body[-1] == code
        assert packet.body[2] == 0 or wanted


@pytest.mark.parametrize("level", [3, 4, 5])
async def test_packets_after_disconnect_are_not_processed(broker: RunningBroker, level: int) -> None:
    """[3.14.4-1] [3.14.4-2]."""
    witness = await broker.connect(level=level)
    await witness.subscribe("t")
    client = await broker.connect(level=level)
    client.send(mqtt.disconnect(), mqtt.publish("t", level=level), mqtt.pingreq())
    await client.is_closed()
    await witness.is_quiet()


@pytest.mark.parametrize("level", [3, 4, 5])
async def test_a_broker_that_stops_says_so(broker: RunningBroker, level: int) -> None:
    """Section 3.14.2.1, reason code 0x8B; 3.x is just closed."""
    client = await broker.connect(level=level)
    stopping = asyncio.ensure_future(broker.stop())
    await client.is_ended(0x8B)
    await stopping
