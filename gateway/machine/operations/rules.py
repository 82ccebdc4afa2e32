"""The rules by which an operation on a machine reaches its brokers: one, each, or the one that has the object."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from sluicegate.gateway.machine.channel import ChannelClosed, Unanswered
from sluicegate.gateway.machine.messages import CALL, END, FOLLOW, NEXT, Call, Left
from sluicegate.gateway.observability.metrics.metric import Sample
from sluicegate.gateway.views.errors import NotFound, QueueNotFound, Refused
from sluicegate.gateway.views.node.runtime import ReloadView


class AskedBroker(Protocol):
    """One broker, as operations use it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def absence(self) -> str:
        """Why it cannot be asked: it `is not running`, or `does not answer`; empty while it can."""

    @property
    def is_retired(self) -> bool:
        """Whether it hands what it has to the others, and then ends: it gets nothing new."""

    @property
    def left(self) -> Left | None:
        """What a retired broker still has; None while it does not run, and of others."""

    def doubt(self) -> None:
        """It was not told of a change, or has not answered: it is started again before it is asked anything more."""

    async def ask(self, verb: str, *arguments: Any) -> Any:
        """Have it carry out a request. Raises ChannelClosed if it ends, Unanswered if it hangs; and what it raises."""


class BrokerAway(Refused):
    """The broker that was asked has ended, or does not answer: what has become of the request is not known."""

    def __init__(self, broker: str, how: str) -> None:
        super().__init__(f"broker {broker} {how}; try again in a moment")


Undo = Callable[[AskedBroker], Awaitable[object]]  # takes a change back at one broker


class Machine(Protocol):
    """All brokers of the machine."""

    @property
    def brokers(self) -> Sequence[AskedBroker]:
        """The brokers, in the order of their numbers."""

    @property
    def changing(self) -> asyncio.Lock:
        """Held by a change of what all brokers have alike."""

    async def reload(self) -> list[ReloadView]:
        """Read the configuration, and put it in force in all brokers that run. Raises Refused."""

    def samples(self) -> list[Sample]:
        """Return the samples of the supervisor itself."""


def least_used(found: Sequence[tuple[AskedBroker, Sequence[object]]]) -> AskedBroker:
    """Return the broker with the fewest objects of a kind, for a new one; the first of these. Raises Refused."""
    staying = [each for each in found if not each[0].is_retired]
    if not staying:
        raise Refused("the brokers that could have it are not running; try again in a moment")
    return min(staying, key=lambda each: len(each[1]))[0]


_END: Final = object()  # of a stream


