"""Which broker of a machine traces a client, and what is said if none does."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from sluicegate.gateway.machine.channel import Unanswered
from sluicegate.gateway.machine.messages import FOLLOW
from sluicegate.gateway.machine.operations.clients import ClientOperations
from sluicegate.gateway.machine.operations.rules import BrokerAway
from sluicegate.gateway.observability.metrics.metric import Sample
from sluicegate.gateway.views.errors import ClientNotFound, Refused
from sluicegate.gateway.views.node.runtime import ReloadView


class Broker:
    """One that answers, when it is to trace a client, with a number or a problem."""

    name = "one"
    absence = ""
    is_retired = False
    left = None

    def __init__(self, answer: int | Exception) -> None:
        self._answer = answer

    def doubt(self) -> None:
        raise AssertionError("nothing is changed")

    async def ask(self, verb: str, *arguments: Any) -> Any:
        if verb != FOLLOW:
            return []
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


class Machine:
    """The brokers, asked in this order."""

    def __init__(self, *answers: int | Exception) -> None:
        self.brokers: Sequence[Broker] = [Broker(each) for each in answers]
        self.changing = asyncio.Lock()

    async def reload(self) -> list[ReloadView]:
        raise AssertionError("nothing is reloaded")

    def samples(self) -> list[Sample]:
        return []


MISSING = ClientNotFound("sensor")
REFUSED = Refused("HTTP is not traced")


@pytest.mark.parametrize("before", [(), (MISSING,), (REFUSED,), (Unanswered(),), (REFUSED, Unanswered(), MISSING)])
def test_a_client_is_traced_by_whichever_broker_can(before: tuple[Exception, ...]) -> None:
    """It may have connections to several, and a broker may hang."""

    async def scenario() -> None:
        machine = Machine(*before, 7)
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
            await ClientOperations(Machine(*answers), "default").trace_client("sensor", 0)
        assert type(raised.value) is kind

    asyncio.run(scenario())
