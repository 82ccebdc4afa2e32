"""The operators' ports of a process that has them apart from a node: a supervisor of several brokers, or a replica."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias, final

from sluicegate.actors.runtime.clock import SystemClock
from sluicegate.actors.runtime.events import EventCall, Events
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.observability.metrics.metric import Sample
from sluicegate.gateway.process.operator_ports import ServedPorts
from sluicegate.gateway.security.credentials import read_credentials
from sluicegate.gateway.security.operators import Operators
from sluicegate.gateway.security.watched_files import WatchedFiles, look_at
from sluicegate.gateway.views.errors import CannotStart
from sluicegate.messaging.observability.events import Event, EventKind
from sluicegate.protocols.security.password_checks import PasswordChecks

if TYPE_CHECKING:
    from sluicegate.gateway.operations.interface import NodeInterface

# Has a broker emit an event: its kind, its text and its details.
Emit: TypeAlias = Callable[[EventKind, str, dict[str, str] | None], Awaitable[object]]


@final
class EventsElsewhere:
    """Where the ports' events go: a broker writes them to its log, and publishes them."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._tasks: set[asyncio.Future[object]] = set()

    def pass_on(self, event: Event) -> None:
        """Have a broker emit an event."""
        task = asyncio.ensure_future(self._emit(event.kind, event.description, event.details))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


@final
class StandalonePorts:
    """The ports, as the configuration enables them, and who may log in at them."""

    def __init__(self, config: Config, *, emit: Emit) -> None:
        """`emit` has a broker emit an event."""
        self._config = config
        self._clock = SystemClock()
        self._events = Events(self._clock)
        self._events.record.log = EventCall(EventsElsewhere(emit).pass_on)
        self._checks = PasswordChecks(memory_bytes_max=config.limits.login_memory_bytes_max, clock=self._clock)
        self._operators: Operators | None = None
        self._watched: WatchedFiles | None = None
        self._ports = ServedPorts(lambda: self._config)

    async def bind(self) -> None:
        """Bind the addresses, and read what operators log in with. Raises CannotStart."""
        try:
            self._operators = self._make_operators(self._config)
        except (OSError, ValueError) as error:
            raise CannotStart(f"admin: {error}") from None
        await self._ports.bind()

    def _make_operators(self, config: Config) -> Operators:
        return Operators(
            config.admin,
            read_credentials(config.admin.users, config.admin.oauth, self._clock.wall_ms),
            checks=self._checks,
            clock=self._clock,
            wait=_wait_ms,
            random_bytes=random.SystemRandom().randbytes,
            events=self._events,
        )

    async def open(self, operations: "NodeInterface") -> None:
        """Serve operations at the bound addresses. Raises CannotStart."""
        import_module("sluicegate.gateway.admin.server")  # late: clients are served meanwhile
        assert self._operators is not None, "the ports are bound"
        await self._ports.serve(operations, accounts=self._operators, events=self._events)
        loop = asyncio.get_running_loop()
        self._watched = WatchedFiles(
            lambda delay_ms, work: loop.call_later(delay_ms / 1000, work),
            lambda: look_at(self._config),
            lambda: self.reload(self._config),
        )

    def reload(self, config: Config) -> None:
        """Put accounts and files of another configuration in force. Raises OSError and ValueError; nothing changes."""
        seen = look_at(config)  # before the files are read: a later change is read again
        credentials = read_credentials(config.admin.users, config.admin.oauth, self._clock.wall_ms)
        contexts = [(listener, listener.read_tls()) for listener in self._ports.listeners()]
        self._config = config
        if self._watched is not None:
            self._watched.follow(seen)
        if self._operators is not None:
            self._operators.configure(config.admin, credentials)
        for listener, context in contexts:
            listener.use_tls(context)

    def endpoints(self) -> list[tuple[str, str]]:
        """Return name and URL of each open port."""
        return self._ports.endpoints()

    @property
    def admin_port(self) -> int | None:
        """The admin port, None if it is not enabled."""
        return self._ports.admin_port

    def samples(self) -> list[Sample]:
        """Return what was refused here, and the keys of operators' tokens: nodes have no such ports."""
        refused = {"busy": self._checks.refused_count}
        if self._operators is not None:
            refused["failed_before"] = self._operators.attempts.refused_count
        return [
            *self._ports.samples(),
            *[Sample("sluicegate_logins_refused_total", n, (why,)) for why, n in refused.items()],
        ]

    async def stop(self) -> None:
        """Close the ports; requests in progress are finished."""
        if self._watched is not None:
            self._watched.end()
        await self._ports.stop()
        self._checks.stop()


async def _wait_ms(milliseconds: int) -> None:
    await asyncio.sleep(milliseconds / 1000)