async def merged(streams: Sequence[AsyncGenerator[Any, None]]) -> AsyncGenerator[Any, None]:
    """Yield what several streams yield, as it comes, until all have ended or the reader has enough. Then close them."""
    coming = {asyncio.ensure_future(anext(stream, _END)): stream for stream in streams}
    try:
        while coming:
            done, _ = await asyncio.wait(coming, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                stream = coming.pop(each)
                if each.result() is not _END:
                    coming[asyncio.ensure_future(anext(stream, _END))] = stream
                    yield each.result()
    finally:
        for each in coming:
            each.cancel()
        await asyncio.gather(*coming, return_exceptions=True)  # a generator that runs cannot be closed
        for stream in streams:
            await stream.aclose()


class Rules:
    """How operations on one message VPN of the machine reach its brokers."""

    def __init__(self, machine: Machine, vpn: str) -> None:
        self._machine = machine
        self._vpn = vpn

    async def _at(self, broker: AskedBroker, operation: str, *given: Any, **options: Any) -> Any:
        """Carry out an operation at one broker. Raises BrokerAway."""
        return await self._asked(broker, CALL, Call(self._vpn, operation, given, tuple(options.items())))

    @staticmethod
    async def _asked(broker: AskedBroker, verb: str, *arguments: Any) -> Any:
        """Have a broker carry out a request. Raises BrokerAway, and what it raises."""
        try:
            return await broker.ask(verb, *arguments)
        except Unanswered:
            raise BrokerAway(broker.name, "does not answer, and may carry it out later") from None
        except ChannelClosed:
            raise BrokerAway(broker.name, "has ended meanwhile") from None

    def _running(self) -> list[AskedBroker]:
        """Return the brokers that take traffic and answer. Raises Refused if there is none."""
        found = [broker for broker in self._machine.brokers if not broker.absence]
        if not found:
            raise Refused(f"{self._why_away()}; try again in a moment")
        return found

    def _every(self) -> list[AskedBroker]:
        """Return all brokers. Raises Refused unless all can be asked."""
        if away := self._why_away():
            raise Refused(f"the change has to reach every broker, and {away}; try again")
        return list(self._machine.brokers)

    def _away(self) -> list[str]:
        """Return the names of the brokers that cannot be asked."""
        return [broker.name for broker in self._machine.brokers if broker.absence]

    def _why_away(self) -> str:
        """Return which brokers cannot be asked, and why; empty if all can."""
        return ", ".join([f"{broker.name} {broker.absence}" for broker in self._machine.brokers if broker.absence])

    async def _stream(
        self, broker: AskedBroker, operation: str, *given: Any, **options: Any
    ) -> AsyncGenerator[Any, None]:
        """Return what an operation of one broker yields, as long as somebody reads it. Raises BrokerAway."""
        stream = self._yielded(broker, Call(self._vpn, operation, given, tuple(options.items())))
        await anext(stream)  # a generator that has not begun would leave it with the broker when its reader goes
        return stream

    async def _yielded(self, broker: AskedBroker, call: Call) -> AsyncGenerator[Any, None]:
        """Yield None when the broker has begun, and then what it yields."""
        number: int = await self._asked(broker, FOLLOW, call)
        try:
            yield None
            while items := await broker.ask(NEXT, number):
                for item in items:
                    yield item
        except ChannelClosed:
            return  # the broker has ended or hangs, and what it yields has ended with it
        finally:
            if not broker.absence:
                with suppress(ChannelClosed):  # it may be about to be absent
                    await broker.ask(END, number)

    async def _streams(self, operation: str, *given: Any) -> AsyncIterator[Any]:
        """Return what an operation of all brokers that run yields, as it comes. One that ends meanwhile is left out."""
        streams: list[AsyncGenerator[Any, None]] = []
        away: BrokerAway | None = None
        for broker in self._running():
            try:
                streams.append(await self._stream(broker, operation, *given))
            except BrokerAway as error:
                away = error
        if away is not None and not streams:
            raise away
        return merged(streams)

    async def _first(self, operation: str, *given: Any, **options: Any) -> Any:
        """Return what any of the brokers can answer."""
        away: BrokerAway | None = None
        for broker in self._running():
            try:
                return await self._at(broker, operation, *given, **options)
            except BrokerAway as error:
                away = error
        assert away is not None, "a broker was asked"
        raise away

    async def _at_any(self, operation: str, *given: Any, **options: Any) -> Any:
        """Carry out at one broker a change that it takes to where it belongs, once."""
        return await self._at(self._running()[0], operation, *given, **options)

    async def _all(self, operation: str, *given: Any, **options: Any) -> list[tuple[AskedBroker, Any]]:
        """Carry out at all brokers that run; one that ends or hangs meanwhile is left out. Raises Refused."""

        async def at(broker: AskedBroker) -> tuple[AskedBroker, Any] | None:
            try:
                return broker, await self._at(broker, operation, *given, **options)
            except BrokerAway:
                return None

        answers = await asyncio.gather(*[at(broker) for broker in self._running()])
        found = [each for each in answers if each is not None]
        if not found:
            raise Refused("no broker of this machine has answered; try again in a moment")
        return found

    async def _joined(self, operation: str, *given: Any, **options: Any) -> list[Any]:
        """Return the lists of all brokers, one behind the other."""
        return [each for _, answer in await self._all(operation, *given, **options) for each in answer]

    async def _where_it_is(self, operation: str, *given: Any, **options: Any) -> tuple[AskedBroker, Any]:
        """Carry out at the broker that has the object of the operation. Raises NotFound if none has it."""
        missing: NotFound | None = None
        away: BrokerAway | None = None
        for broker in self._running():
            try:
                return broker, await self._at(broker, operation, *given, **options)
            except NotFound as error:
                if given and error.name != given[0]:
                    raise  # it has the object, and not something else that the request names
                missing = missing or error
            except BrokerAway as error:
                away = error
        if away is not None:
            raise away
        assert missing is not None, "a broker has answered"
        if others := self._why_away():
            raise Refused(f"{missing}; {others}")
        raise missing

    async def _at_home(self, operation: str, *given: Any, **options: Any) -> Any:
        _, answer = await self._where_it_is(operation, *given, **options)
        return answer

    async def _here_or_anywhere(self, operation: str, *given: Any, **options: Any) -> tuple[str, Any]:
        """Carry out at the broker that has a queue; return its name. A queue of another machine: by its link."""
        try:
            broker, answer = await self._where_it_is(f"{operation}_here", *given, **options)
        except QueueNotFound:
            return "", await self._at_any(operation, *given, **options)
        return broker.name, answer

    async def _everywhere(self, operation: str, *given: Any, undo: Undo | None = None, **options: Any) -> Any:
        """Carry out a change at all brokers; return the answer of the first, which checks it before the others.

        One that ends or hangs meanwhile has it when it comes back: it takes over what the others have. If one refuses
        what others have taken, those undo it, where that is possible. Raises Refused.
        """
        async with self._machine.changing:
            return await self._changed(operation, *given, undo=undo, **options)

    async def _changed(self, operation: str, *given: Any, undo: Undo | None, **options: Any) -> Any:
        first, *others = self._every()
        answer = await self._at_or_doubt(first, operation, *given, **options)
        done = [first]
        for broker in others:
            try:
                await self._at_or_doubt(broker, operation, *given, **options)
            except BrokerAway:
                continue
            except Exception as error:
                reason = str(error) or type(error).__name__
                if undo is None:
                    names = ", ".join(each.name for each in done)
                    text = f"broker {broker.name} has not taken it over, {names} has: {reason}; repeat it"
                    raise Refused(text) from error
                for each in done:
                    await undo(each)
                raise Refused(f"broker {broker.name} has refused it, so nothing is changed: {reason}") from error
            done.append(broker)
        return answer

    async def _at_or_doubt(self, broker: AskedBroker, operation: str, *given: Any, **options: Any) -> Any:
        """Carry out a change at one broker; it is made equal to the others if it does not answer. Raises BrokerAway."""
        try:
            if broker.absence:
                raise BrokerAway(broker.name, broker.absence)
            return await self._at(broker, operation, *given, **options)
        except BrokerAway:
            broker.doubt()
            raise
