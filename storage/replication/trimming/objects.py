"""An object store of JetStream, whose objects are written in chunks and read from the leader. Needs nats-py.

The layout is that of https://github.com/nats-io/nats-architecture-and-design, ADR-20, so tools of NATS can list and
fetch the objects: an object is a message with its description, and its chunks on a subject of their own. The client's
own object store is not used, for it waits for ever for a chunk that is not there, and sends none again.

Each write names the message before it on its subject. So a chunk is stored once, however often it is sent, and a
description is not written again behind a removal.
"""

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, final

import orjson
from nats.aio.client import Client

from sluicegate.storage.errors import DamagedRecord, StorageError
from sluicegate.storage.replication.ownership.bucket import EXPECTED
from sluicegate.storage.replication.requests import Requests
from sluicegate.storage.replication.servers import differences, lossless_config
from sluicegate.storage.replication.stream import StreamUnavailable

CHUNK_BYTES: Final = 512 << 10  # a server takes messages of 1 MiB, and answers with a message in base64
ANSWER_S: Final = 5.0
TRIES: Final = 12  # of a chunk, before its object is given up
AGAIN_S: Final = 0.5

_DIGEST: Final = "SHA-256="


class ObjectChanged(StorageError):
    """Another process writes or removes the same object."""


class Description(NamedTuple):
    """What the store says of an object."""

    name: str
    byte_count: int
    chunks: int
    digest: str  # SHA-256 in base64
    labels: dict[str, str]
    revision: int  # sequence of this description


@final
class Objects:
    """One object store. Each method may raise StreamUnavailable and StreamRefused."""

    def __init__(self, client: Client, bucket: str) -> None:
        """Use a connection of `connected`."""
        self.bucket: Final = bucket
        self._stream = f"OBJ_{bucket}"
        self._requests = Requests(client, self._stream, answer_s=ANSWER_S)

    def _config(self, replica_count: int) -> dict[str, Any]:
        return lossless_config(self._stream, f"$O.{self.bucket}.>", replica_count=replica_count)

    async def create(self, replica_count: int) -> None:
        """Create the store, if there is none. One of another configuration is refused."""
        await self._requests.ask(f"STREAM.CREATE.{self._stream}", self._config(replica_count))

    async def differences(self, replica_count: int) -> dict[str, Any]:
        """Return the settings of the store that could lose objects, with the values that they have."""
        answer = await self._requests.ask(f"STREAM.INFO.{self._stream}")
        return differences(answer["config"], self._config(replica_count))

    async def names(self) -> set[str]:
        """Return the names of all objects, also of those whose description is not written yet."""
        subjects = await self._requests.subjects(f"$O.{self.bucket}.>")
        chunks, descriptions = self._chunks_of(""), self._description_of("")
        return {
            each.removeprefix(chunks)
            if each.startswith(chunks)
            else base64.urlsafe_b64decode(each.removeprefix(descriptions)).decode(errors="replace")
            for each in subjects
        }

    async def describe(self, name: str) -> Description | None:
        """Return the description of an object, None when it has none. Raises DamagedRecord."""
        message = await self._requests.message({"last_by_subj": self._description_of(name)})
        if message is None:
            return None
        try:
            said = orjson.loads(base64.b64decode(message["data"]))
            labels, digest = said.get("headers", {}), said["digest"].removeprefix(_DIGEST)
            return Description(
                name,
                said["size"],
                said["chunks"],
                digest,
                {key: values[0] for key, values in labels.items()},
                message["seq"],
            )
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise DamagedRecord(
                f"object {name} of {self.bucket}", f"its description cannot be read: {error}"
            ) from error

    async def put(self, name: str, chunks: Iterable[bytes], labels: dict[str, str]) -> Description:
        """Store an object; there is none of its name. Raises ObjectChanged, and what the iterable raises.

        The iterable is asked on another thread. After an error some of the object may be there, without a description.
        """
        digest = hashlib.sha256()
        last = byte_count = count = 0
        pieces = iter(chunks)
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            digest.update(piece)
            last = await self._store(self._chunks_of(name), piece, last)
            byte_count += len(piece)
            count += 1
        found = Description(name, byte_count, count, base64.urlsafe_b64encode(digest.digest()).decode(), labels, 0)
        return await self.relabel(found, labels)

    async def relabel(self, known: Description, labels: dict[str, str]) -> Description:
        """Give an object other labels if its description is the known one. Raises ObjectChanged."""
        said = {
            "name": known.name,
            "bucket": self.bucket,
            "nuid": known.name,  # names the subject of the chunks
            "size": known.byte_count,
            "mtime": datetime.now(UTC).isoformat(),
            "chunks": known.chunks,
            "digest": _DIGEST + known.digest,
            "headers": {key: [value] for key, value in labels.items()},
        }
        revision = await self._store(self._description_of(known.name), orjson.dumps(said), known.revision)
        return known._replace(labels=labels, revision=revision)

    async def read(self, known: Description) -> AsyncIterator[bytes]:
        """Yield the chunks of an object. Raises DamagedRecord, at the end if the checksum is another."""
        where = f"object {known.name} of {self.bucket}"
        digest = hashlib.sha256()
        last = 0
        for place in range(known.chunks):
            message = await self._again({"seq": last + 1, "next_by_subj": self._chunks_of(known.name)})
            if message is None:
                raise DamagedRecord(where, f"it has {place} chunks of {known.chunks}")
            last = message["seq"]
            chunk = base64.b64decode(message.get("data", ""))
            digest.update(chunk)
            yield chunk
        if base64.urlsafe_b64encode(digest.digest()).decode() != known.digest:
            raise DamagedRecord(where, "its checksum does not match")

    async def remove(self, name: str) -> None:
        """Remove an object; first its description, so that what is left of it counts as unfinished."""
        await self._requests.purge(self._description_of(name))
        await self._requests.purge(self._chunks_of(name))

    async def _store(self, subject: str, data: bytes, expected: int) -> int:
        """Store a message behind another one of its subject, 0 for none; return its sequence."""
        for attempt in range(1, TRIES + 1):
            try:
                sequence = await self._requests.write(subject, data, {EXPECTED: str(expected)})
                if sequence is not None:
                    return sequence
                stored = await self._requests.message({"last_by_subj": subject})
            except StreamUnavailable:
                if attempt == TRIES:
                    raise
            else:
                if stored is None or base64.b64decode(stored.get("data", "")) != data:
                    raise ObjectChanged(f"another process writes or removes {subject}")
                return int(stored["seq"])
            await asyncio.sleep(AGAIN_S)
        raise AssertionError("a try returns or raises")

    async def _again(self, which: dict[str, Any]) -> dict[str, Any] | None:
        for attempt in range(1, TRIES + 1):
            try:
                return await self._requests.message(which)
            except StreamUnavailable:
                if attempt == TRIES:
                    raise
            await asyncio.sleep(AGAIN_S)
        raise AssertionError("a try returns or raises")

    def _chunks_of(self, name: str) -> str:
        return f"$O.{self.bucket}.C.{name}"

    def _description_of(self, name: str) -> str:
        return f"$O.{self.bucket}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"
