"""SIGHUP: the configuration is read again and taken over, one time after the other.

However often it comes while one is under way, there is one more behind that: a file is read no more often than it can
be taken over, and who sends the signal a thousand times keeps the gateway from nothing else.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, final

from sluicegate.gateway.config.model import Config

if TYPE_CHECKING:
    from sluicegate.gateway.node.node import Node

log = logging.getLogger("sluicegate.node")


@final
class Reloading:
    """The reloads of one node, until it stops: then nothing is taken over any more."""

    def __init__(self, node: "Node", read: Callable[[], Config]) -> None:
        self._node = node
        self._read = read
        self._asked = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._go_on())

    def ask(self) -> None:
        """Have the configuration read again, now or when what is under way is over."""
        self._asked.set()

    def end(self) -> None:
        """Leave what is under way as it is, and hear nobody any more."""
        self._task.cancel()

    async def _go_on(self) -> None:
        while True:
            await self._asked.wait()
            self._asked.clear()
            try:
                await self._node.reload(self._read())
            except Exception as error:  # a wrong file must not end a running node
                log.error("the configuration was not taken over: %s", error)
