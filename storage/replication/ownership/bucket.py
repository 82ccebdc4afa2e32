"""The bucket of NATS that keeps the keys of all brokers. Needs nats-py, which the extra `cluster` brings.

A bucket is a stream with one message for each key (https://github.com/nats-io/nats-architecture-and-design, ADR-8). It
is read from the leader of that stream and never by a direct get, which any replica answers.
"""

from typing import Any, Final, final

from nats.aio.client import Client

from sluicegate.storage.replication.jetstream import stream_name
from sluicegate.storage.replication.ownership.keys import Holder, Key, decode_holder, encode_holder
from sluicegate.storage.replication.requests import Requests
from sluicegate.storage.replication.servers import differences, lossless_config

BUCKET: Final = "SLUICEGATE_OWNERS"
STREAM: Final = f"KV_{BUCKET}"
EXPECTED: Final = "Nats-Expected-Last-Subject-Sequence"
ANSWER_S: Final = 2.0  # for requests that no lease waits for


def bucket_config(replica_count: int) -> dict[str, Any]:
    """Return the configuration that the stream of the bucket must have: no key goes by itself."""
    return lossless_config(STREAM, f"$KV.{BUCKET}.>", replica_count=replica_count, per_subject_max=1)


@final
class NatsBucket:
    """The keys of all brokers. See `Bucket`."""

    def __init__(self, client: Client) -> None:
        """Use a connection of `connected`."""
        self._requests = Requests(client, STREAM, answer_s=ANSWER_S)

    async def create(self, replica_count: int) -> None:
        """Create the bucket, if there is none. One of another configuration is refused."""
        await self._requests.ask(f"STREAM.CREATE.{STREAM}", bucket_config(replica_count))

    async def differences(self, replica_count: int) -> dict[str, Any]:
        """Return the settings of the bucket that could lose keys, with the values that they have."""
        answer = await self._requests.ask(f"STREAM.INFO.{STREAM}")
        return differences(answer["config"], bucket_config(replica_count))

    async def read(self, broker: str, within_s: float) -> Key:
        """Return the key of a broker. See `Bucket.read`."""
        revision, value = await self._requests.key(_subject_of(broker), within_s=within_s)
        if value is None:
            return Key(revision, None)
        return Key(revision, decode_holder(value, f"key {stream_name(broker)} of bucket {BUCKET}"))

    async def put(self, broker: str, holder: Holder, expected: int, within_s: float) -> int | None:
        """Write the key of a broker. See `Bucket.put`."""
        headers = {EXPECTED: str(expected)}
        return await self._requests.write(_subject_of(broker), encode_holder(holder), headers, within_s=within_s)


def _subject_of(broker: str) -> str:
    return f"$KV.{BUCKET}.{stream_name(broker)}"
