"""What each replica of a broker reads, as keys in the bucket that has the keys of owners. Needs nats-py.

A replica writes its key before it reads the log. An owner raises the feature level of the log when all replicas read
the higher one (`storage.replication.levels`). A key stays when its replica goes: it may come back with that release.
"""

from typing import Any, NamedTuple, final

import orjson
from nats.aio.client import Client

from sluicegate.storage.replication.jetstream import stream_name
from sluicegate.storage.replication.ownership.bucket import ANSWER_S, BUCKET, EXPECTED, STREAM
from sluicegate.storage.replication.ownership.keys import UnreadableKey, replica_of, token_of
from sluicegate.storage.replication.requests import Requests


class ReadableLevel(NamedTuple):
    """What a replica has said of itself."""

    level: int  # the highest feature level that it reads
    release: str


@final
class ReadableLevels:
    """What the replicas of one broker read.

    Each method raises StreamUnavailable when no answer comes, StreamRefused, and UnreadableKey for a value that no
    replica writes.
    """

    def __init__(self, client: Client, broker: str) -> None:
        """Use a connection of `connected`. The bucket is there (`NatsBucket.create`)."""
        self._requests = Requests(client, STREAM, answer_s=ANSWER_S)
        self._prefix = f"$KV.{BUCKET}.{stream_name(broker)}.reads."

    async def all(self) -> dict[str, ReadableLevel]:
        """Return what each replica reads that has ever said so."""
        found: dict[str, ReadableLevel] = {}
        for subject in await self._requests.subjects(f"{self._prefix}>"):
            replica = replica_of(subject.removeprefix(self._prefix))
            said, _ = await self._read(replica)
            if said is not None:
                found[replica] = said
        return found

    async def say(self, replica: str, reads: ReadableLevel) -> bool:
        """Write what a replica reads, if it is not there; return whether it is there now."""
        known, revision = await self._read(replica)
        if known == reads:
            return True
        value = orjson.dumps({"level": reads.level, "release": reads.release})
        headers = {EXPECTED: str(revision)}
        return await self._requests.write(self._prefix + token_of(replica), value, headers) is not None

    async def _read(self, replica: str) -> tuple[ReadableLevel | None, int]:
        revision, value = await self._requests.key(self._prefix + token_of(replica))
        return None if value is None else decode_readable_level(value, f"what replica {replica} reads"), revision


def decode_readable_level(value: bytes, where: str) -> ReadableLevel:
    """Return what a value says. Raises UnreadableKey. Fields of later releases are passed over."""
    try:
        fields: Any = orjson.loads(value)
        level, release = fields["level"], fields["release"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise UnreadableKey(f"{where} cannot be read: {value[:100]!r}") from error
    if not (isinstance(level, int) and isinstance(release, str)):
        raise UnreadableKey(f"{where} cannot be read: {value[:100]!r}")
    return ReadableLevel(level, release)
