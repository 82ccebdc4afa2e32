"""The key that says which replica owns a broker, and what is asked of the bucket that keeps it."""

from typing import Any, Final, NamedTuple, Protocol

import orjson

from sluicegate.storage.errors import StorageError

ANY: Final = "*"  # the successor of an owner that leaves the key to whichever replica comes; no name of a replica


class UnreadableKey(StorageError):
    """The value of a key is none that an owner writes."""


class Holder(NamedTuple):
    """The value of a key: the replica that wrote it last."""

    name: str
    instance: str  # differs with each start of a replica, so two processes of one name are told apart
    successor: str = (
        ""  # name of the replica that it was handed over to, or ANY; empty while the holder wants to keep it
    )
    lease_s: float = 0.0  # for which the holder may serve without a renewal; 0: it does not say


class Key(NamedTuple):
    """A key as the leader of the bucket has it."""

    revision: int  # of its last write, deletions included; 0 when it was never written
    holder: Holder | None  # None: it is not there


class Bucket(Protocol):
    """Keys that a majority of servers stores.

    Each call may raise StreamRefused, and StreamUnavailable when no answer comes within a time.
    """

    async def read(self, broker: str, within_s: float) -> Key:
        """Return the key of a broker as the leader has it. Raises UnreadableKey."""

    async def put(self, broker: str, holder: Holder, expected: int, within_s: float) -> int | None:
        """Write the key of a broker if its revision is the expected one; return the new one, None when it is not.

        None does not say that it was not written: it may answer a second copy of what is stored.
        """


def encode_holder(holder: Holder) -> bytes:
    """Return the value of a key."""
    return orjson.dumps(holder._asdict())


def decode_holder(value: bytes, where: str) -> Holder:
    """Return what a value says. Raises UnreadableKey. Fields of later releases are passed over."""
    try:
        fields: Any = orjson.loads(value)
        holder = Holder(fields["name"], fields["instance"], fields["successor"], float(fields.get("lease_s", 0)))
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise UnreadableKey(f"{where} does not say who owns the broker: {value[:100]!r}") from error
    if not all(isinstance(field, str) for field in holder[:3]):
        raise UnreadableKey(f"{where} does not say who owns the broker: {value[:100]!r}")
    return holder


def token_of(replica: str) -> str:
    """Return the name of a replica as one token of a subject. No name has an equals sign."""
    return replica.replace(".", "=")


def replica_of(token: str) -> str:
    """Return the replica of a `token_of`."""
    return token.replace("=", ".")
