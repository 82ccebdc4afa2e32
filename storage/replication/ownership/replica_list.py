"""The replicas of a broker, as the cluster itself has them: keys in the bucket that has the keys of owners.

The list says who is a replica, and who of them shall own the broker rather than others. It decides about no record: two
replicas that know different lists for a while take the key of the owner one after the other all the same, for each
write of it names a revision.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, final

import orjson
from nats.aio.client import Client

from sluicegate.storage.replication.jetstream import stream_name
from sluicegate.storage.replication.ownership.bucket import ANSWER_S, BUCKET, EXPECTED, STREAM
from sluicegate.storage.replication.ownership.keys import UnreadableKey
from sluicegate.storage.replication.requests import Requests

REPLICAS_MAX: Final = 16


class ListRefused(ValueError):
    """A change of the list that cannot be; the text says why."""


class ReplicaList(NamedTuple):
    """The replicas of one broker."""

    broker: str
    names: tuple[str, ...]  # those first that shall own the broker rather than others


class StoredList(NamedTuple):
    """A list as the leader of the bucket has it."""

    replicas: ReplicaList | None  # None: there is none
    revision: int  # of its key; 0 when it was never written


def with_replica(names: Sequence[str], name: str, before: str = "") -> tuple[str, ...]:
    """Return the names with another one, behind all or before one of them; one that is there moves before that one.

    Raises ListRefused.
    """
    if before and (before == name or before not in names):
        raise ListRefused(f"{before!r} is no other replica of this broker: {', '.join(names)}")
    if name in names and not before:
        raise ListRefused(f"{name!r} is a replica of this broker already")
    others = [each for each in names if each != name]
    if len(others) >= REPLICAS_MAX:
        raise ListRefused(f"the broker has {len(others)} replicas, and cannot have more")
    place = others.index(before) if before else len(others)
    return (*others[:place], name, *others[place:])


def without_replica(names: Sequence[str], name: str) -> tuple[str, ...]:
    """Return the names without one of them. Raises ListRefused."""
    if name not in names:
        raise ListRefused(f"{name!r} is no replica of this broker: {', '.join(names)}")
    if len(names) == 1:
        raise ListRefused(f"{name!r} is the only replica of this broker")
    return tuple(each for each in names if each != name)


@final
class ReplicaLists:
    """The lists of all brokers of the cluster.

    Each method raises StreamUnavailable when no answer comes, and StreamRefused.
    """

    def __init__(self, client: Client) -> None:
        """Use a connection of `connected`. The bucket is there (`NatsBucket.create`)."""
        self._requests = Requests(client, STREAM, answer_s=ANSWER_S)

    async def read(self, broker: str) -> StoredList:
        """Return the list of a broker. Raises UnreadableKey."""
        return await self._read(subject_of_list(broker))

    async def all(self) -> list[ReplicaList]:
        """Return every list, by the names of brokers. Raises UnreadableKey."""
        subjects = await self._requests.subjects(f"$KV.{BUCKET}.*.replicas")
        stored = [await self._read(subject) for subject in subjects]
        return sorted(each.replicas for each in stored if each.replicas is not None)

    async def put(self, replicas: ReplicaList, expected: int) -> int | None:
        """Write a list if its revision is the expected one; return the new one, None when it is not.

        None does not say that it was not written: it may answer a second copy of what is stored.
        """
        value = orjson.dumps({"broker": replicas.broker, "replicas": replicas.names})
        return await self._requests.write(subject_of_list(replicas.broker), value, {EXPECTED: str(expected)})

    async def _read(self, subject: str) -> StoredList:
        revision, value = await self._requests.key(subject)
        return StoredList(None if value is None else decode_list(value, subject), revision)


def subject_of_list(broker: str) -> str:
    """Return the subject of the messages that are the list of a broker."""
    return f"$KV.{BUCKET}.{stream_name(broker)}.replicas"


def decode_list(value: bytes, where: str) -> ReplicaList:
    """Return what a value says. Raises UnreadableKey. Fields of later releases are passed over."""
    try:
        fields: Any = orjson.loads(value)
        broker, names = fields["broker"], fields["replicas"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise UnreadableKey(f"{where} is no list of replicas: {value[:100]!r}") from error
    if not (isinstance(names, list) and names and all(isinstance(each, str) for each in [broker, *names])):
        raise UnreadableKey(f"{where} is no list of replicas: {value[:100]!r}")
    return ReplicaList(broker, tuple(names))
