"""Objects of a message VPN that operators create while the node runs, beside configured ones of the same kind.

Each object is a row of the catalog. `users`, `rest_points` and `profiles` define the objects and apply changes of them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, final

import orjson

from sluicegate.actors.messages.data import StoreRefused
from sluicegate.actors.spool.catalog import WriteRow
from sluicegate.gateway.config.findings import described
from sluicegate.gateway.config.sections.message_vpns.message_vpns import MessageVpn as MessageVpnSection
from sluicegate.gateway.config.sections.section import NamedSection
from sluicegate.gateway.views.errors import AlreadyExists, NotFound, Refused
from sluicegate.messaging.clients.roster import ClientRoster
from sluicegate.storage.interface import Table, TableWrite

# The origin of an object, as operators see it.
CONFIGURATION: Final = "configuration"
OPERATOR: Final = "operator"  # created while the node ran

# Prefix of the key of an object's row: the row says which broker of the machine it goes to (`handover`).
HANDOVER_ROW: Final = b"handover/"

T = TypeVar("T")
N = TypeVar("N", bound=NamedSection)

log: Final = logging.getLogger("sluicegate.node")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectKind(Generic[T]):
    """A kind of objects: how they are stored, and the errors that name them."""

    row_key: bytes  # prefix of the keys of its rows
    count_max: int  # in one message VPN
    written: Callable[[T], bytes]
    read: Callable[[bytes], T]  # raises ValueError, whose text has no secret
    not_found: type[NotFound]
    already_exists: type[AlreadyExists]


def kind_of_sections(
    model: type[N], *, row_key: bytes, count_max: int, not_found: type[NotFound], already_exists: type[AlreadyExists]
) -> ObjectKind[N]:
    """Return a kind whose objects are configuration sections without secrets."""
    return ObjectKind(
        row_key=row_key,
        count_max=count_max,
        written=lambda section: orjson.dumps(section.to_dict()),
        read=lambda row: described(model, orjson.loads(row)),
        not_found=not_found,
        already_exists=already_exists,
    )


def object_rows(kind: ObjectKind[Any], catalog: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return the rows of one kind, by the names of their objects."""
    return {key.removeprefix(kind.row_key): value for key, value in catalog.items() if key.startswith(kind.row_key)}


@final
class VpnAccess:
    """What provisioned objects use of their message VPN: its configuration, its roster, and its catalog.

    The message VPN owns it. All its provisioned objects share it.
    """

    def __init__(
        self, config: MessageVpnSection, clients: ClientRoster, write_row: Callable[[WriteRow], Awaitable[None]]
    ) -> None:
        self.config = config  # the one in force; a reload replaces it
        self.clients = clients
        self.write_row = write_row  # raises StoreRefused
        self.is_started = False  # everything that the configuration declares was created
        self.is_shut = False  # it is being deleted

    @property
    def is_up(self) -> bool:
        """Whether clients may connect: the message VPN is enabled and started, and stays."""
        return self.config.enabled and self.is_started and not self.is_shut


class ProvisionedObjects(Generic[T]):
    """The objects of one kind in one message VPN.

    A configured object hides one of the same name that operators created; that one returns when the configured object
    is gone. A row that this release cannot read is logged and stays in the store.
    """

    def __init__(
        self,
        kind: ObjectKind[T],
        vpn: VpnAccess,
        catalog: Mapping[bytes, bytes],
        configured: Callable[[], Collection[str]],
    ) -> None:
        self._kind = kind
        self._vpn = vpn
        self._configured = configured  # returns the names of configured objects
        self._change_lock = asyncio.Lock()
        self._changes: set[asyncio.Task[None]] = set()
        self.objects: dict[str, T] = {}  # as they are in the store, by name
        for name, value in object_rows(kind, catalog).items():
            try:
                self.objects[name.decode()] = kind.read(value)
            except ValueError as problem:
                shown = name.decode(errors="backslashreplace")
                log.error("%s %r in the store cannot be read and is ignored: %s", kind.not_found.kind, shown, problem)
        prefix = HANDOVER_ROW + kind.row_key
        self.going = {  # by name: the broker of the machine that gets an object, hidden or not, and may have it already
            key.removeprefix(prefix).decode(errors="backslashreplace"): row.decode(errors="backslashreplace")
            for key, row in catalog.items()
            if key.startswith(prefix)
        }

    def origin(self, name: str) -> str:
        """Return the origin of the object that is in force. Raises NotFound."""
        if name in self._configured():
            return CONFIGURATION
        if name not in self.objects:
            raise self._kind.not_found(name)
        return OPERATOR

    def changeable(self, name: str) -> T:
        """Return an object that operators created. Raises NotFound and Refused."""
        if self.origin(name) == CONFIGURATION:
            raise Refused(f"{self._kind.not_found.kind} {name!r} is configured: change the configuration, and reload")
        if to := self.goes_to(name):
            raise Refused(f"{self._kind.not_found.kind} {name!r} moves to broker {to}; try again in a moment")
        return self.objects[name]

    def goes_to(self, name: str) -> str:
        """Return the broker of the machine to which the object in force goes, and so does not run here; or nothing."""
        return self.going.get(name, "") if name in self.objects and name not in self._configured() else ""

    def check_new(self, name: str) -> None:
        """Check that an object of this name may be created. Raises AlreadyExists and Refused."""
        if name in self.objects or name in self._configured():
            raise self._kind.already_exists(name)
        if len(self.objects) >= self._kind.count_max:
            raise Refused(f"there are {len(self.objects)} of the kind {self._kind.not_found.kind}, and may be no more")

    async def change(self, change: Coroutine[Any, Any, None]) -> None:
        """Run one change at a time. A change runs to its end even if its caller no longer waits."""
        task = asyncio.create_task(self._do(change))
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        await asyncio.shield(task)

    async def _do(self, change: Coroutine[Any, Any, None]) -> None:
        async with self._change_lock:
            await change

    async def put(self, name: str, value: T | None) -> None:
        """Store an object, or delete it if `value` is None, within a change. Raises Refused."""
        if value is not None and name in self.going:  # an earlier object of this name went there
            await self.put_going(name, "")
        await self._write(self._kind.row_key + name.encode(), None if value is None else self._kind.written(value))
        if value is None:
            del self.objects[name]
        else:
            self.objects[name] = value

    async def put_going(self, name: str, to: str) -> None:
        """Store to which broker an object goes, or that it goes to none, within a change. Raises Refused."""
        await self._write(HANDOVER_ROW + self._kind.row_key + name.encode(), to.encode() if to else None)
        if to:
            self.going[name] = to
        else:
            self.going.pop(name, None)

    async def _write(self, key: bytes, row: bytes | None) -> None:
        try:
            await self._vpn.write_row(WriteRow(TableWrite(Table.CATALOG, key, row)))
        except StoreRefused as refusal:
            raise Refused(str(refusal)) from None
