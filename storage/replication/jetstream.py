"""A stream of NATS JetStream as the place of a replicated log. Needs nats-py, which the extra `cluster` brings.

Requests are those of the JetStream API, https://docs.nats.io/reference/reference-protocols/nats_api_reference. Appends
are awaited with the connection's own request, and the library sends nothing again by itself: who appends decides what
is sent again, and when.
"""

import asyncio
import base64
from typing import Any, Final, cast, final

import nats.errors
from nats.aio.client import Client, Srv

from sluicegate.storage.replication.replica import Append
from sluicegate.storage.replication.requests import NO_STREAM, Requests
from sluicegate.storage.replication.servers import differences, lossless_config
from sluicegate.storage.replication.stream import Bounds, StoredMessage, StreamUnavailable
from sluicegate.storage.replication.stream_reader import StreamReader

EXPECTED: Final = "Nats-Expected-Last-Sequence"
ANSWER_S: Final = 2.0  # an append without an answer for so long has an unknown outcome
CONNECT_S: Final = 5.0
RECONNECT_S: Final = 0.25
PING_S: Final = 1  # a server that was cut off says nothing: it is left after two pings without an answer
PINGS_MAX: Final = 2


def stream_name(broker: str, generation: int = 0) -> str:
    """Return the name of the stream that has the log of a broker: another one for each broker.

    It may be a token of a subject, and a key of a bucket: what cannot be in these is written as `=` and its bytes in
    hexadecimal. A site whose log is begun anew from that of the other site gives it the next generation, so nothing
    that comes late is for the new one.
    """
    kept = "-_"
    escaped = [
        chr(byte) if chr(byte).isascii() and (chr(byte).isalnum() or chr(byte) in kept) else f"={byte:02X}"
        for byte in broker.encode()
    ]
    return "SLUICEGATE_" + "".join(escaped) + (f"~{generation}" if generation else "")


def subject_of(broker: str, generation: int = 0) -> str:
    """Return the subject of its messages."""
    return f"sluicegate.log.{stream_name(broker, generation)}"


def stream_config(broker: str, generation: int = 0, *, replica_count: int, bytes_max: int) -> dict[str, Any]:
    """Return the configuration that a stream must have: nothing but a trim may delete a message."""
    name, subject = stream_name(broker, generation), subject_of(broker, generation)
    return lossless_config(name, subject, replica_count=replica_count, bytes_max=bytes_max)


@final
class JetStream:
    """The stream of one broker's log."""

    def __init__(self, client: Client, broker: str, generation: int = 0, *, answer_s: float = ANSWER_S) -> None:
        """Use a connection of `connected`. For the generation see `stream_name`."""
        self.name: Final = stream_name(broker, generation)
        self.broker: Final = broker
        self.generation: Final = generation
        self._subject = subject_of(broker, generation)
        self._client = client
        self._answer_s = answer_s
        self._requests = Requests(client, self.name, answer_s=answer_s)
        self._reader = StreamReader(client, self.name, self._requests, answer_s=answer_s)

    async def create(self, *, replica_count: int, bytes_max: int, first: int = 1) -> None:
        """Create the stream, if there is none; `first` is the sequence of its first message.

        One of another configuration is refused.
        """
        config = stream_config(self.broker, self.generation, replica_count=replica_count, bytes_max=bytes_max)
        if first > 1:
            config["first_seq"] = first
        await self._requests.ask(f"STREAM.CREATE.{self.name}", config)

    async def exists(self) -> bool:
        """Return whether there is such a stream."""
        answer = await self._requests.api(f"STREAM.INFO.{self.name}")
        if "error" not in answer:
            return True
        if answer["error"].get("err_code") == NO_STREAM:
            return False
        raise self._requests.refusal(answer["error"])

    async def differences(self, *, replica_count: int, bytes_max: int) -> dict[str, Any]:
        """Return the settings of the stream that could lose messages, with the values that they have."""
        answer = await self._requests.ask(f"STREAM.INFO.{self.name}")
        return differences(
            answer["config"],
            stream_config(self.broker, self.generation, replica_count=replica_count, bytes_max=bytes_max),
        )

    async def append(self, append: Append) -> int | None:
        """Append a message. See `Stream.append`."""
        return await self._requests.write(self._subject, append.data, {EXPECTED: str(append.expected)})

    async def at(self, sequence: int) -> bytes | None:
        """Return the message at a sequence. See `Stream.at`."""
        message = await self._requests.message({"seq": sequence})
        return None if message is None else _bytes_of(message.get("data", ""))

    async def bounds(self) -> Bounds:
        """Return what the stream has. See `Stream.bounds`."""
        state = (await self._requests.ask(f"STREAM.INFO.{self.name}"))["state"]
        return Bounds(max(1, state["first_seq"]), state["last_seq"], state["bytes"])  # 0 where nothing was ever stored

    async def trim(self, before: int) -> None:
        """Delete the messages before a sequence. See `Stream.trim`."""
        await self._requests.ask(f"STREAM.PURGE.{self.name}", {"seq": before})

    async def read(self, after: int, wait_s: float) -> list[StoredMessage]:
        """Return messages behind a sequence. See `Stream.read`."""
        return await self._reader.read(after, wait_s)

    async def end_read(self) -> None:
        """Have a `read` that waits return now."""
        await self._reader.end_read()

    async def aclose(self) -> None:
        """Give up what `read` needs at the servers. A `read` that comes later makes it anew."""
        await self._reader.stop()


async def connected(urls: list[str], within_s: float = CONNECT_S, **options: Any) -> Client:
    """Connect to one of the servers; `options` are those of nats-py. Raises StreamUnavailable."""
    last: list[Exception] = []
    client: Any = _Client()  # its annotations know whole seconds only

    async def note(error: Exception) -> None:
        last[:] = [error]  # requests fail by themselves when the connection does

    try:
        async with asyncio.timeout(within_s):
            await client.connect(
                urls,
                name="sluicegate",
                max_reconnect_attempts=-1,
                reconnect_time_wait=RECONNECT_S,
                ping_interval=PING_S,
                max_outstanding_pings=PINGS_MAX,
                pending_size=0,  # what cannot be written now is not sent later behind our back
                error_cb=note,
                **options,
            )
            return cast(Client, client)
    except (nats.errors.Error, OSError) as error:  # TimeoutError is an OSError
        why = last[0] if last else error
        said = str(why) or type(why).__name__
        raise StreamUnavailable(f"no NATS server at {', '.join(urls)} answers: {said}") from error


class _Client(Client):
    """A client that closes the connection of a failed attempt: nats-py leaves it to the garbage collector."""

    async def _connect_to_server(self, s: Srv) -> None:
        failed: Any = self._transport
        if failed is not None:
            failed.close()
        await super()._connect_to_server(s)


def _bytes_of(encoded: str) -> bytes:
    return base64.b64decode(encoded)
