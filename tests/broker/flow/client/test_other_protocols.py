"""A URL that names the port of another protocol: the error says which one answered, or what was waited for."""

import asyncio
import ssl

import pytest

from sluicegate import Client, ClientOptions, ConnectFailed, ConnectionBroken, FlowClientError
from support.broker.running_broker import RunningBroker

OPTIONS = ClientOptions(connect_timeout_s=0.3)


async def refusal(port: int, scheme: str = "flow", tls: ssl.SSLContext | None = None) -> FlowClientError:
    with pytest.raises(FlowClientError) as refused:
        async with Client(f"{scheme}://127.0.0.1:{port}", OPTIONS, tls=tls):
            pass
    return refused.value


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (b"AMQP\x00\x01\x00\x00", "that port answers in AMQP, not in the flow protocol"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "that port answers in HTTP, not in the flow protocol"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "that port answers in SSH, not in the flow protocol"),
        (b"\x20\x02\x00\x05", "that port answers in MQTT, not in the flow protocol"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "that port uses TLS: its URL begins with flows://"),
        (b"220 mail ESMTP\r\n", "that port answers in another protocol, not in the flow protocol"),
    ],
)
async def test_a_port_of_another_protocol_is_reported_by_what_it_answers(said: bytes, text: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        await writer.drain()
        await reader.read()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        error = await refusal(server.sockets[0].getsockname()[1])
    assert isinstance(error, ConnectionBroken)
    assert text in str(error)


async def test_a_port_that_answers_nothing_is_reported_with_the_time(broker: RunningBroker) -> None:
    """Web servers wait for the end of a line, which the flow protocol does not have."""
    error = await refusal(broker.websocket_port)
    assert isinstance(error, ConnectFailed)
    text = "nothing at that port answers the flow protocol within 0.3 s"
    assert str(error) == f"127.0.0.1:{broker.websocket_port}: {text}"


async def test_a_port_that_closes_unasked_is_reported() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        error = await refusal(server.sockets[0].getsockname()[1])
    assert "closed by the gateway before it answered anything" in str(error)
    assert "another protocol is at that port" in str(error)


async def test_tls_with_a_port_that_has_none_is_reported_with_the_other_scheme(broker: RunningBroker) -> None:
    error = await refusal(broker.amqp_port, "flows")
    assert "the TLS handshake failed: " in str(error)
    assert "a port without TLS has a URL with flow://" in str(error)


async def test_the_gateway_names_the_protocol_of_a_client_at_the_wrong_port(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.flow_port)
    writer.write(b"\x10\x10\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x03abc")
    await reader.read()
    writer.close()
    assert "the first bytes are no preface of the flow protocol: they are of MQTT" in caplog.text
