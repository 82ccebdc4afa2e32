"""What the NATS servers and their streams must be like, so that they keep what they have confirmed."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import nats.errors
import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg

from sluicegate.storage.replication.stream import StreamUnavailable

VERSION_MIN: Final = (2, 10)  # older ones may not compare an expected sequence of 0
VERSION_KNOWN: Final = (2, 15)  # the newest one that is tested
REPLICAS_MIN: Final = 3  # the least of which a majority survives the loss of one
SYNC_BY_DEFAULT_S: Final = 120.0
PING: Final = "$SYS.REQ.SERVER.PING.VARZ"
PING_S: Final = 1.0

# Settings of a stream that lose no message, whatever they are. Each other one must be as wanted, or not set.
HARMLESS: Final = frozenset(
    {
        "compression",
        "consumer_limits",
        "description",
        "duplicate_window",
        "first_seq",
        "max_consumers",
        "metadata",
        "mirror_direct",
        "placement",
        "republish",
    }
)


# Settings that may differ while a stream is used: with another one it refuses more than it should, or less, or is not
# trimmed, and loses nothing.
REFUSING: Final = frozenset({"allow_direct", "deny_purge", "max_bytes", "max_msg_size", "sealed", "subjects"})


class Finding(NamedTuple):
    """What is wrong with the servers."""

    is_error: bool  # a broker must not be replicated so; otherwise a warning
    text: str


class Server(NamedTuple):
    """What a server says of itself."""

    name: str
    version: str
    sync_s: float | None  # between two times that it forces its files to disk; 0: with each write; None: not known


def lossless_config(
    name: str, subject: str, *, replica_count: int, bytes_max: int = -1, per_subject_max: int = -1
) -> dict[str, Any]:
    """Return the configuration of a stream in which no message goes by itself; -1 for what has no maximum."""
    return {
        "name": name,
        "subjects": [subject],
        "retention": "limits",
        "discard": "new",
        "storage": "file",
        "num_replicas": replica_count,
        "max_bytes": bytes_max,
        "max_msgs": -1,
        "max_msgs_per_subject": per_subject_max,
        "max_msg_size": -1,
        "max_age": 0,
        "deny_delete": True,
        "deny_purge": False,
        "allow_rollup_hdrs": False,
        "allow_direct": False,
    }


def differences(has: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a stream that could lose messages, with the values that they have."""
    found = {name: has.get(name) for name, value in wanted.items() if has.get(name, type(value)()) != value}
    others = {name: value for name, value in has.items() if value and name not in wanted and name not in HARMLESS}
    return found | others


def that_lose(found: Mapping[str, Any], replica_count: int) -> dict[str, Any]:
    """Return those among `differences` with which messages that are confirmed could be lost."""
    more = found.get("num_replicas", 0) > replica_count
    return {
        name: value for name, value in found.items() if name not in REFUSING and not (more and name == "num_replicas")
    }


def version_of(text: str) -> tuple[int, int] | None:
    """Return the first two numbers of a version, None when it has none."""
    numbers = text.removeprefix("v").split(".")[:2]
    return (int(numbers[0]), int(numbers[1])) if len(numbers) == 2 and all(n.isdecimal() for n in numbers) else None


def check_servers(servers: list[Server], replica_count: int) -> list[Finding]:
    """Return what is wrong with servers that shall keep so many replicas of a log. Errors come first."""
    found = [finding for server in servers for finding in (_check_version(server), _check_sync(server)) if finding]
    if replica_count < REPLICAS_MIN or not replica_count % 2:
        text = f"{replica_count} replicas: an odd number of at least {REPLICAS_MIN} is needed, for a majority decides"
        found.append(Finding(is_error=True, text=text))
    return sorted(found, key=lambda finding: not finding.is_error)


def _check_version(server: Server) -> Finding | None:
    version = version_of(server.version)
    least, known = (f"{each[0]}.{each[1]}" for each in (VERSION_MIN, VERSION_KNOWN))
    if version is None or version < VERSION_MIN:
        text = f"NATS server {server.name} has version {server.version!r}: at least {least} is needed"
        return Finding(is_error=True, text=text)
    if version > VERSION_KNOWN:
        text = f"NATS server {server.name} has version {server.version}: the newest that is tested is {known}"
        return Finding(is_error=False, text=text)
    return None


def _check_sync(server: Server) -> Finding | None:
    if server.sync_s == 0:
        return None
    if server.sync_s is None:
        found = f"does not say how often it forces its files to disk, by default each {SYNC_BY_DEFAULT_S:g} s"
    else:
        found = f"forces its files to disk each {server.sync_s:g} s"
    text = (
        f"NATS server {server.name} {found}: a loss of power at a majority of the servers can lose confirmed messages. "
        "Set `sync_interval: always` in its section `jetstream`"
    )
    return Finding(is_error=False, text=text)


def connected_server(client: Client) -> Server:
    """Return the server of a connection. It does not tell its clients how often it forces its files to disk."""
    version = client.connected_server_version
    url = client.connected_url
    return Server(url.netloc if url is not None else "", f"{version.major}.{version.minor}.{version.patch}", None)


async def all_servers(client: Client, wait_s: float = PING_S) -> list[Server]:
    """Return what all servers say of themselves to a connection of the system account, within a time.

    Nothing for a connection of another account. How often files are forced to disk is never taken from how long an
    append takes: a disk may be fast. Raises StreamUnavailable.
    """
    inbox = client.new_inbox()
    found: list[Server] = []
    done = asyncio.Event()

    async def take(message: Msg) -> None:
        if not message.data:  # no responders
            done.set()
            return
        found.append(_server_of(orjson.loads(message.data)))

    try:
        subscription = await client.subscribe(inbox, cb=take)
        await client.publish(PING, b"", reply=inbox)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await done.wait()
        await subscription.unsubscribe()
    except nats.errors.Error as error:
        raise StreamUnavailable(f"the NATS servers cannot be asked what they are: {error}") from error
    return sorted(found)


def _server_of(answer: Mapping[str, Any]) -> Server:
    says = answer["server"]
    config = answer.get("data", {}).get("jetstream", {}).get("config") or {}
    sync_s: float | None = None
    if config.get("sync_always"):
        sync_s = 0.0
    elif "sync_interval" in config:
        sync_s = config["sync_interval"] / 1e9
    return Server(says["name"], says["ver"], sync_s)
