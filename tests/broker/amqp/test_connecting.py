"""How an AMQP connection begins, byte by byte: protocol headers (2.2), SASL (5.3), and who is let in."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.protocols.amqp.codec.frames import frame, sasl_frame
from sluicegate.protocols.amqp.codec.performatives import INIT, RESPONSE, Begin, Open
from sluicegate.protocols.amqp.types.decoding import decode
from sluicegate.protocols.amqp.types.encoding import encode_composite
from sluicegate.protocols.amqp.types.values import AmqpValue, Symbol
from support.amqp.golden import described, frames_of, golden
from support.broker.running_broker import RunningBroker
from support.network.tokens import TokenServer, bearer, xoauth2

DEADLINE_S = 20
AMQP = b"AMQP\x00\x01\x00\x00"
SASL = b"AMQP\x03\x01\x00\x00"
ACCOUNTS = pytest.mark.accounts(ada="engine")
OUTCOME_AUTH = "sasl-outcome(code=ubyte(1))"
OUTCOME_OK = "sasl-outcome(code=ubyte(0))"
HASH = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash("engine")


def init(mechanism: str, response: bytes | None = None, hostname: str | None = None) -> bytes:
    fields: list[AmqpValue] = [Symbol(mechanism), response, hostname]
    return sasl_frame(encode_composite(INIT, fields))


def response(data: bytes) -> bytes:
    return sasl_frame(encode_composite(RESPONSE, [data]))


def said(stream: bytes) -> list[str]:
    """Return what the broker wrote: protocol headers by name, frames by what they say."""
    words: list[str] = []
    for found, data in frames_of(stream):
        if found is None:
            words.append({AMQP: "AMQP", SASL: "SASL"}[data])
        else:
            words.append(described(decode(data, 8, len(data))[0]))
    return words


async def hears(broker: RunningBroker, *pieces: bytes) -> list[str]:
    """Send pieces on a new connection and return everything that comes until the broker closes it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.node.amqp.listeners["amqp"].port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        return said(await asyncio.wait_for(reader.read(-1), DEADLINE_S))
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@asynccontextmanager
async def connection(broker: RunningBroker) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.node.amqp.listeners["amqp"].port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def until(reader: asyncio.StreamReader, word: str) -> list[str]:
    """Return what the broker writes, up to a word that begins like this."""
    stream = b""
    while True:
        try:
            words = said(stream)
        except AssertionError:  # it ends within a frame
            words = []
        if words and words[-1].startswith(word):
            return words
        piece = await asyncio.wait_for(reader.read(65536), DEADLINE_S)
        assert piece, f"the connection ended behind {words}"
        stream += piece


def one_by_one(data: bytes) -> Iterable[bytes]:
    return (data[at : at + 1] for at in range(len(data)))


async def test_sasl_is_answered_with_a_header_and_mechanisms_at_once(broker: RunningBroker) -> None:
    """Case 1; on loopback everybody may be nobody."""
    async with connection(broker) as (reader, writer):
        writer.write(SASL)
        words = await until(reader, "sasl-mechanisms")
    assert words[0] == "SASL"
    assert "Symbol('ANONYMOUS')" in words[1]


async def test_a_user_name_is_anonymous_while_there_is_no_account(broker: RunningBroker) -> None:
    """As in MQTT: examples of AMQPNetLite and of SAP's client show `guest` whether it is asked for or not."""
    frames = golden("frames.txt")
    guest = (SASL, init("PLAIN", b"\0guest\0guest"), AMQP, frames["open"], frames["close"])
    words = await hears(broker, *guest)
    assert [word.partition("(")[0] for word in words[2:]] == ["sasl-outcome", "AMQP", "open", "close"]
    assert words[2] == OUTCOME_OK
    await NodeOperations(broker.node).create_user({"name": "ada", "password": "engine"})
    assert (await hears(broker, SASL, init("PLAIN", b"\0guest\0guest")))[2:] == [OUTCOME_AUTH]
    assert (await hears(broker, SASL, init("PLAIN", b"\0ada\0guest")))[2:] == [OUTCOME_AUTH]
    assert (await hears(broker, SASL, init("ANONYMOUS"), AMQP, frames["open"], frames["close"]))[2] == OUTCOME_OK


@ACCOUNTS
async def test_a_name_that_no_account_has_is_refused_where_everybody_needs_one(broker: RunningBroker) -> None:
    """RFC 4616."""
    assert (await hears(broker, SASL, init("PLAIN", b"\0guest\0engine")))[2:] == [OUTCOME_AUTH]


