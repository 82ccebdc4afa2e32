"""Reading a stream of JetStream: a consumer that the server forgets soon, without acknowledgements.

A request asks for many messages, and stays open until so many have come, or its time is up. So the next one is made
when the last one has ended: under a steady load each of them would be open for its time, and the answers that they
have ended would each look like the end of what there is.

What comes is taken by a callback: to wait for each message by a call of its own costs more than to handle it.
"""

import asyncio
import contextlib
from collections import deque
from typing import Any, Final, final

import nats.errors
import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from sluicegate.storage.replication.requests import Requests
from sluicegate.storage.replication.stream import READ_BYTES, StoredMessage, StreamUnavailable

BATCH: Final = 4096  # messages of one request
FORGOTTEN_S: Final = 30  # a consumer that nobody asks
ASKED_S: Final = 5.0  # for which a request is open at least
PENDING_READS: Final = 8  # requests whose messages may wait here, by their bytes

_ENDED: Final = frozenset({"404", "408", "409"})
# Places in the reply subject of a message: $JS.ACK.STREAM.CONSUMER.DELIVERED.SEQUENCE.CONSUMER_SEQUENCE.TIME.PENDING,
# and with a domain and the hash of the account before STREAM, where there are more than nine.
_PLAIN_TOKENS: Final = 9
_SEQUENCE: Final = 5
_PENDING: Final = 8
_DOMAIN_TOKENS: Final = 2


