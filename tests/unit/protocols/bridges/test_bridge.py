"""A bridge over its connections: how it connects again, pauses and stops, with a remote that does as it is told."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from sluicegate.protocols.bridges.bridge import State
from support.bridges.lone_bridge import DEADLINE_S, LoneBridge


def with_a_bridge(story: Callable[[LoneBridge], Awaitable[None]], **given: Any) -> LoneBridge:
    """Tell a story with a bridge, and stop it afterwards."""

    async def told() -> LoneBridge:
        lone = LoneBridge(asyncio.get_running_loop(), **given)
        lone.bridge.start()
        try:
            await story(lone)
        finally:
            lone.remote.cut.set()
            lone.remote.ignores_close = False
            if lone.bridge.state is not State.STOPPED:
                await lone.bridge.stop()
        return lone

    return asyncio.run(told())


def is_up(lone: LoneBridge) -> Callable[[], bool]:
    return lambda: lone.bridge.state is State.UP


def test_a_pause_ends_when_its_time_is_over_whatever_the_clock_says() -> None:
    """The timer may expire in the millisecond in which it was set, as the clock counts them."""

    async def story(lone: LoneBridge) -> None:
        await lone.until(is_up(lone))
        lone.remote.ignores_close = True
        pausing = asyncio.create_task(lone.bridge.pause())
        await lone.until(lambda: bool(lone.pending()))
        lone.expire()
        await asyncio.wait_for(pausing, DEADLINE_S)
        assert lone.bridge.state is State.PAUSED

    with_a_bridge(story)


def test_a_rule_that_fails_while_the_bridge_waits_makes_one_attempt_and_not_two() -> None:
    async def story(lone: LoneBridge) -> None:
        lone.remote.failure = "no route"
        await lone.until(lambda: lone.bridge.state is State.WAITING)
        lone.bridge.rule_failed("r")
        assert len(lone.pending()) == 1

    with_a_bridge(story)


def test_an_attempt_begins_only_when_the_one_before_has_ended() -> None:
    """The connection opens while a rule fails: what it reports is of the rules before."""

    async def story(lone: LoneBridge) -> None:
        await lone.until(is_up(lone))
        lone.bridge.rule_failed("r")
        assert lone.bridge.state is not State.UP
        await lone.until(lambda: lone.bridge.failures_count == 1)
        lone.expire()
        await lone.until(is_up(lone))
        assert lone.remote.runs_count == 2
        assert lone.remote.forgets_count == 1, "what was under way is the queue's again"

    with_a_bridge(story)


def test_a_bridge_that_waits_connects_at_once_and_forgets_nothing_of_what_is_under_way() -> None:
    """Forgetting would send messages of QoS 2 under new packet identifiers: they would come twice."""

    async def story(lone: LoneBridge) -> None:
        lone.remote.failure = "no route"
        await lone.until(lambda: lone.bridge.state is State.WAITING)
        lone.remote.failure = ""
        lone.bridge.connect_now()
        assert not lone.pending()
        await lone.until(is_up(lone))
        assert lone.remote.forgets_count == 0

    with_a_bridge(story)


def test_connecting_at_once_is_nothing_to_a_bridge_that_is_up() -> None:
    async def story(lone: LoneBridge) -> None:
        await lone.until(is_up(lone))
        lone.bridge.connect_now()
        assert lone.bridge.state is State.UP
        assert lone.remote.runs_count == 1

    with_a_bridge(story)


def test_messages_are_not_released_while_they_can_go_out_on_the_old_connection() -> None:
    """A rule has failed: another consumer gets what it had taken when the connection has ended, not before."""

    async def story(lone: LoneBridge) -> None:
        await lone.until(is_up(lone))
        [before] = lone.bridge.outgoing
        lone.remote.ignores_close = True
        lone.bridge.rule_failed("r")
        await lone.until(lambda: lone.bridge.line.work().is_closed)
        assert lone.bridge.outgoing == [before]
        lone.remote.cut.set()
        await lone.until(lambda: lone.bridge.failures_count == 1)
        assert lone.bridge.outgoing != [before]
        lone.expire()
        await lone.until(is_up(lone))

    with_a_bridge(story, outgoing=[{"topic": "a/#"}])


def test_a_connection_that_does_not_end_keeps_messages_from_others_for_a_bounded_time() -> None:
    async def story(lone: LoneBridge) -> None:
        await lone.until(is_up(lone))
        [before] = lone.bridge.outgoing
        lone.remote.ignores_close = True
        lone.bridge.rule_failed("r")
        assert lone.bridge.outgoing == [before]
        lone.expire()
        assert lone.bridge.outgoing != [before]
        lone.remote.cut.set()
        await lone.until(lambda: lone.bridge.failures_count == 1)
        lone.expire()
        await lone.until(is_up(lone))

    with_a_bridge(story, outgoing=[{"topic": "a/#"}])


def test_a_pause_releases_messages_when_the_connection_has_ended() -> None:
    async def story(lone: LoneBridge) -> None:
        await lone.until(is_up(lone))
        lone.remote.ignores_close = True
        pausing = asyncio.create_task(lone.bridge.pause())
        await lone.until(lambda: bool(lone.pending()))
        assert lone.bridge.outgoing
        lone.remote.cut.set()
        await asyncio.wait_for(pausing, DEADLINE_S)
        assert not lone.bridge.outgoing

    with_a_bridge(story, outgoing=[{"topic": "a/#"}])
