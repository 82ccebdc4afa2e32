"""A machine whose brokers answer as a test says, for the rules by which operations reach them."""

import asyncio
from collections.abc import Sequence
from typing import Any

from sluicegate.gateway.observability.metrics.metric import Sample
from sluicegate.gateway.views.node.runtime import ReloadView


class ScriptedBroker:
    """A broker that runs. Subclasses answer requests in `ask`."""

    absence = ""
    is_retired = False
    left = None

    def __init__(self, name: str) -> None:
        self.name = name

    def doubt(self) -> None:
        raise AssertionError("nothing is changed")

    async def ask(self, verb: str, *arguments: Any) -> Any:
        raise AssertionError(f"nobody asks for {verb}")


class ScriptedMachine:
    """The brokers, asked in this order. Nothing is changed on it."""

    def __init__(self, brokers: Sequence[ScriptedBroker]) -> None:
        self.brokers = brokers
        self.changing = asyncio.Lock()

    async def reload(self) -> list[ReloadView]:
        raise AssertionError("nothing is reloaded")

    def samples(self) -> list[Sample]:
        return []
