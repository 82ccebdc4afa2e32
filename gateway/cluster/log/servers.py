"""The NATS servers that keep the log of a broker: connections to them, and whether they are as they must be."""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar, final

from nats.aio.client import Client

from sluicegate.gateway.config.sections.cluster import Cluster
from sluicegate.gateway.config.sections.security.secret_files import first_line
from sluicegate.gateway.config.sections.values import format_size
from sluicegate.gateway.views.errors import CannotStart
from sluicegate.storage.replication.jetstream import JetStream, connected, stream_name
from sluicegate.storage.replication.messages import FIRST_PLACE, Begin, Kind, decode_begin, decode_message
from sluicegate.storage.replication.ownership.bucket import BUCKET, NatsBucket
from sluicegate.storage.replication.replica import Append, first_message
from sluicegate.storage.replication.servers import all_servers, check_servers, connected_server
from sluicegate.storage.replication.stream import StreamRefused, StreamUnavailable
from sluicegate.storage.replication.trimming.snapshots import Snapshots

AGAIN_S: Final = 0.5  # before servers are asked again that did not answer
REFUSED_S: Final = 15.0  # servers that have just started refuse what they do later
REMIND_S: Final = 30.0  # between two log lines about that

log = logging.getLogger("sluicegate.cluster")

_Result = TypeVar("_Result")


@final
class Servers:
    """The servers, over one connection. For the loop of its thread."""

    def __init__(self, broker: str, settings: Cluster, *, servers: tuple[str, ...] = ()) -> None:
        """`servers`: those of another site, instead of the own ones; the login is the same."""
        self._broker: Final = broker
        self._urls: Final = list(servers or settings.servers)
        self._settings: Final = settings
        self._client: Client | None = None
        self.generation = 0  # of the stream; see `stream_name`

    @property
    def client(self) -> Client:
        """The connection; `connect` has returned."""
        assert self._client is not None
        return self._client

    @property
    def is_connected(self) -> bool:
        """Whether `connect` has returned."""
        return self._client is not None

    @property
    def is_closed(self) -> bool:
        """Whether the connection was closed for good: by `close`, or because a server has refused the login."""
        return self._client is not None and self._client.is_closed

    async def connect(self) -> None:
        """Connect, however long it takes. Raises CannotStart for a file that cannot be used."""
        options = options_of(self._settings)
        logging.getLogger("nats").setLevel(logging.CRITICAL)  # it writes tracebacks; what fails is reported here
        reminded_s = float("-inf")
        loop = asyncio.get_running_loop()
        while True:
            try:
                self._client = await connected(self._urls, **options)
                return
            except StreamUnavailable as error:
                if loop.time() - reminded_s > REMIND_S:
                    log.warning("%s; trying again", error)
                    reminded_s = loop.time()
            await asyncio.sleep(AGAIN_S)

    async def prepare_bucket(self) -> None:
        """Make the bucket if it is not there, and check it. Raises CannotStart, as `prepare` does."""
        bucket = NatsBucket(self.client)

        async def prepare() -> None:
            await bucket.create(self._settings.copies)
            _check_settings({f"bucket {BUCKET}": await bucket.differences(self._settings.copies)})

        await self._check_servers()
        await self._until_done(prepare)

    async def prepare(self, incarnation: int | None) -> Begin | None:
        """Make stream and object store if they are not there, and check them; return the stream's begin.

        None: its first message has been trimmed. A stream that is new begins with that incarnation; None: it must not
        be new. While the servers find each other it waits. Raises CannotStart when servers or stream could lose what
        they confirmed, and when the servers refuse to make them. `prepare_bucket` has returned.
        """
        stream = JetStream(self.client, self._broker, self.generation)
        snapshots = Snapshots(self.client, self._broker, None, self.generation)

        async def prepare() -> Begin | None:
            copies, bytes_max = self._settings.copies, self._settings.log_bytes_max
            if not (self._settings.replication.enabled and await stream.exists()):  # that of a site has another first
                await stream.create(replica_count=copies, bytes_max=bytes_max)
            await snapshots.create(copies)
            _check_settings({what: await ask() for what, ask in self.differences_of().items()})
            return await self._begin_of(stream, incarnation)

        return await self._until_done(prepare)

    async def _until_done(self, work: Callable[[], Awaitable[_Result]]) -> _Result:
        """Return what work returns, which is tried until the servers do it. Raises CannotStart when they refuse it."""
        until_s = asyncio.get_running_loop().time() + REFUSED_S
        while True:
            try:
                return await work()
            except StreamUnavailable as error:
                log.info("%s; trying again", error)
            except StreamRefused as refusal:
                if asyncio.get_running_loop().time() > until_s:
                    advice = (
                        f"Do they have room for cluster.log_bytes_max, {format_size(self._settings.log_bytes_max)}?"
                    )
                    raise CannotStart(f"the NATS servers refuse it: {refusal}", advice=advice) from None
            await asyncio.sleep(AGAIN_S)

    @property
    def stream(self) -> str:
        """What `differences_of` calls the stream."""
        return f"stream {stream_name(self._broker, self.generation)}"

    def differences_of(self) -> dict[str, Callable[[], Awaitable[dict[str, Any]]]]:
        """Return what asks for the settings of stream, bucket and object store that are not as they must be.

        Each raises StreamUnavailable, StreamRefused.
        """
        copies, bytes_max = self._settings.copies, self._settings.log_bytes_max
        stream = JetStream(self.client, self._broker, self.generation)
        snapshots = Snapshots(self.client, self._broker, None, self.generation)
        return {
            self.stream: lambda: stream.differences(replica_count=copies, bytes_max=bytes_max),
            f"bucket {BUCKET}": lambda: NatsBucket(self.client).differences(copies),
            "the object store": lambda: snapshots.differences(copies),
        }

    async def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            await self._client.close()

    async def _check_servers(self) -> None:
        try:
            servers = await all_servers(self.client)
        except StreamUnavailable:
            servers = []
        servers = servers or [connected_server(self.client)]
        for finding in check_servers(servers, self._settings.copies):
            if finding.is_error:
                raise CannotStart(f"cluster.servers: {finding.text}")
            log.warning("%s", finding.text)

    async def _begin_of(self, stream: JetStream, incarnation: int | None) -> Begin | None:
        while True:
            first = await stream.at(1)
            if first is not None:
                where = f"message 1 of stream {stream.name}"
                message = decode_message(first, FIRST_PLACE, where)
                if message is None or message.kind is not Kind.BEGIN:
                    raise CannotStart(f"stream {stream.name} does not begin as the log of a broker does")
                begin = decode_begin(message.content, where)
                if begin.broker != self._broker:  # names that differ in a point or a line have one stream
                    text = (
                        f"stream {stream.name} is the log of broker {begin.broker!r}, and this one is {self._broker!r}"
                    )
                    raise CannotStart(text, advice="Another node.name.")
                return begin
            bounds = await stream.bounds()
            if bounds.first > 1:
                return None
            if bounds.last > 0:
                continue  # another replica has just stored it
            if incarnation is None:
                text = f"stream {stream.name} is empty, and the data folder has a spool already"
                advice = "Begin with an empty data folder: --data DIR. Messages come over a link or a bridge."
                raise CannotStart(text, advice=advice)
            begin = Begin(incarnation, self._broker)
            await stream.append(Append(0, first_message(begin, 0)))  # of several replicas that try one is first


