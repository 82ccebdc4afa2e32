"""Several brokers of one machine for tests, as their supervisor would start them, but in the test's own process."""

from pathlib import Path
from types import TracebackType
from typing import Self

from sluicegate.gateway.machine.broker import holdings_of
from sluicegate.gateway.node.environment import Environment
from sluicegate.gateway.node.siblings import Holdings, Siblings
from sluicegate.messaging.clients.homes import home_of
from sluicegate.protocols.transport.passing.passage import make_pair
from support.broker.linked_brokers import LinkedBroker, until


class SiblingBroker(LinkedBroker):
    """One of them. The wire is not judged: a client may begin at one broker, and go on at another."""

    def __init__(
        self, folder: Path, number: int, names: tuple[str, ...], count: int, settings: tuple[str, ...]
    ) -> None:
        super().__init__(folder, (f"node.name={names[number - 1]}", *settings))
        self.number = number
        self._names = names
        self._count = count  # those behind are retired
        self.siblings = Siblings(number, names, count)

    def environment(self) -> Environment:
        self.siblings = Siblings(self.number, self._names, self._count)
        return Environment(siblings=self.siblings)

    async def stop(self) -> None:
        await super().stop()
        self.siblings.close()

    def clients(self) -> set[str]:
        """Return the identifiers of the MQTT clients that it serves."""
        sessions = [each.session for each in self.node.mqtt.open_connections()]
        return {session.client_id for session in sessions if session is not None}


class MachineBrokers:
    """Brokers 1 and 2, or more, between start and stop, linked to each other."""

    def __init__(self, folder: Path, *settings: str, count: int = 2, brokers: int = 2) -> None:
        """`count` of them are not retired."""
        names = tuple([f"machine-{number}" for number in range(1, brokers + 1)])
        self.all = [
            SiblingBroker(folder / name, number, names, count, settings) for number, name in enumerate(names, 1)
        ]
        self._holdings: dict[int, Holdings] = {}

    def __getitem__(self, number: int) -> SiblingBroker:
        return self.all[number - 1]

    async def start(self, *brokers: SiblingBroker) -> None:
        """Start brokers, while the others run."""
        holdings = {}
        for broker in brokers:
            node = broker.make_node()
            holdings[broker.number] = holdings_of(node.services.recovered.vpns, broker.siblings)
        for broker in self.all:
            if broker in brokers:
                broker.siblings.begin({**self._holdings, **holdings})
            else:
                for number, held in holdings.items():
                    broker.siblings.learn(number, held)
        self._holdings |= holdings
        for broker in brokers:
            for other in self.all:
                if other.number < broker.number or other not in brokers:
                    ours, theirs = make_pair()
                    broker.siblings.met(other.number, ours)
                    other.siblings.met(broker.number, theirs)
        for broker in brokers:
            await broker.node.start()
        await until(
            lambda: all(each.is_linked_to(name) for each in self.all for name in each.siblings.others), "a link"
        )

    async def __aenter__(self) -> Self:
        await self.start(*self.all)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for broker in self.all:
            await broker.__aexit__(kind, error, trace)


def client_at(home: int) -> str:
    """Return a client identifier that belongs to one of two brokers."""
    return next(name for name in map("client-{}".format, range(100)) if home_of(name, 2) == home)


def second_retired(folder: Path) -> MachineBrokers:
    """Return the brokers of a folder, of which the second is to go."""
    return MachineBrokers(folder, count=1)
