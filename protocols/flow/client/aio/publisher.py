"""Publishers on asyncio."""

import asyncio
from collections.abc import Iterable
from types import TracebackType
from typing import Final

from sluicegate.protocols.flow.client.aio.base import ClientBase, WaitQueue
from sluicegate.protocols.flow.client.aio.owner import FlowOwner
from sluicegate.protocols.flow.client.errors import PublishRefused
from sluicegate.protocols.flow.client.messages import Message
from sluicegate.protocols.flow.client.session.outbox import Outbox, Outgoing
from sluicegate.protocols.flow.codec.limits import NAME_BYTES_MAX, WINDOW_MAX

BYTES_MAX_DEFAULT: Final = 64 * 1024 * 1024
NEXT: Final = 0  # the sequence behind the last one


class Publisher(FlowOwner):
    """Publishes guaranteed messages. Made by `Client.publisher`, open within `async with`.

    Its messages are sent, and stored, in the order in which they were given to it. While there is no connection it
    keeps them, as many as its window has room for, and sends them when there is one again.
    """

    def __init__(self, client: ClientBase, name: str, *, window: int, window_bytes: int) -> None:
        """Raises ValueError for limits that make no sense."""
        if not 0 < window <= WINDOW_MAX:
            raise ValueError(f"window={window}; it is 1 to {WINDOW_MAX} messages")
        if window_bytes <= 0:
            raise ValueError("window_bytes is more than 0")
        if len(name.encode("utf-8")) > NAME_BYTES_MAX:
            raise ValueError(f"the name of a publisher has at most {NAME_BYTES_MAX} bytes")
        self._outbox = Outbox(name, window=window, bytes_max=window_bytes)
        super().__init__(client, self._outbox)
        self._room = WaitQueue()
        self._turn = asyncio.Lock()  # of the one that waits for room; it lets others in as they came
        self._waiting_count = 0  # calls that wait for room, or for their turn
        self._awaited: dict[int, asyncio.Future[None]] = {}  # by sequence

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it; when the block ended well, wait before that until everything is answered."""
        try:
            if error is None:
                await self.flush()
        finally:
            await self.close()

    @property
    def name(self) -> str:
        """By which the gateway knows it again; empty: it does not."""
        return self._outbox.name

    @property
    def stored_through(self) -> int:
        """Up to where the gateway had answered everything when the publisher was last opened.

        A program that numbers its messages itself continues after it when it restarts.
        """
        return self._outbox.stored_through

    @property
    def stored_highest(self) -> int:
        """The highest sequence that the gateway has stored, as far as it is known here.

        A program that knows of a higher one uses a name that the gateway has forgotten.
        """
        return self._outbox.stored_highest

    @property
    def incarnation(self) -> int:
        """Of the gateway's spool, as of that moment: sequences of another one are another count.

        A program that keeps its count keeps this beside it, and goes by `stored_through` alone when it has changed.
        """
        return self._outbox.incarnation

    @property
    def unanswered_count(self) -> int:
        """How many messages wait for their answer."""
        return self._outbox.unanswered_count

    def check(self, message: Message) -> None:
        """Raise MessageTooLarge if the gateway takes no message of this size. `publish` and `send` do this as well."""
        self._outbox.check_size(message)

    async def publish(self, message: Message, *, sequence: int = NEXT) -> int:
        """Publish, and return the message's sequence once it is stored.

        `sequence` may be given to named publishers, by a program that numbers its messages itself: one that was stored
        before is answered and goes nowhere. Raises PublishRefused; MessageTooLarge and ValueError for what cannot be
        sent; FlowClientError when the publisher has ended. A cancelled call has published nevertheless.
        """
        outgoing = await self._put(message, sequence, is_awaited=True)
        answer = self._awaited[outgoing.sequence] = asyncio.get_running_loop().create_future()
        await answer
        refusal = outgoing.refusal
        if refusal is not None:
            raise PublishRefused(refusal.code, refusal.text, [outgoing.sequence], 1)
        return outgoing.sequence

    async def send(self, message: Message, *, sequence: int = NEXT) -> int:
        """Publish, and return as soon as there is room in the window; `flush` reports the outcome.

        Raises as `publish` does, but for PublishRefused.
        """
        return (await self._put(message, sequence, is_awaited=False)).sequence

    async def send_all(self, messages: Iterable[Message]) -> None:
        """Send messages in order, each as `send` does."""
        for message in messages:
            await self._put(message, NEXT, is_awaited=False)

    async def flush(self) -> None:
        """Wait until everything that was sent is answered. Raises PublishRefused when any of it was refused."""
        outbox = self._outbox
        while outbox.unanswered_count:
            outbox.check_running()
            await self._changed.wait()
        refusals, count = outbox.take_refusals()
        if count:
            sequences = [each.first for each in refusals]
            raise PublishRefused(refusals[0].code, refusals[0].text, sequences, count)

    async def _put(self, message: Message, sequence: int, *, is_awaited: bool) -> Outgoing:
        outbox = self._outbox
        if self._waiting_count or not outbox.has_room():
            await self._wait_for_room()
        outgoing = outbox.put(message, sequence, is_awaited=is_awaited)
        self._client.ask_flush()
        return outgoing

    async def _wait_for_room(self) -> None:
        """Wait behind those who came before: a message that is small must not overtake one that is large."""
        outbox = self._outbox
        self._waiting_count += 1
        try:
            async with self._turn:
                while not outbox.has_room() and outbox.error is None:
                    await self._room.wait()
        finally:
            self._waiting_count -= 1

    def on_news(self) -> None:
        """Wake the tasks that wait for answers."""
        outbox = self._outbox
        answered, outbox.answered = outbox.answered, []
        for outgoing in answered:
            answer = self._awaited.pop(outgoing.sequence, None)
            if answer is not None and not answer.done():
                answer.set_result(None)
        if outbox.error is not None:
            for answer in self._awaited.values():
                if not answer.done():
                    answer.set_exception(outbox.error)
            self._awaited.clear()
            self._room.wake_all()
        elif outbox.has_room():
            self._room.wake(outbox.window - outbox.unanswered_count)
        super().on_news()
