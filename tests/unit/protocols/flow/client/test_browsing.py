"""The core of a browser over a pretend gateway: what it passes over when it comes back, and its credit."""

from hypothesis import given
from hypothesis import strategies as st

from sluicegate.protocols.flow.client.session.browse_flow import BrowseFlow
from sluicegate.protocols.flow.codec.frame import CREDIT, cut_frame
from sluicegate.protocols.flow.codec.frames.deliver import Delivered, DeliverHead, read_deliver, write_deliver
from sluicegate.protocols.flow.codec.frames.flow import Bind, Bound, read_flow_frame
from sluicegate.protocols.flow.codec.frames.settle import Credit, read_settle_frame
from sluicegate.protocols.flow.codec.limits import FRAME_BYTES_MAX
from sluicegate.protocols.flow.engine.engine import FlowEngine

SPOOL = 0x5B001
RESTORED = 0x5B002
WINDOW = 6


def message(delivery_id: int, partition: int, sequence: int) -> Delivered:
    head = DeliverHead(
        1, partition, 0, delivery_count=0, redelivered=False, was_direct=False, first_of_group=False, received_ms=0
    )
    data = write_deliver(
        head,
        delivery_id,
        sequence,
        topic=b"t",
        headers=None,
        payload=b"%d/%d" % (partition, sequence),
        wall_ms=0,
    )
    frame = cut_frame(data, 0, len(data), FRAME_BYTES_MAX)
    assert frame is not None
    return read_deliver(frame, data, 0)


class PlainQueue:
    """Shows its messages in order, as far as credit goes, and from the oldest on whenever it is bound."""

    def __init__(self, browser: BrowseFlow) -> None:
        self.browser = browser
        self.incarnation = SPOOL
        self.messages: list[tuple[int, int]] = []  # partition and sequence
        self.shown_count = 0
        self.credit = 0

    def binds(self) -> None:
        data = self.browser.request(1, 1)
        frame = cut_frame(data, 0, len(data), FRAME_BYTES_MAX)
        assert frame is not None
        asked = read_flow_frame(frame, data)
        assert isinstance(asked, Bind)
        assert asked.browses
        self.shown_count, self.credit = 0, asked.delivery_id_max
        self.browser.opened(Bound(1, 1, 0, self.incarnation))

    def shows(self) -> None:
        """Show what there is credit for."""
        shown = self.messages[self.shown_count : self.credit]
        if shown:
            self.browser.delivered([message(self.shown_count + 1 + n, *place) for n, place in enumerate(shown)])
            self.shown_count += len(shown)
        assert self.browser.waiting_count <= WINDOW

    def hears(self) -> None:
        """Take credit, if the browser has any to give."""
        engine = FlowEngine(
            is_gateway=True, frame_bytes_max=FRAME_BYTES_MAX, connect_timeout_ms=1, keep_alive_ms=1_000, now_ms=0
        )
        self.browser.pump(engine)
        data = b"".join(engine.take())
        if data:
            frame = cut_frame(data, 0, len(data), FRAME_BYTES_MAX)
            assert frame is not None
            assert frame.kind == CREDIT
            said = read_settle_frame(frame, data)
            assert isinstance(said, Credit)
            assert said.delivery_id_max > self.credit
            self.credit = said.delivery_id_max

    def taken(self, count: int) -> list[tuple[int, int]]:
        return [(each.partition, each.message_id) for each in self.browser.take(count)]


@given(steps=st.lists(st.sampled_from(["publish 0", "publish 1", "show", "take", "hear", "break"]), max_size=80))
def test_each_message_is_seen_once_in_order_whatever_breaks(steps: list[str]) -> None:
    """Goal: nothing is left out or seen twice. Method: any order of messages, looks and lost connections."""
    queue = PlainQueue(BrowseFlow("q", window=WINDOW, selector=""))
    queue.binds()
    sequences, seen = [0, 0], list[tuple[int, int]]()
    for step in steps:
        if step.startswith("publish"):
            partition = int(step[-1])
            sequences[partition] += 1
            queue.messages.append((partition, sequences[partition]))
        elif step == "show":
            queue.shows()
        elif step == "take":
            seen += queue.taken(2)
        elif step == "hear":
            queue.hears()
        else:
            queue.browser.interrupted("it broke")
            queue.binds()
    for _ in range(len(queue.messages) + 1):  # each round moves something on
        queue.shows()
        seen += queue.taken(WINDOW)
        queue.hears()
    assert seen == queue.messages


def test_a_partition_that_begins_anew_is_shown() -> None:
    """Queues, changing partition counts: a number that is given out again is another partition, which counts from 1."""
    queue = PlainQueue(BrowseFlow("q", window=WINDOW, selector=""))
    queue.messages = [(1, 7), (1, 8), (1, 1)]
    queue.binds()
    queue.shows()
    assert queue.taken(9) == queue.messages


def test_in_another_spool_everything_is_new() -> None:
    """Flow: consuming. A sequence means something within one incarnation."""
    queue = PlainQueue(BrowseFlow("q", window=WINDOW, selector=""))
    queue.messages = [(0, 1), (0, 2)]
    queue.binds()
    queue.shows()
    assert queue.taken(9) == [(0, 1), (0, 2)]
    queue.browser.interrupted("it broke")
    queue.incarnation = RESTORED
    queue.binds()
    queue.shows()
    assert queue.taken(9) == [(0, 1), (0, 2)]
