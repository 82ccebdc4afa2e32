"""What users write behind `.option(...)`, checked once, with every mistake named.

Spark passes texts, with names without case. Secrets are never options: options are in plans, and in pickles to every
worker. `credentialRef` says where the secret is, and each process reads it there.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self, final

from sluicegate import ClientOptions
from sluicegate.messaging.bulk.durable_cursors import CONSUME, EARLIEST, LATEST, TAP
from sluicegate.protocols.flow.client.options import target_of
from sluicegate.protocols.flow.codec.limits import CHUNK_BYTES_DEFAULT, CHUNK_BYTES_MAX

LONG_POLL_MS_DEFAULT: Final = 1_000
LONG_POLL_MS_MAX: Final = 60_000  # as long as the gateway lets a question wait
RETRY_MS_DEFAULT: Final = 30_000
REFERENCES: Final = "env:NAME and file:PATH"  # where a secret may be
FAIL: Final = "fail"
DROP: Final = "drop"


class OptionError(ValueError):
    """An option that is unknown, missing or invalid; the text names it, and the allowed values."""


@final
class _Given:
    """The given options. Each is read by its name; an option that is never read is unknown."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): str(value) for name, value in options.items()}
        self._known: dict[str, str] = {}

    def text(self, name: str, default: str = "") -> str:
        self._known[name.lower()] = name
        return self._values.get(name.lower(), default).strip()

    def required(self, name: str) -> str:
        value = self.text(name)
        if not value:
            raise OptionError(f"the option {name} is missing")
        return value

    def one_of(self, name: str, allowed: tuple[str, ...]) -> str:
        """Return one of the allowed words; the first is the default."""
        value = self.text(name, allowed[0]).lower()
        if value not in allowed:
            raise OptionError(f"{name} is {value!r}; allowed are {', '.join(allowed)}")
        return value

    def number(self, name: str, default: int, least: int, most: int = (1 << 63) - 1) -> int:
        value = self.text(name, str(default))
        if not value.isascii() or not value.isdigit() or not least <= int(value) <= most:
            raise OptionError(f"{name} is {value!r}; allowed are whole numbers from {least} to {most}")
        return int(value)

    def flag(self, name: str, default: bool) -> bool:
        return self.one_of(name, ("true", "false") if default else ("false", "true")) == "true"

    def check_all_known(self) -> None:
        unknown = sorted(set(self._values) - set(self._known))
        if unknown:
            allowed = ", ".join(sorted(self._known.values()))
            raise OptionError(f"there is no option {', '.join(unknown)}; there are {allowed}")


def is_reference(ref: str) -> bool:
    """Return whether a text is a reference to a secret."""
    kind, _, place = ref.partition(":")
    return kind in ("env", "file") and bool(place)


def secret_of(ref: str) -> str:
    """Return the secret of a reference on this host. Raises OptionError when it is missing."""
    kind, _, place = ref.partition(":")
    try:
        secret = os.environ[place] if kind == "env" else Path(place).read_text(encoding="utf-8").strip()
    except KeyError:
        raise OptionError(f"credentialRef {ref}: there is no such variable on this host") from None
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"credentialRef {ref} on this host: {error}") from None
    if not secret:
        raise OptionError(f"credentialRef {ref} is empty on this host")
    return secret


@final
@dataclass(frozen=True, kw_only=True)
class ConnectOptions:
    """The address of the gateway, and the client's identity."""

    url: str  # flow://HOST[:PORT], or flows:// for TLS
    vpn: str  # the message VPN to be in; empty: that of the user name or the listener
    username: str
    credential_ref: str  # env:NAME or file:PATH, of the user's password; of a token when there is no user name
    allow_plain_without_tls: bool
    retry_ms: int  # how long to try for a connection, before the task or query fails

    @classmethod
    def of(cls, given: _Given) -> Self:
        """Raises OptionError."""
        ref = given.text("credentialRef")
        if ref and not is_reference(ref):
            raise OptionError(f"credentialRef is {ref!r}; allowed are {REFERENCES}")
        username, former = given.text("username"), given.text("user")  # `user` is its former name
        if username and former:
            raise OptionError("give username only: user is its former name")
        username = username or former
        if username and not ref:
            raise OptionError(f"username is {username!r}, but no credentialRef says where the password is")
        url = given.required("url")
        try:
            target_of(url)
        except ValueError as error:
            raise OptionError(f"url: {error}") from None
        return cls(
            url=url,
            vpn=given.text("vpn"),
            username=username,
            credential_ref=ref,
            allow_plain_without_tls=given.flag("allowPlainWithoutTls", False),
            retry_ms=given.number("retryMs", RETRY_MS_DEFAULT, 1),
        )

    def client_options(self) -> ClientOptions:
        """Return the options of the client library, with the secret. Raises OptionError when the secret is missing."""
        secret = secret_of(self.credential_ref) if self.credential_ref else ""
        return ClientOptions(
            username=self.username,
            password=secret if self.username else "",
            token="" if self.username else secret,
            allow_plain_without_tls=self.allow_plain_without_tls,
            vpn=self.vpn,
            reconnect_delay_max_s=1.0,
            give_up_after_s=self.retry_ms / 1000,
        )