@final
class StreamReader:
    """Reads one stream from where it is told on. Use it from one task at a time."""

    def __init__(self, client: Client, name: str, requests: Requests, *, answer_s: float) -> None:
        """Use a connection of `connected`, and a time in seconds within which a server answers."""
        self._client = client
        self._name = name
        self._requests = requests
        self._answer_s = answer_s
        self._subscription: Subscription | None = None
        self._inbox = ""
        self._consumer = ""
        self._read_through = -1  # by the consumer
        self._arrived: deque[Msg] = deque()
        self._woken = asyncio.Event()
        self._asked_count = 0  # messages that the open request has yet to bring; 0: none is open
        self._room = 0  # bytes that the read under way may still take
        self._ends_s = 0.0  # when a server must have ended it
        self._is_told_to_return = False
        self._has_waited = False  # the last read, for something that did not come

    async def read(self, after: int, wait_s: float) -> list[StoredMessage]:
        """Return messages behind a sequence. See `Stream.read`."""
        is_new = self._subscription is None or self._read_through != after
        found = await self._read(after, wait_s)
        if found and found[0].sequence != after + 1 and not is_new:
            # Were these trimmed, or sent to a connection that was lost? A new consumer knows.
            await self.stop()
            found = await self._read(after, wait_s)
        if not found and self._has_waited:
            await self._look_at_end(after)
        return found

    async def _look_at_end(self, after: int) -> None:
        """Give the consumer up if it sends nothing, and the stream goes on.

        What it has sent to a connection that was lost does not come again. If that was the last message, nothing comes
        that would tell.
        """
        with contextlib.suppress(StreamUnavailable):
            last = (await self._requests.ask(f"STREAM.INFO.{self._name}"))["state"]["last_seq"]
            if last > after and not self._arrived:
                await self.stop()

    async def end_read(self) -> None:
        """Have a `read` that waits return now."""
        self._is_told_to_return = True
        self._woken.set()

    async def stop(self) -> None:
        """Give the consumer up; the next `read` makes another."""
        subscription, self._subscription = self._subscription, None
        self._arrived.clear()
        self._asked_count = 0
        if subscription is not None:
            with contextlib.suppress(nats.errors.Error):
                await subscription.unsubscribe()

    async def _read(self, after: int, wait_s: float) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        self._room = READ_BYTES
        self._has_waited = False
        try:
            if self._subscription is None or self._read_through != after:
                await self._begin(after)
            until_s = asyncio.get_running_loop().time() + wait_s
            while not self._is_told_to_return:
                if not self._asked_count:
                    await self._ask(wait_s)
                if not self._arrived and not await self._until_more(until_s):
                    self._has_waited = not self._is_told_to_return
                    break
                if not self._take(found) and found:
                    break
        except nats.errors.Error as error:
            await self.stop()
            if not found:
                said = str(error) or type(error).__name__
                raise StreamUnavailable(f"stream {self._name} sends nothing: {said}") from error
        finally:
            self._is_told_to_return = False
        if any(each.sequence != found[0].sequence + place for place, each in enumerate(found)):
            await self.stop()
            raise StreamUnavailable(f"messages of stream {self._name} are missing in what a server has sent")
        self._read_through = found[-1].sequence if found else after
        return found

    async def _until_more(self, until_s: float) -> bool:
        """Wait until something has come, and no longer than a time of the loop; return whether it has.

        Raises nats.errors.Error when a server has not ended the request in time: the consumer is gone.
        """
        self._woken.clear()
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._ends_s:
            raise nats.errors.TimeoutError
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(until_s, self._ends_s) - now_s):
                await self._woken.wait()
        return bool(self._arrived)

    def _take(self, found: list[StoredMessage]) -> bool:
        """Take what has come; return whether the open request brings more at once that there is room for."""
        arrived, pending = self._arrived, 0
        while arrived and self._room > 0:
            message = arrived.popleft()
            if not message.reply:  # the end of the request: nothing more came in time, or the bound of bytes
                self._asked_count = 0
                self._check_status(message)
                return False
            sequence, pending = _places_of(message.reply)
            found.append(StoredMessage(sequence, message.data))
            self._room -= len(message.data)
            self._asked_count -= 1
        return pending > 0 and self._room > 0 and self._asked_count > 0

    async def _ask(self, wait_s: float) -> None:
        open_s = max(ASKED_S, wait_s)
        request = {"batch": BATCH, "max_bytes": READ_BYTES, "expires": int(open_s * 1e9)}
        await self._client.publish(self.next_subject(), orjson.dumps(request), reply=self._inbox)
        self._asked_count = BATCH
        self._ends_s = asyncio.get_running_loop().time() + open_s + self._answer_s

    def next_subject(self) -> str:
        """Return where the consumer is asked for messages."""
        return f"$JS.API.CONSUMER.MSG.NEXT.{self._name}.{self._consumer}"

    async def _begin(self, after: int) -> None:
        await self.stop()
        config = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": after + 1,
            "ack_policy": "none",
            "replay_policy": "instant",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": FORGOTTEN_S * 1_000_000_000,
        }
        body: dict[str, Any] = {"stream_name": self._name, "config": config}
        answer = await self._requests.ask(f"CONSUMER.CREATE.{self._name}", body)
        self._consumer = answer["name"]
        self._inbox = self._client.new_inbox()
        arrived = self._arrived = deque()

        async def take(message: Msg) -> None:
            arrived.append(message)
            self._woken.set()

        try:
            self._subscription = await self._client.subscribe(
                self._inbox, cb=take, pending_msgs_limit=0, pending_bytes_limit=PENDING_READS * READ_BYTES
            )
        except nats.errors.Error as error:
            raise StreamUnavailable(f"stream {self._name} cannot be read: {error}") from error
        self._read_through = after

    def _check_status(self, message: Msg) -> None:
        status = (message.headers or {}).get("Status", "")
        if status not in _ENDED:
            raise nats.errors.Error(f"the server answers {status}")
        if status == "409" and "Exceed" not in (message.headers or {}).get("Description", ""):
            raise nats.errors.Error("the consumer is gone")


def _places_of(reply: str) -> tuple[int, int]:
    """Return the sequence of a message in its stream, and how many more there are for the consumer.

    The library's own reading makes a date of the time that stands between them.
    """
    tokens = reply.split(".")
    more = 0 if len(tokens) == _PLAIN_TOKENS else _DOMAIN_TOKENS
    return int(tokens[_SEQUENCE + more]), int(tokens[_PENDING + more])
