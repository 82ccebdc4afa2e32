"""A real admin server on a free port, in a thread with a loop of its own, so that a test can be a plain client."""

import asyncio
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

import orjson

from sluicegate.actors.runtime.clock import SystemClock
from sluicegate.actors.runtime.events import Events
from sluicegate.gateway.admin.access.places import Places
from sluicegate.gateway.admin.server import AdminServer, serve_admin
from sluicegate.gateway.config.sections.admin import Admin
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.gateway.security.credentials import read_credentials
from sluicegate.gateway.security.operators import Operators
from sluicegate.protocols.security.password_checks import PasswordChecks
from sluicegate.protocols.transport.loop.event_loop import SocketLoop

ANSWER_S = 30
WITHOUT_ACCOUNTS = Admin()


@dataclass(frozen=True)
class Answer:
    """What came back over HTTP."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, object]:
        """Return the body, which must be a JSON object."""
        value = orjson.loads(self.body)
        assert isinstance(value, dict)
        return value


@dataclass(frozen=True)
class RunningAdmin:
    """The server's address, and a client."""

    url: str

    def ask(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Answer:
        """Send one request; every status is an answer."""
        data = body if isinstance(body, bytes) else None if body is None else orjson.dumps(body)
        sent = {"Content-Type": "application/json", **(headers or {})}
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=sent)
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_S) as response:
                return Answer(response.status, dict(response.headers), response.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, dict(error.headers), error.read())


@contextmanager
def running_admin(
    node: NodeInterface,
    *,
    queue_label_max: int = 1000,
    admin: Admin = WITHOUT_ACCOUNTS,
    events: Events | None = None,
    probes_only: bool = False,
    places: Places | None = None,
    body_timeout_s: float = 15,
) -> Iterator[RunningAdmin]:
    """Serve a node's admin port while the block runs. `admin` has its accounts; `events` records its events."""
    clock = SystemClock()
    accounts = Operators(
        admin,
        read_credentials(admin.users, admin.oauth, clock.wall_ms),
        checks=PasswordChecks(memory_bytes_max=256 << 20, clock=clock),
        clock=clock,
        wait=lambda wait_ms: asyncio.sleep(wait_ms / 1000),
        random_bytes=Random(1).randbytes,
        events=events or Events(clock),
    )
    loop = SocketLoop()
    thread = threading.Thread(target=loop.run_forever, name="admin of a test")
    thread.start()

    async def start() -> AdminServer:
        return await serve_admin(
            node,
            "127.0.0.1",
            0,
            accounts=accounts,
            events=events or Events(clock),
            queue_label_max=queue_label_max,
            places=places or Places(),
            body_timeout_s=body_timeout_s,
            probes_only=probes_only,
        )

    try:
        server = asyncio.run_coroutine_threadsafe(start(), loop).result(ANSWER_S)
        try:
            yield RunningAdmin(f"http://127.0.0.1:{server.port}")
        finally:
            asyncio.run_coroutine_threadsafe(server.stop(), loop).result(ANSWER_S)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(ANSWER_S)
        loop.close()
