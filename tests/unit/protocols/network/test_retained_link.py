"""Retained messages over one link: those with a time that is far ahead get the present one, whatever becomes of a link.

What decides what to send is `messaging.network.retained.exchange`.
"""

import pytest

from sluicegate.actors.messages.spool import WriteTables
from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.messaging.network.retained.exchange import ENTRIES_MAX, RetainedEntry
from sluicegate.messaging.network.retained.versions import AHEAD_MS_MAX, Version
from sluicegate.messaging.routing.local_interest import ExportRules
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.protocols.flow.codec.frames.link import LinkRetained
from sluicegate.protocols.flow.links import LinkWire
from sluicegate.protocols.network.retained import frames
from sluicegate.protocols.network.retained.frames import retained_part
from sluicegate.protocols.network.retained.link import RetainedLink
from sluicegate.storage.records.retained import encode_retained
from support.cores.lone_actors import Idle, recorder, spawned, turn
from support.cores.messages import batch_of
from support.network.frame_socket import FrameSocket
from support.network.lone_wire import lone_wire

MESSAGES = 2 * ENTRIES_MAX + 1  # three turns' work
FRAME_BYTES_MAX = 1024 * 1024


class Broker:
    """A broker with retained messages of its clients."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.now_ms = runtime.clock.wall_ms()
        self.space = TopicSpace()
        self.space.retained.clock.broker = "a"
        self.wires: dict[str, tuple[LinkWire, FrameSocket]] = {}  # of links, by neighbor
        self.posted: list[object] = []  # to the store

    def retains(self, count: int, *, ahead_ms: int = 0) -> None:
        """Retain messages on the topics t/0, t/1 and so on."""
        for number in range(count):
            topic = f"t/{number}"
            version = Version(self.now_ms + ahead_ms, number, "a")
            self.space.retained.restore(topic, version, batch_of([b"on"], topic=topic))

    def link(self, neighbor: str, frame_bytes_max: int = FRAME_BYTES_MAX) -> RetainedLink:
        """Return a link that is connected to a neighbor whose clock is right, and which has nothing."""
        cell = spawned(self._runtime, Idle)
        link = RetainedLink(
            cell,
            neighbor,
            "default",
            space=self.space,
            spool=recorder(self._runtime, self.posted).inbox,
            rules=ExportRules(),
            events=Events(self._runtime.clock),
        )
        socket = FrameSocket()
        wire = lone_wire(cell, socket)
        self.wires[neighbor] = (wire, socket)
        link.connected(wire, 1, frame_bytes_max, lambda: None)
        link.received(frames.digests_body([], self.now_ms))
        return link

    def ahead_count(self) -> int:
        return len(self.space.retained.topics_after(self.now_ms + AHEAD_MS_MAX))

    def lists(self, neighbor: str) -> list[list[str]]:
        """Return the topics in each list that was sent to a neighbor."""
        wire, socket = self.wires[neighbor]
        wire.flush()
        parts = [retained_part(each.body) for each in socket.take() if isinstance(each, LinkRetained)]
        return [[entry.topic for entry in part.entries] for part in parts if part.kind == frames.LIST]


@pytest.fixture
def broker(runtime: Runtime) -> Broker:
    """Return a broker whose clock was two hours ahead when its clients retained messages."""
    broker = Broker(runtime)
    broker.retains(MESSAGES, ahead_ms=2 * AHEAD_MS_MAX)
    return broker


def test_lists_are_cut_where_a_frame_of_the_neighbor_ends(runtime: Runtime) -> None:
    """Each entry has 18 bytes, and 4 here for the names; a frame keeps 96 free."""
    broker = Broker(runtime)
    broker.retains(10)
    long = "long/" + 200 * "x"
    broker.space.retained.restore(long, Version(broker.now_ms, 0, "a"), batch_of([b"on"], topic=long))
    link = broker.link("b", frame_bytes_max=96 + 100)
    link.flush()
    lists = broker.lists("b")
    assert [len(each) for each in lists] == [4, 4, 2]
    assert {topic for each in lists for topic in each} == {f"t/{number}" for number in range(10)}
    assert link.rejected_counts()["too_large"] == 1


def test_a_list_has_no_more_topics_than_the_neighbor_takes_in_one(runtime: Runtime) -> None:
    broker = Broker(runtime)
    broker.retains(2 * ENTRIES_MAX + 1)
    broker.link("b").flush()
    assert [len(each) for each in broker.lists("b")] == [ENTRIES_MAX, ENTRIES_MAX, 1]


def test_what_is_written_behind_a_connect_is_later_than_what_the_neighbor_has(runtime: Runtime) -> None:
    """The neighbor's clock is ahead, and it says nothing of a deletion for which no message is here."""
    broker = Broker(runtime)
    link = broker.link("b")
    deletion = Version(broker.now_ms + 5_000, 1, "b")
    link.received(frames.digests_body([], deletion.wall_ms))
    assert broker.space.retained.clock.next(broker.now_ms).is_after(deletion)

    link.received(frames.digests_body([], broker.now_ms + AHEAD_MS_MAX + 60_000))
    assert not broker.space.retained.clock.is_ahead(broker.now_ms)  # a clock that is wrong is not followed


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_deletion_is_stored_before_what_outdates_it_and_is_not_stored(runtime: Runtime, is_stored: bool) -> None:
    """The store may have the message that was deleted, and lose what is later in a crash."""
    broker = Broker(runtime)
    link = broker.link("b")
    broker.retains(1)
    stored = broker.space.retained.stored
    assert stored is not None
    if not is_stored:
        stored.refused("t/0")
    deletion = RetainedEntry("t/0", Version(broker.now_ms - 1_000, 0, "b"), True)
    link.received(frames.changes_body(1, broker.now_ms, [frames.change_bytes(deletion, b"")]))
    turn(runtime)

    rows = [write for each in broker.posted if isinstance(each, WriteTables) for write in each.writes]
    assert [write.key for write in rows] == ([] if is_stored else [b"t/0", b"t/0"])
    if rows:
        assert rows[0].value == encode_retained(deletion.version, None)
        assert rows[1].value is not None
        assert len(rows[1].value) > len(rows[0].value)
    assert broker.space.retained.get("t/0") is not None


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
