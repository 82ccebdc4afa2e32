"""Objects that go from one broker of a machine to another: a bridge or a REST delivery point of a retired broker.

The broker that has one stores where it goes, and stops it, before the other broker is asked. From then on it does not
run here, also after a restart, until it is known whether the other broker has it. The other one stores it, and runs it.
Then it is deleted here. So it runs at one broker at a time, and if both have it, the other broker's holds.

See also: `gateway.machine.handing_over` (who asks whom).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar, final

from sluicegate.gateway.config.findings import described
from sluicegate.gateway.config.sections.section import NamedSection
from sluicegate.gateway.provisioning.store import ProvisionedObjects

N = TypeVar("N", bound=NamedSection)


@final
@dataclass(frozen=True)
class Handed:
    """An object as it goes to another broker."""

    name: str
    definition: dict[str, object]
    session: bytes | None = None  # the row of a bridge's session at its foreign broker
    is_paused: bool = False


@final
class Handover(Generic[N]):
    """The steps of handing over the objects of one kind in one message VPN, at either broker."""

    def __init__(
        self,
        provisioned: ProvisionedObjects[N],
        model: type[N],
        *,
        follow: Callable[[str], Awaitable[None]],
        packed: Callable[[N], Handed],
        unpack: Callable[[Handed], Awaitable[None]],
    ) -> None:
        """`follow` starts or stops an object; `unpack` stores what comes with one, before it is stored itself."""
        self._provisioned = provisioned
        self._model = model
        self._follow = follow
        self._packed = packed
        self._unpack = unpack

    def names(self) -> list[str]:
        """Return the names of the objects that operators created."""
        return sorted(self._provisioned.objects)

    def goes_to(self, name: str) -> str:
        """Return the broker to which an object goes, also while a configured one hides it; empty: to none."""
        return self._provisioned.going.get(name, "") if name in self._provisioned.objects else ""

    def any_goes(self) -> bool:
        """Return whether an object goes to another broker."""
        return any(self.goes_to(name) for name in self._provisioned.objects)

    async def begin(self, name: str, to: str) -> None:
        """Stop an object, and store where it goes. What it has unsettled returns to its queues. Raises Refused."""

        async def change() -> None:
            self._provisioned.changeable(name)
            await self._provisioned.put_going(name, to)
            await self._follow(name)

        await self._provisioned.change(change())

    def packed(self, name: str) -> Handed:
        """Return an object that goes to another broker."""
        return self._packed(self._provisioned.objects[name])

    async def adopt(self, handed: Handed) -> None:
        """Store and run an object of another broker, unless it was stored before. Raises AlreadyExists and Refused."""

        async def change() -> None:
            if handed.name not in self._provisioned.objects:
                self._provisioned.check_new(handed.name)
                await self._unpack(handed)
                await self._provisioned.put(handed.name, described(self._model, handed.definition))
                await self._follow(handed.name)

        await self._provisioned.change(change())

    async def has(self, name: str) -> bool:
        """Return whether the object is stored here, once every earlier `adopt` has ended."""
        found: list[bool] = []

        async def look() -> None:
            found.append(name in self._provisioned.objects)

        await self._provisioned.change(look())
        return found[0]

    async def finish(self, name: str) -> None:
        """Delete an object that another broker has. Raises Refused."""

        async def change() -> None:
            await self._provisioned.put(name, None)  # first: without it, where it goes says nothing
            await self._follow(name)
            await self._provisioned.put_going(name, "")

        await self._provisioned.change(change())

    async def cancel(self, name: str) -> None:
        """Run an object here again, which no other broker has. Raises Refused."""

        async def change() -> None:
            await self._provisioned.put_going(name, "")
            await self._follow(name)

        await self._provisioned.change(change())