def _check_settings(differences: Mapping[str, Mapping[str, Any]]) -> None:
    for what, found in differences.items():
        if found:
            raise CannotStart(
                described(what, found), advice="Change them with `nats stream edit`, or the configuration."
            )


def described(what: str, settings: Mapping[str, Any]) -> str:
    """Return in words which settings of something are not as they must be."""
    said = ", ".join(f"{name}: {value!r}" for name, value in settings.items())
    return f"{what} has settings with which it could lose messages, or other ones than this configuration: {said}"


def options_of(settings: Cluster) -> dict[str, Any]:
    """Return the options of nats-py for a configuration. Raises CannotStart for a file that cannot be used."""
    options: dict[str, Any] = {}
    try:
        if settings.password_file is not None:
            password = first_line(settings.password_file)
            if not password:
                raise ValueError(f"{settings.password_file} is empty")
            options |= {"user": settings.username, "password": password}
        if settings.credentials_file is not None:
            settings.credentials_file.read_bytes()
            options["user_credentials"] = str(settings.credentials_file)
        has_files = settings.tls_authorities_file is not None or settings.client_certificate_file is not None
        if has_files or any(each.startswith("tls://") for each in settings.servers):
            context = ssl.create_default_context(cafile=settings.tls_authorities_file)
            if settings.client_certificate_file is not None:
                context.load_cert_chain(settings.client_certificate_file, settings.client_certificate_key_file)
            options["tls"] = context
    except (OSError, ValueError) as error:
        raise CannotStart(f"cluster: a file that it names cannot be used: {error}") from None
    return options
