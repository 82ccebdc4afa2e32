"""Retained messages over one link: those with a time that is far ahead get the present one, whatever becomes of a link.

What decides what to send is `messaging.network.retained.exchange`.
"""

import pytest

from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.messaging.network.retained.exchange import ENTRIES_MAX
from sluicegate.messaging.network.retained.versions import AHEAD_MS_MAX, Version
from sluicegate.messaging.routing.local_interest import ExportRules
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.protocols.network.retained import frames
from sluicegate.protocols.network.retained.link import RetainedLink
from support.cores.lone_actors import Idle, recorder, spawned
from support.cores.messages import batch_of
from support.network.full_socket import FullSocket
from support.network.lone_wire import lone_wire

MESSAGES = 2 * ENTRIES_MAX + 1  # three turns' work
FRAME_BYTES_MAX = 1024 * 1024


class Broker:
    """A broker whose clock was two hours ahead when its clients retained messages."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.now_ms = runtime.clock.wall_ms()
        self.space = TopicSpace()
        self.space.retained.clock.broker = "a"
        ahead_ms = self.now_ms + 2 * AHEAD_MS_MAX
        for number in range(MESSAGES):
            topic = f"t/{number}"
            self.space.retained.restore(topic, Version(ahead_ms, number, "a"), batch_of([b"on"], topic=topic))

    def link(self, neighbor: str) -> RetainedLink:
        """Return a link that is connected to a neighbor whose clock is right."""
        cell = spawned(self._runtime, Idle)
        link = RetainedLink(
            cell,
            neighbor,
            "default",
            space=self.space,
            spool=recorder(self._runtime, []).inbox,
            rules=ExportRules(),
            events=Events(self._runtime.clock),
        )
        link.connected(lone_wire(cell, FullSocket()), 1, FRAME_BYTES_MAX, lambda: None)
        link.received(frames.digests_body([], self.now_ms))
        return link

    def ahead_count(self) -> int:
        return len(self.space.retained.topics_after(self.now_ms + AHEAD_MS_MAX))


@pytest.fixture
def broker(runtime: Runtime) -> Broker:
    return Broker(runtime)


def test_some_messages_are_stamped_anew_in_each_turn(broker: Broker) -> None:
    link = broker.link("b")
    left = []
    while broker.ahead_count():
        assert not link.is_idle
        assert link.flush()
        left.append(broker.ahead_count())
    assert left == [ENTRIES_MAX + 1, 1, 0]
    assert broker.space.retained.version_of("t/0").is_after(Version(broker.now_ms, 0, "a"))


@pytest.mark.parametrize("other", ["b", "c"])
def test_another_link_goes_on_where_the_first_was_removed(broker: Broker, other: str) -> None:
    """As a link does whose settings were changed, or one to another neighbor."""
    first = broker.link("b")
    first.flush()
    first.stop()
    second = broker.link(other)
    while broker.ahead_count():
        assert second.flush()


def test_two_links_share_the_work(broker: Broker) -> None:
    one, other = broker.link("b"), broker.link("c")
    one.flush()
    other.flush()
    assert broker.ahead_count() == 1
    one.stop()
    other.flush()
    assert broker.ahead_count() == 0
