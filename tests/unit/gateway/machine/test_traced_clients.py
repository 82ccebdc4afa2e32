"""Which broker of a machine traces a client, and what is said if none does."""

import asyncio
from typing import Any

import pytest

from sluicegate.gateway.machine.channel import ChannelClosed, Unanswered
from sluicegate.gateway.machine.messages import END, FOLLOW
from sluicegate.gateway.machine.operations.clients import ClientOperations
from sluicegate.gateway.machine.operations.rules import BrokerAway
from sluicegate.gateway.views.errors import ClientNotFound, Refused
from support.operations.scripted_machine import ScriptedBroker, ScriptedMachine


class Broker(ScriptedBroker):
    """One that answers, when it is to trace a client, with a number or a problem."""

    def __init__(self, answer: int | Exception) -> None:
        super().__init__("one")
        self._answer = answer

    async def ask(self, verb: str, *arguments: Any) -> Any:
        if verb != FOLLOW:
            return []
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def machine_of(*answers: int | Exception) -> ScriptedMachine:
    return ScriptedMachine([Broker(each) for each in answers])


class Counting(ScriptedBroker):
    """One whose trace has the packets 1 and 2, and then goes on without any, or ends."""

    def __init__(self, name: str, *, ends: bool) -> None:
        super().__init__(name)
        self.was_ended = False
        self._ends = ends
        self._batches = [[f"{name}1"], [f"{name}2"]]

    async def ask(self, verb: str, *arguments: Any) -> Any:
        if verb == FOLLOW:
            return 7
        if verb == END:
            self.was_ended = True
            return None
        if self._batches:
            return self._batches.pop(0)
        if not self._ends:
            await asyncio.get_running_loop().create_future()
        return []


def test_a_username_is_traced_at_every_broker_that_runs() -> None:
    async def scenario() -> None:
        away = Broker(Unanswered())
        brokers = [Counting("a", ends=True), away, Counting("b", ends=False)]
        packets = await ClientOperations(ScriptedMachine(brokers), "default").trace_username("ada", 0)
        found: list[Any] = [await anext(packets) for _ in range(4)]
        assert [each for each in found if each.startswith("a")] == ["a1", "a2"]
        assert [each for each in found if each.startswith("b")] == ["b1", "b2"]
        await packets.aclose()  # type: ignore[attr-defined]  # it is a generator
        assert [each.was_ended for each in brokers if isinstance(each, Counting)] == [True, True]

    asyncio.run(scenario())


class Dying(Counting):
    """One that ends after its first packet: whatever it is asked then fails, though it is not known to be absent."""

    async def ask(self, verb: str, *arguments: Any) -> Any:
        if verb != FOLLOW and len(self._batches) < 2:
            raise ChannelClosed(verb)
        return await super().ask(verb, *arguments)


def test_the_trace_of_a_username_goes_on_when_a_broker_dies() -> None:
    async def scenario() -> None:
        brokers = [Dying("a", ends=False), Counting("b", ends=True)]
        packets = await ClientOperations(ScriptedMachine(brokers), "default").trace_username("ada", 0)
        found: list[Any] = [each async for each in packets]
        assert sorted(found) == ["a1", "b1", "b2"]

    asyncio.run(scenario())


@pytest.mark.parametrize("read_count", [0, 1, 2, 3])
def test_no_broker_keeps_a_trace_that_nobody_reads(read_count: int) -> None:
    """The reader may leave before the first packet."""

    async def scenario() -> None:
        brokers = [Counting("a", ends=False), Counting("b", ends=False)]
        packets = await ClientOperations(ScriptedMachine(brokers), "default").trace_username("ada", 0)
        for _ in range(read_count):
            await anext(packets)
        if read_count:
            await packets.aclose()  # type: ignore[attr-defined]  # it is a generator
        else:
            del packets  # nothing closes an answer that was not begun
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert [each.was_ended for each in brokers] == [True, True]

    asyncio.run(scenario())


def test_a_username_cannot_be_traced_while_no_broker_answers() -> None:
    async def scenario() -> None:
        with pytest.raises(BrokerAway):
            await ClientOperations(machine_of(Unanswered()), "default").trace_username("ada", 0)

    asyncio.run(scenario())


MISSING = ClientNotFound("sensor")
REFUSED = Refused("HTTP is not traced")


@pytest.mark.parametrize("before", [(), (MISSING,), (REFUSED,), (Unanswered(),), (REFUSED, Unanswered(), MISSING)])
def test_a_client_is_traced_by_whichever_broker_can(before: tuple[Exception, ...]) -> None:
    """It may have connections to several, and a broker may hang."""

    async def scenario() -> None:
        machine = machine_of(*before, 7)
        packets = await ClientOperations(machine, "default").trace_client("sensor", 0)
        assert [each async for each in packets] == []

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ((MISSING, MISSING), ClientNotFound),
        ((MISSING, Unanswered()), BrokerAway),
        ((Unanswered(), MISSING), BrokerAway),
        ((REFUSED, Unanswered(), MISSING), Refused),
        ((MISSING, Unanswered(), REFUSED), Refused),
    ],
)
def test_the_most_telling_problem_is_said(answers: tuple[Exception, ...], kind: type[Exception]) -> None:
    async def scenario() -> None:
        with pytest.raises(Exception) as raised:  # noqa: PT011 - compared below
            await ClientOperations(machine_of(*answers), "default").trace_client("sensor", 0)
        assert type(raised.value) is kind

    asyncio.run(scenario())
