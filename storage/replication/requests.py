"""Requests to the JetStream API, and what their answers mean: done, refused, or nobody knows."""

import asyncio
import base64
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, final

import nats.errors
import orjson
from nats.aio.client import Client

from sluicegate.storage.replication.stream import StreamFull, StreamRefused, StreamUnavailable

# Codes of the JetStream API.
WRONG_LAST_SEQUENCE: Final = frozenset({10071, 10164})
NO_MESSAGE: Final = 10037
NO_STREAM: Final = 10059
STORE_FAILED: Final = 10077  # the stream is full, if it says "maximum"
FULL: Final = frozenset({10002, 10023, 10028, 10047})  # the account, or the server's disk or memory
TRANSIENT: Final = frozenset({10004, 10008, 10009, 10041, 10118, 10167, 10194})  # no leader, no quorum, too much to do
UNAVAILABLE: Final = 503

DELETED: Final = b"KV-Operation:"  # header of a message that is a deletion of a key; a value is written without one


class StoredKey(NamedTuple):
    """A key of a bucket, as the leader of its stream has it."""

    revision: int  # of its last write, deletions included; 0 when it was never written
    value: bytes | None  # None: it is not there


@final
class Requests:
    """Requests about one stream, over a connection of `storage.replication.jetstream.connected`.

    Each raises StreamUnavailable when no answer comes in time.
    """

    def __init__(self, client: Client, name: str, *, answer_s: float) -> None:
        self.name: Final = name
        self._client = client
        self._answer_s = answer_s

    async def ask(
        self, what: str, body: Mapping[str, Any] | None = None, *, within_s: float | None = None
    ) -> dict[str, Any]:
        """Send a request of the JetStream API; return its answer. Raises the error that it says."""
        answer = await self.api(what, body, within_s=within_s)
        if "error" in answer:
            raise self.refusal(answer["error"])
        return answer

    async def api(
        self, what: str, body: Mapping[str, Any] | None = None, *, within_s: float | None = None
    ) -> dict[str, Any]:
        """Send a request of the JetStream API; return its answer, which may be an error."""
        return await self.send(f"$JS.API.{what}", b"" if body is None else orjson.dumps(body), None, within_s=within_s)

    async def message(self, which: Mapping[str, Any], *, within_s: float | None = None) -> dict[str, Any] | None:
        """Return a message of the stream as its leader has it, None when there is none. Raises the error it says."""
        answer = await self.api(f"STREAM.MSG.GET.{self.name}", which, within_s=within_s)
        if "error" in answer:
            if answer["error"].get("err_code") == NO_MESSAGE:
                return None
            raise self.refusal(answer["error"])
        found: dict[str, Any] = answer["message"]
        return found

    async def key(self, subject: str, *, within_s: float | None = None) -> StoredKey:
        """Return the key of that subject, if the stream is a bucket. Raises the error it says.

        Tools of NATS delete a key by a message behind it: whoever writes it again has to name that one's revision.
        """
        message = await self.message({"last_by_subj": subject}, within_s=within_s)
        if message is None:
            return StoredKey(0, None)
        is_deleted = DELETED in base64.b64decode(message.get("hdrs", ""))
        return StoredKey(message["seq"], None if is_deleted else base64.b64decode(message.get("data", "")))

    async def subjects(self, matching: str) -> list[str]:
        """Return the subjects of which the stream has messages. Raises the error it says."""
        found: list[str] = []
        while True:
            what = {"subjects_filter": matching, "offset": len(found)}
            answer = await self.ask(f"STREAM.INFO.{self.name}", what)
            page = answer["state"].get("subjects") or {}
            found += page
            if not page or len(found) >= answer.get("total", 0):
                return sorted(found)

    async def purge(self, subject: str) -> None:
        """Delete the messages of a subject. Raises the error it says."""
        await self.ask(f"STREAM.PURGE.{self.name}", {"filter": subject})

    async def write(
        self, subject: str, payload: bytes, headers: dict[str, str], *, within_s: float | None = None
    ) -> int | None:
        """Store a message; return its sequence, None when the stream is not as the headers expect it."""
        answer = await self.send(subject, payload, headers, within_s=within_s)
        if "error" not in answer:
            return int(answer["seq"])
        if answer["error"].get("err_code") in WRONG_LAST_SEQUENCE:
            return None
        raise self.refusal(answer["error"])

    async def send(
        self, subject: str, payload: bytes, headers: dict[str, str] | None, *, within_s: float | None = None
    ) -> dict[str, Any]:
        """Send a request; return its answer."""
        wait_s = self._answer_s if within_s is None else within_s
        try:
            answer = await self._client.request(subject, payload, timeout=wait_s, headers=headers)
        except (nats.errors.Error, TimeoutError) as error:
            await asyncio.sleep(0)  # without a connection it fails at once, and whoever tries again would be alone
            raise StreamUnavailable(f"stream {self.name} does not answer: {error or type(error).__name__}") from error
        decoded: dict[str, Any] = orjson.loads(answer.data)
        return decoded

    def refusal(self, error: Mapping[str, Any]) -> StreamRefused | StreamUnavailable:
        """Return the error of an answer."""
        code = error.get("err_code", 0)
        said = f"stream {self.name}: {error.get('description', 'no reason given')} (NATS error {code})"
        if code in FULL or (code == STORE_FAILED and "maximum" in said):
            return StreamFull(said)
        if code in TRANSIENT or error.get("code") == UNAVAILABLE:
            return StreamUnavailable(said)
        return StreamRefused(said)