@final
@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """The options of the source, batch and stream; `docs/data/spark.md` has their table."""

    connect: ConnectOptions
    queue: str
    columns: tuple[str, ...]  # empty: all
    cursor: str  # stream: under which name the gateway keeps our place
    mode: str  # stream: `tap` or `consume`
    starting_offsets: str  # stream: `earliest`, `latest`, or an offset; batch: the same
    ending_offsets: str  # batch: `latest`, or an offset
    rows_max: int  # stream: of one batch; 0: no bound
    bytes_max: int
    long_poll_ms: int
    tasks: int  # at most so many tasks of a batch; 0: one for each partition
    split_rows: int  # a task reads at most so many rows, and order in a partition holds no more; 0: not cut
    chunk_bytes: int
    fail_on_data_loss: bool
    on_rewind: str  # `fail` or `skip`
    pushdown: bool

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Check the user's options. Raises OptionError."""
        given = _Given(options)
        columns = tuple(each.strip() for each in given.text("columns").split(",") if each.strip())
        queue = given.required("queue")
        made = cls(
            connect=ConnectOptions.of(given),
            queue=queue,
            columns=columns,
            cursor=given.text("cursor", "spark"),
            mode=given.one_of("mode", (TAP, CONSUME)),
            starting_offsets=given.text("startingOffsets", EARLIEST),
            ending_offsets=given.text("endingOffsets", LATEST),
            rows_max=given.number("maxRowsPerTrigger", 0, 0),
            bytes_max=given.number("maxBytesPerTrigger", 0, 0),
            long_poll_ms=given.number("longPollMs", LONG_POLL_MS_DEFAULT, 0, LONG_POLL_MS_MAX),
            tasks=given.number("tasks", 0, 0, 100_000),
            split_rows=given.number("splitRows", 0, 0),
            chunk_bytes=given.number("chunkBytes", CHUNK_BYTES_DEFAULT, 1, CHUNK_BYTES_MAX),
            fail_on_data_loss=given.flag("failOnDataLoss", True),
            on_rewind=given.one_of("onRewind", (FAIL, "skip")),
            pushdown=given.flag("pushdown", False),
        )
        given.check_all_known()
        if made.rows_max and made.bytes_max:
            raise OptionError("maxRowsPerTrigger and maxBytesPerTrigger exclude each other: Spark knows one limit")
        return made


@final
@dataclass(frozen=True, kw_only=True)
class SinkOptions:
    """The options of the sinks."""

    connect: ConnectOptions
    topic: str  # all rows go there; empty: each to its column `topic`
    queue: str  # or there; with neither, and no column `topic`, the column `queue` counts
    transaction: str  # batch: a name under which a second run publishes nothing; empty: one is drawn
    on_reject: str  # `fail` or `drop`
    is_to_queue: bool

    @classmethod
    def of(cls, options: Mapping[str, str], columns: Sequence[str]) -> Self:
        """Check the user's options, for rows of these columns. Raises OptionError."""
        given = _Given(options)
        topic, queue = given.text("topic"), given.text("queue")
        made = cls(
            connect=ConnectOptions.of(given),
            topic=topic,
            queue=queue,
            transaction=given.text("txn"),
            on_reject=given.one_of("onReject", (FAIL, DROP)),
            is_to_queue=bool(queue) or (not topic and "topic" not in columns),
        )
        given.text("checkpointLocation")  # Spark's own, which it hands over as well
        given.text("path")
        given.check_all_known()
        if topic and queue:
            raise OptionError("topic and queue exclude each other")
        return made
