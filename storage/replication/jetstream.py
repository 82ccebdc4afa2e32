"""A stream of NATS JetStream as the place of a replicated log. Needs nats-py, which the extra `cluster` brings.

Requests are those of the JetStream API, https://docs.nats.io/reference/reference-protocols/nats_api_reference. Appends
are awaited with the connection's own request, and the library sends nothing again by itself: who appends decides what
is sent again, and when.

Messages are read through a consumer that the server forgets soon, without acknowledgements, in batches of a bounded
number of bytes. When anything is odd, a new consumer begins behind what was read.
"""

import asyncio
import base64
import contextlib
import time
from typing import Any, Final, final

import nats
import nats.errors
import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from sluicegate.storage.replication.replica import Append
from sluicegate.storage.replication.requests import Requests
from sluicegate.storage.replication.servers import differences, lossless_config
from sluicegate.storage.replication.stream import READ_BYTES, Bounds, StoredMessage, StreamUnavailable

EXPECTED: Final = "Nats-Expected-Last-Sequence"
ANSWER_S: Final = 2.0  # an append without an answer for so long has an unknown outcome
BATCH: Final = 4096  # messages of one request
FORGOTTEN_S: Final = 30  # a consumer that nobody asks
CONNECT_S: Final = 5.0
RECONNECT_S: Final = 0.25

_NOTHING: Final = frozenset({"404", "408", "409"})


def stream_name(broker: str) -> str:
    """Return the name of the stream that has the log of a broker."""
    return "SLUICEGATE_" + "".join(each if each.isalnum() or each in "-_" else "_" for each in broker)


def subject_of(broker: str) -> str:
    """Return the subject of its messages."""
    return f"sluicegate.log.{stream_name(broker)}"


def stream_config(broker: str, *, replica_count: int, bytes_max: int) -> dict[str, Any]:
    """Return the configuration that a stream must have: nothing but a trim may delete a message."""
    name, subject = stream_name(broker), subject_of(broker)
    return lossless_config(name, subject, replica_count=replica_count, bytes_max=bytes_max)


@final
class JetStream:
    """The stream of one broker's log."""

    def __init__(self, client: Client, broker: str, *, answer_s: float = ANSWER_S) -> None:
        """Use a connection of `connected`."""
        self.name: Final = stream_name(broker)
        self.broker: Final = broker
        self._subject = subject_of(broker)
        self._client = client
        self._answer_s = answer_s
        self._requests = Requests(client, self.name, answer_s=answer_s)
        self._inbox = ""
        self._subscription: Subscription | None = None
        self._consumer = ""
        self._read_through = -1  # by the consumer

    async def create(self, *, replica_count: int, bytes_max: int) -> None:
        """Create the stream, if there is none. One of another configuration is refused."""
        config = stream_config(self.broker, replica_count=replica_count, bytes_max=bytes_max)
        await self._requests.ask(f"STREAM.CREATE.{self.name}", config)

    async def differences(self, *, replica_count: int, bytes_max: int) -> dict[str, Any]:
        """Return the settings of the stream that could lose messages, with the values that they have."""
        answer = await self._requests.ask(f"STREAM.INFO.{self.name}")
        return differences(
            answer["config"], stream_config(self.broker, replica_count=replica_count, bytes_max=bytes_max)
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
        return Bounds(state["first_seq"], state["last_seq"], state["bytes"])

    async def trim(self, before: int) -> None:
        """Delete the messages before a sequence. See `Stream.trim`."""
        await self._requests.ask(f"STREAM.PURGE.{self.name}", {"seq": before})

    # --- reading ---

    async def read(self, after: int, wait_s: float) -> list[StoredMessage]:
        """Return messages behind a sequence. See `Stream.read`."""
        if self._subscription is None or self._read_through != after:
            await self._begin_to_read(after)
        assert self._subscription is not None
        request = {"batch": BATCH, "max_bytes": READ_BYTES, "expires": int(wait_s * 1e9)}
        found: list[StoredMessage] = []
        try:
            await self._client.publish(self._next_subject(), orjson.dumps(request), reply=self._inbox)
            deadline = time.monotonic() + wait_s + self._answer_s
            while True:
                message = await self._subscription.next_msg(max(0.001, deadline - time.monotonic()))
                if not message.reply:  # the end of the batch: nothing more came, or the bound of bytes
                    self._check_status(message)
                    break
                found.append(StoredMessage(_sequence_of(message), message.data))
                if not _pending_after(message) or len(found) == BATCH:
                    break
        except (nats.errors.Error, TimeoutError) as error:
            await self.stop_reading()
            if not found:
                raise StreamUnavailable(f"stream {self.name} sends nothing: {error or type(error).__name__}") from error
        if any(each.sequence != found[0].sequence + place for place, each in enumerate(found)):
            await self.stop_reading()
            raise StreamUnavailable(f"messages of stream {self.name} are missing in what a server has sent")
        self._read_through = found[-1].sequence if found else after
        return found

    async def stop_reading(self) -> None:
        """Give the consumer up; the next `read` makes another."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            with contextlib.suppress(nats.errors.Error):
                await subscription.unsubscribe()

    async def _begin_to_read(self, after: int) -> None:
        await self.stop_reading()
        config = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": after + 1,
            "ack_policy": "none",
            "replay_policy": "instant",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": FORGOTTEN_S * 1_000_000_000,
        }
        answer = await self._requests.ask(f"CONSUMER.CREATE.{self.name}", {"stream_name": self.name, "config": config})
        self._consumer = answer["name"]
        self._inbox = self._client.new_inbox()
        try:
            self._subscription = await self._client.subscribe(self._inbox, pending_bytes_limit=8 * READ_BYTES)
        except nats.errors.Error as error:
            raise StreamUnavailable(f"stream {self.name} cannot be read: {error}") from error
        self._read_through = after

    def _next_subject(self) -> str:
        return f"$JS.API.CONSUMER.MSG.NEXT.{self.name}.{self._consumer}"

    def _check_status(self, message: Msg) -> None:
        status = (message.headers or {}).get("Status", "")
        if status not in _NOTHING:
            raise nats.errors.Error(f"the server answers {status}")
        if status == "409" and "Exceeded" not in (message.headers or {}).get("Description", ""):
            raise nats.errors.Error("the consumer is gone")


async def connected(urls: list[str], within_s: float = CONNECT_S, **options: Any) -> Client:
    """Connect to one of the servers; `options` are those of nats-py. Raises StreamUnavailable."""
    last: list[Exception] = []

    async def note(error: Exception) -> None:
        last[:] = [error]  # requests fail by themselves when the connection does

    try:
        async with asyncio.timeout(within_s):
            return await nats.connect(
                urls,
                name="sluicegate",
                max_reconnect_attempts=-1,
                reconnect_time_wait=RECONNECT_S,
                pending_size=0,  # what cannot be written now is not sent later behind our back
                error_cb=note,
                **options,
            )
    except (nats.errors.Error, OSError) as error:  # TimeoutError is an OSError
        why = last[0] if last else error
        raise StreamUnavailable(f"no NATS server at {', '.join(urls)} answers: {why or type(why).__name__}") from error


def _bytes_of(encoded: str) -> bytes:
    return base64.b64decode(encoded)


def _sequence_of(message: Msg) -> int:
    return message.metadata.sequence.stream


def _pending_after(message: Msg) -> int:
    return message.metadata.num_pending