@pytest.mark.parametrize(
    "offered",
    [
        pytest.param("Symbol('SCRAM-SHA-256'), Symbol('PLAIN')", marks=ACCOUNTS, id="one with a password"),
        pytest.param("Symbol('PLAIN')", marks=pytest.mark.accounts(ada=HASH), id="one with an argon2 hash"),
        pytest.param("Symbol('PLAIN'), Symbol('ANONYMOUS')", id="none"),
    ],
)
async def test_scram_is_offered_where_it_can_prove_an_account(broker: RunningBroker, offered: str) -> None:
    """RFC 5802; Qpid JMS takes the strongest mechanism that is offered, and no other when that fails."""
    async with connection(broker) as (reader, writer):
        writer.write(SASL)
        words = await until(reader, "sasl-mechanisms")
    assert words[1] == f"sasl-mechanisms(sasl-server-mechanisms=array[{offered}])"


@ACCOUNTS
async def test_sasl_is_required_where_authentication_is(broker: RunningBroker) -> None:
    """Case 2: the header that is wanted, and nothing else."""
    assert await hears(broker, AMQP) == ["SASL"]


@pytest.mark.parametrize(
    ("first", "told"),
    [
        (b"AMQP\x00\x00\x09\x01", "AMQP 0-9-1 at a port for AMQP 1.0"),
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP at a port for AMQP 1.0"),
        (b"AMQP\x02\x01\x00\x00", "b'AMQP\\x02\\x01\\x00\\x00' is no protocol header of AMQP 1.0 that is wanted here"),
        (b"\x10\x0c\x00\x04MQTT\x04\x02", "MQTT at a port for AMQP 1.0"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS at a port for AMQP 1.0 without it"),
    ],
)
async def test_another_protocol_gets_our_header_and_the_end(
    broker: RunningBroker, first: bytes, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Case 3, 2.2: no frame, no wait. Who looks for a wrong port or library finds it in the log."""
    with caplog.at_level("INFO", "sluicegate.amqp"):
        assert await hears(broker, first) == ["SASL"]
    assert f"(handshake): {told}" in caplog.text


@ACCOUNTS
@pytest.mark.parametrize("in_pieces", [False, True])
async def test_everything_may_come_at_once_or_byte_by_byte(broker: RunningBroker, in_pieces: bool) -> None:
    """Case 4: header, sasl-init, the next header, open and begin, before the first answer."""
    begin = frame(0, Begin(next_outgoing_id=0, incoming_window=10, outgoing_window=10).encode())
    stream = SASL + init("PLAIN", b"\0ada\0engine") + AMQP + frame(0, Open("c").encode()) + begin
    async with connection(broker) as (reader, writer):
        for piece in one_by_one(stream) if in_pieces else (stream,):
            writer.write(piece)
            await writer.drain()
        words = await until(reader, "begin")
    assert words[0] == "SASL"
    assert [word.partition("(")[0] for word in words[2:]] == ["sasl-outcome", "AMQP", "open", "begin"]


@ACCOUNTS
@pytest.mark.parametrize(
    "secret",
    [
        b"\0ada\0wrong",
        b"\0eve\0engine",
        b"ada\0engine",
        b"\0ada\0eng\0ine",
        b"\0\0engine",
        b"eve\0ada\0engine",
        b"\0\xff\0x",
        b"",
    ],
)
async def test_a_wrong_password_and_a_broken_response_are_refused_alike(broker: RunningBroker, secret: bytes) -> None:
    """Cases 5 and 7: outcome 1 without a reason, then the end."""
    words = await hears(broker, SASL, init("PLAIN", secret))
    assert words[2:] == [OUTCOME_AUTH]


@ACCOUNTS
@pytest.mark.settings("amqp.allow_plain_without_tls=false")
async def test_plain_is_not_offered_in_the_clear_and_not_taken(broker: RunningBroker) -> None:
    """Case 6."""
    words = await hears(broker, SASL, init("PLAIN", b"\0ada\0engine"))
    assert "PLAIN" not in words[1]
    assert words[2:] == [OUTCOME_AUTH]


async def test_external_needs_a_certificate(broker: RunningBroker) -> None:
    """Case 9: without one it is neither offered nor taken."""
    words = await hears(broker, SASL, init("EXTERNAL", b""))
    assert "EXTERNAL" not in words[1]
    assert words[2:] == [OUTCOME_AUTH]


async def test_a_second_sasl_header_behind_the_outcome_is_the_end(broker: RunningBroker) -> None:
    """Case 10: nobody authenticates twice."""
    words = await hears(broker, SASL, init("ANONYMOUS"), SASL, init("ANONYMOUS"))
    assert words[2:] == [OUTCOME_OK, "AMQP"]


async def test_a_sasl_frame_too_large_is_not_waited_for(broker: RunningBroker) -> None:
    """Case 11: 70,000 bytes are declared, and the connection ends before they come."""
    words = await hears(broker, SASL, (70_000).to_bytes(4, "big") + b"\x02\x01\x00\x00" + b"x" * 100)
    assert [word.partition("(")[0] for word in words] == ["SASL", "sasl-mechanisms"]


@pytest.mark.parametrize(
    ("opening", "condition"),
    [
        (Open("c", max_frame_size=511), "amqp:invalid-field"),
        (Open("c", idle_timeout_ms=999), "amqp:not-allowed"),
    ],
)
async def test_an_open_that_asks_too_much_is_answered_and_closed(
    broker: RunningBroker, opening: Open, condition: str
) -> None:
    """Case 12 and 2.4.5: the close has our open before it."""
    words = await hears(broker, AMQP, frame(0, opening.encode()))
    assert [word.partition("(")[0] for word in words] == ["AMQP", "open", "close"]
    assert condition in words[2]


@pytest.mark.parametrize(
    ("performative", "condition"),
    [
        # In order: channels 16, 25 and one without a session; opens; frames 19; bodies 20.
        (frame(300, golden("frames.txt")["begin"][8:]), "amqp:connection:framing-error"),
        (golden("frames.txt")["begin"] * 2, "amqp:connection:framing-error"),
        (frame(5, golden("frames.txt")["flow-session"][8:]), "amqp:not-allowed"),
        (golden("frames.txt")["open"], "amqp:illegal-state"),
        (b"\x00\x00\x00\x07\x02\x00\x00\x00", "amqp:connection:framing-error"),
        (b"\x00\x00\x00\x08\x01\x00\x00\x00", "amqp:connection:framing-error"),
        (b"\x00\x00\x00\x08\x05\x00\x00\x00", "amqp:connection:framing-error"),
        (b"\x00\x00\x00\x08\x02\x09\x00\x00", "amqp:connection:framing-error"),
        (b"\x80\x00\x00\x00\x02\x00\x00\x00", "amqp:connection:framing-error"),
        (golden("frames.txt")["sasl-challenge"], "amqp:connection:framing-error"),
        (frame(0, b"\x00\x53\x99\x45"), "amqp:decode-error"),
        (frame(0, b"\x00\x53\x11\xc0\x09\x04"), "amqp:decode-error"),
        (frame(0, b"\xa1\x01a"), "amqp:decode-error"),
    ],
)
async def test_the_close_names_the_error_that_ended_the_connection(
    broker: RunningBroker, performative: bytes, condition: str
) -> None:
    """Cases 16, 19, 20, 25: frames, channels and performatives that cannot be."""
    words = await hears(broker, AMQP, golden("frames.txt")["open"], performative)
    assert words[-1].startswith(f"close(error=error(condition=Symbol('{condition}')")


@pytest.fixture
def tokens(tmp_path: Path) -> TokenServer:
    return TokenServer(tmp_path)


@asynccontextmanager
async def believing(tmp_path: Path, tokens: TokenServer, *settings: str) -> AsyncIterator[RunningBroker]:
    """A broker that believes the tokens of a server, and nobody without one."""
    every = (*tokens.settings, "authentication.allow_anonymous=false", *settings)
    async with RunningBroker(tmp_path / "data", every) as broker:
        yield broker


async def test_a_valid_token_is_accepted_and_a_bad_one_gets_no_details(tmp_path: Path, tokens: TokenServer) -> None:
    """Case 8: OAUTHBEARER's failure has a challenge and an answer to it, XOAUTH2's has not."""
    async with believing(tmp_path, tokens) as broker:
        secret = init("OAUTHBEARER", bearer(tokens.token(), "ada"))
        frames = golden("frames.txt")
        good = await hears(broker, SASL, secret, AMQP, frames["open"], frames["close"])
        assert [word.partition("(")[0] for word in good[2:]] == ["sasl-outcome", "AMQP", "open", "close"]
        assert good[2] == OUTCOME_OK
        bad = await hears(broker, SASL, init("OAUTHBEARER", bearer(tokens.token(exp=1))), response(b"\x01"))
        assert bad[2:] == ['sasl-challenge(challenge=b\'{"status":"invalid_token"}\')', OUTCOME_AUTH]
        old = await hears(broker, SASL, init("XOAUTH2", xoauth2(tokens.token(exp=1))))
        assert old[2:] == [OUTCOME_AUTH]


async def test_a_connection_ends_with_its_token(tmp_path: Path, tokens: TokenServer) -> None:
    """Reference 5: `amqp:unauthorized-access` when the token lapses; an hour later by the broker's clock."""
    async with believing(tmp_path, tokens, "amqp.idle_timeout_s=0") as broker, connection(broker) as (reader, writer):
        expires_at_s = broker.clock.wall_ms() // 1000 + 3000
        secret = bearer(tokens.token(exp=expires_at_s))
        writer.write(SASL + init("OAUTHBEARER", secret) + AMQP + frame(0, Open("c").encode()))
        await until(reader, "open")
        broker.forward(3600)
        broker.node.amqp.tick()
        (close,) = await until(reader, "close")
        assert "amqp:unauthorized-access" in close
