"""Who waits for something to change, on an event loop."""

import asyncio
from collections import deque
from contextlib import suppress


class WaitingLine:
    """Tasks that wait, first come first served. Each looks again for itself when it is woken."""

    def __init__(self) -> None:
        self._line: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        """Wait to be woken. A task that gives up passes its turn on."""
        turn = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with suppress(ValueError):  # `wake` has come upon it before us
                    self._line.remove(turn)
            else:
                self.wake(1)
            raise

    def wake(self, count: int) -> None:
        """Wake so many of those that wait longest."""
        while self._line and count > 0:
            turn = self._line.popleft()
            if not turn.done():  # else its task was cancelled, and has yet to go on
                turn.set_result(None)
                count -= 1

    def wake_all(self) -> None:
        """Wake everybody who waits now."""
        self.wake(len(self._line))
