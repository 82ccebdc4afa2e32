"""All brokers agree on what is retained: over breaks, restarts, and whatever order parts arrive in, also twice."""

from itertools import permutations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sluicegate.messaging.network.digests import BUCKETS, bucket_of
from sluicegate.messaging.network.retained.exchange import (
    RetainedEntry,
    RetainedReceiver,
    RetainedSender,
    StoredRetained,
    entry_hash,
    topic_hash,
)
from sluicegate.messaging.network.retained.tombstones import KEPT_MS, Tombstones
from sluicegate.messaging.network.retained.versions import AHEAD_MS_MAX, COUNTER_MAX, NO_VERSION, Version, VersionClock
from support.thorough import examples

NAMES = ("a", "b", "c")
TOPICS = [f"plant/{number}" for number in range(6)]

Part = tuple[str, list[int] | list[RetainedEntry] | list[str]]  # its kind, and what it has


def listed(sender: RetainedSender) -> list[RetainedEntry]:
    """Return, once, what a neighbor may lack."""
    found: list[RetainedEntry] = []
    while (entry := sender.next_listed()) is not None:
        sender.listed()
        found.append(entry)
    return found


class Broker:
    """A broker without bytes: what is retained in memory and in its store, and the exchange with its neighbors."""

    def __init__(self, name: str, rows: dict[str, RetainedEntry]) -> None:
        self.name = name
        self.rows = rows
        self.memory: dict[str, Version] = {}
        self.unstored: dict[int, RetainedEntry] = {}  # by the number of the group of rows
        self.clock = VersionClock(name)
        self.tombstones = Tombstones()
        for topic, version, is_deleted in rows.values():
            self.clock.saw(version)
            if is_deleted:
                self.tombstones.add(topic, version)
            else:
                self.memory[topic] = version
        self.stored = StoredRetained(name, self.tombstones)
        for topic, version in self.memory.items():
            self.stored.begin(topic, version)
        self.receiver = RetainedReceiver(self.clock)
        self.senders = {other: RetainedSender(other, self.stored, None) for other in NAMES if other != name}
        self.stored.senders.extend(self.senders.values())
        for other in self.senders:
            self.tombstones.begin(other)

    def known(self, topic: str) -> Version:
        return self.memory.get(topic) or self.tombstones.get(topic) or NO_VERSION

    def change(self, entry: RetainedEntry, known_by: str = "") -> None:
        assert entry.version.is_after(self.known(entry.topic)), "memory changes only forward"
        if entry.is_deleted:
            self.memory.pop(entry.topic, None)
            self.tombstones.add(entry.topic, entry.version, known_by)
        else:
            self.memory[entry.topic] = entry.version
            self.tombstones.discard(entry.topic)
        self.unstored[self.stored.posted([entry.topic])] = entry

    def store(self) -> None:
        for number, entry in self.unstored.items():
            self.rows[entry.topic] = entry
            self.stored.stored(entry)
            self.stored.done(number, [entry.topic])
        self.unstored.clear()

    def digests(self) -> list[int]:
        """Return what a neighbor is told after a connect."""
        return next(iter(self.senders.values())).digests_to_tell() or [0] * BUCKETS

    def arrived(self, sender: str, part: Part, wall_ms: int) -> list[Part]:
        """Handle a part; return the answers."""
        kind, items = part
        if kind == "digests":
            self.senders[sender].told([each for each in items if isinstance(each, int)])
        elif kind == "wanted":
            self.senders[sender].wanted([each for each in items if isinstance(each, str)])
        wanted: list[str] = []
        for entry in items:
            if isinstance(entry, RetainedEntry):
                known = self.known(entry.topic)
                if self.receiver.takes(entry, known, wall_ms, is_listed=kind == "list"):
                    if kind == "list" and not entry.is_deleted:
                        wanted.append(entry.topic)
                    else:
                        self.change(entry, sender)
        return [("wanted", wanted)] if wanted else []

    def parts(self, neighbor: str) -> list[Part]:
        """Return what is to be sent to a neighbor now."""
        sender = self.senders[neighbor]
        found: list[Part] = []
        if entries := listed(sender):
            sender.sent(entries)
            found.append(("list", entries))
        while (entry := sender.next_changed()) is not None:
            sender.took(entry.topic)
            if entry.is_deleted or self.memory.get(entry.topic) == entry.version:
                sender.sent([entry])
                found.append(("changes", [entry]))
        return found


class Network(RuleBasedStateMachine):
    """Three brokers, and connections between each two with parts on their way."""

    def __init__(self) -> None:
        super().__init__()
        self.wall_ms = 1_700_000_000_000
        self.brokers = {name: Broker(name, {}) for name in NAMES}
        self.wires: dict[tuple[str, str], list[Part]] = {}

    @rule(name=st.sampled_from(NAMES), topic=st.sampled_from(TOPICS), deletes=st.booleans(), later=st.integers(-5, 5))
    def a_client_changes(self, name: str, topic: str, deletes: bool, later: int) -> None:
        broker = self.brokers[name]
        broker.change(RetainedEntry(topic, broker.clock.next(self.wall_ms + later), deletes))

    @rule(name=st.sampled_from(NAMES))
    def the_store_commits(self, name: str) -> None:
        self.brokers[name].store()

    @rule(pair=st.sampled_from(list(permutations(NAMES, 2))), at=st.integers(0, 20), twice=st.booleans())
    def a_part_arrives(self, pair: tuple[str, str], at: int, twice: bool) -> None:
        sender, receiver = pair
        if pair not in self.wires:
            return
        wire = self.wires[pair]
        wire += self.brokers[sender].parts(receiver)
        if wire:
            part = wire[at % len(wire)] if twice else wire.pop(at % len(wire))
            self.wires[receiver, sender] += self.brokers[receiver].arrived(sender, part, self.wall_ms)
        if not wire:  # everything has arrived: what is stored is acknowledged
            self.brokers[receiver].store()
            own = self.brokers[sender].senders[receiver]
            own.acknowledged(own.sent_number)

    @rule(pair=st.sampled_from(list(permutations(NAMES, 2))))
    def a_link_comes_up(self, pair: tuple[str, str]) -> None:
        if pair not in self.wires:
            for sender, receiver in (pair, pair[::-1]):
                self.brokers[sender].senders[receiver].connected()
                self.wires[sender, receiver] = [("digests", self.brokers[sender].digests())]

    @rule(pair=st.sampled_from(list(permutations(NAMES, 2))))
    def a_link_breaks(self, pair: tuple[str, str]) -> None:
        for sender, receiver in (pair, pair[::-1]):
            self.brokers[sender].senders[receiver].disconnected()
            self.wires.pop((sender, receiver), None)

    @rule(name=st.sampled_from(NAMES))
    def a_broker_restarts(self, name: str) -> None:
        for other in NAMES:
            if other != name:
                self.a_link_breaks((name, other))
        self.brokers[name] = Broker(name, self.brokers[name].rows)

    @rule(name=st.sampled_from(NAMES))
    def deletions_are_forgotten(self, name: str) -> None:
        broker = self.brokers[name]
        for topic in broker.tombstones.take_finished(self.wall_ms, 1000):
            for number in [number for number, each in broker.unstored.items() if each.topic == topic]:
                del broker.unstored[number]
                broker.stored.done(number, [topic])
            broker.rows.pop(topic, None)

    @invariant()
    def everything_is_consistent(self) -> None:
        for broker in self.brokers.values():
            broker.stored.check()
            broker.tombstones.check()

    def teardown(self) -> None:
        for _ in range(4):
            for pair in permutations(NAMES, 2):
                self.a_link_breaks(pair)
            for broker in self.brokers.values():
                broker.store()
            for pair in permutations(NAMES, 2):
                self.a_link_comes_up(pair)
            self._run()
        a, b, c = [broker.memory for broker in self.brokers.values()]
        assert a == b == c, "the brokers agree"
        assert all(broker.stored.versions == broker.memory for broker in self.brokers.values())

    def _run(self) -> None:
        is_busy = True
        while is_busy:
            is_busy = False
            for pair in permutations(NAMES, 2):
                while self.wires[pair] or (parts := self.brokers[pair[0]].parts(pair[1])):
                    if not self.wires[pair]:
                        self.wires[pair] += parts
                    is_busy = True
                    self.a_part_arrives(pair, 0, False)


TestNetwork = Network.TestCase
TestNetwork.settings = settings(max_examples=examples(100), stateful_step_count=60, deadline=None)


def one(name: str = "a") -> Broker:
    return Broker(name, {})


def kept(broker: Broker, topic: str) -> Version:
    version = broker.clock.next(1000)
    broker.change(RetainedEntry(topic, version, False))
    broker.store()
    return version


def test_versions_are_ordered_by_time_then_counter_then_name() -> None:
    ordered = [NO_VERSION, Version(1, 0, "b"), Version(1, 1, "a"), Version(1, 1, "b"), Version(2, 0, "a")]
    for index, version in enumerate(ordered):
        assert [version.is_after(other) for other in ordered] == [at < index for at in range(len(ordered))]


def test_a_clock_gives_later_versions_than_it_has_given_or_seen() -> None:
    clock = VersionClock("a")
    assert [clock.next(5), clock.next(5), clock.next(4), clock.next(6)] == [
        Version(5, 0, "a"),
        Version(5, 1, "a"),
        Version(5, 2, "a"),
        Version(6, 0, "a"),
    ]
    clock.saw(Version(9, 7, "b"))
    clock.saw(Version(8, 9, "b"))
    assert clock.next(7) == Version(9, 8, "a")
    clock.saw(Version(9, COUNTER_MAX, "b"))
    assert clock.next(7) == Version(10, 0, "a")


def test_equal_sets_are_not_listed_and_one_difference_lists_its_bucket_only() -> None:
    ours, theirs = one("a"), one("b")
    for number in range(2000):
        kept(ours, f"plant/{number}")
    sender = ours.senders["b"]
    sender.connected()
    sender.told(list(ours.stored.digests))
    assert listed(sender) == []
    sender.told([0] * BUCKETS)
    assert len(listed(sender)) == 2000
    assert theirs.stored.digests == [0] * BUCKETS

    digests = list(ours.stored.digests)
    bucket = bucket_of(topic_hash("plant/7"))
    digests[bucket] -= 1
    sender.told(digests)
    assert {bucket_of(topic_hash(each.topic)) for each in listed(sender)} == {bucket}


def test_a_message_has_the_bucket_of_its_topic() -> None:
    version = Version(1, 2, "a")
    assert bucket_of(entry_hash("plant/7", version)) == bucket_of(topic_hash("plant/7"))
    assert entry_hash("plant/7", version) != entry_hash("plant/7", Version(1, 3, "a"))


def test_what_the_store_does_not_have_is_not_sent() -> None:
    broker = one()
    sender = broker.senders["b"]
    sender.connected()
    broker.change(RetainedEntry("t", broker.clock.next(1000), False))
    assert sender.next_changed() is None
    assert broker.stored.digests == [0] * BUCKETS
    broker.store()
    assert sender.next_changed() == RetainedEntry("t", Version(1000, 0, "a"), False)


def test_changes_of_others_are_not_passed_on() -> None:
    broker = one()
    broker.senders["c"].connected()
    broker.arrived("b", ("changes", [RetainedEntry("t", Version(1000, 0, "b"), False)]), 1000)
    broker.store()
    assert broker.parts("c") == []


def test_a_receiver_counts_what_it_does_not_take() -> None:
    broker = one()
    kept(broker, "t")
    late, ahead = Version(999, 0, "b"), Version(1001 + AHEAD_MS_MAX, 0, "b")
    entries = [RetainedEntry("t", late, False), RetainedEntry("u", ahead, False), RetainedEntry("$x", late, False)]
    broker.arrived("b", ("changes", entries), 1000)
    receiver = broker.receiver
    assert (receiver.outdated_count, receiver.ahead_count, receiver.local_count) == (1, 1, 1)
    assert broker.clock.next(1000).wall_ms == 1000


def test_a_deletion_is_kept_until_each_neighbor_has_stored_it() -> None:
    broker = one()
    kept(broker, "t")
    for sender in broker.senders.values():
        sender.connected()
    broker.parts("b"), broker.parts("c")
    broker.change(RetainedEntry("t", broker.clock.next(1000), True))
    broker.store()
    for name, left in (("b", []), ("c", ["t"])):
        broker.parts(name)
        sender = broker.senders[name]
        assert broker.tombstones.take_finished(1000, 100) == []
        sender.acknowledged(sender.sent_number)
        if left:
            assert broker.tombstones.take_finished(1000, 100) == left
    assert broker.tombstones.count == 0


def test_deletions_go_after_a_day_or_when_there_are_too_many() -> None:
    tombstones = Tombstones()
    tombstones.begin("b")
    for number in range(5):
        tombstones.add(f"t/{number}", Version(number, 0, "a"))
    assert tombstones.take_finished(KEPT_MS, 3) == ["t/0", "t/1"]
    assert (tombstones.expired_count, tombstones.dropped_count, tombstones.count) == (1, 1, 3)
    tombstones.end("b")
    assert tombstones.take_finished(1000, 3) == ["t/2", "t/3", "t/4"]
    tombstones.check()


def test_deletions_of_what_was_not_there_make_room_for_others() -> None:
    tombstones = Tombstones()
    tombstones.begin("b")
    tombstones.add("real", Version(1, 0, "a"))
    tombstones.add("real", Version(2, 0, "a"), had_message=False)  # deleted twice: a message was there before
    for number in range(5):
        tombstones.add(f"flood/{number}", Version(3, number, "a"), had_message=False)
    tombstones.add("flood/0", Version(4, 0, "a"))  # there was one meanwhile
    assert tombstones.take_finished(1000, 3) == ["flood/1", "flood/2", "flood/3"]
    tombstones.check()
    assert tombstones.take_finished(1000, 1) == ["flood/4", "real"]
    assert (tombstones.dropped_count, tombstones.count) == (5, 1)
    tombstones.check()


def test_wrong_digests_and_acknowledgements_are_refused() -> None:
    sender = one().senders["b"]
    sender.connected()
    with pytest.raises(ValueError, match="255 digests"):
        sender.told([0] * 255)
    with pytest.raises(ValueError, match="1 is acknowledged"):
        sender.acknowledged(1)


def test_export_rules_leave_topics_out() -> None:
    broker = one()
    kept(broker, "secret/1")
    kept(broker, "open/1")
    sender = RetainedSender("b", broker.stored, lambda topic: topic.startswith("open"))
    broker.stored.senders.append(sender)
    sender.connected()
    sender.told([0] * BUCKETS)
    assert [each.topic for each in listed(sender)] == ["open/1"]
    kept(broker, "secret/2")
    assert sender.next_changed() is None


def test_a_connect_looks_at_no_topic_though_there_are_export_rules() -> None:
    """The digests of what crosses are kept up to date as the store changes."""
    asked: list[str] = []

    def exports(topic: str) -> bool:
        asked.append(topic)
        return topic.startswith("open")

    ours, theirs = one("a"), one("b")
    kept(ours, "open/0")
    kept(ours, "secret/0")
    sender = RetainedSender("b", ours.stored, exports)
    ours.stored.senders.append(sender)
    ours.stored.check()
    for topic in ("open/1", "open/2", "secret/1"):
        version = kept(ours, topic)
        if topic == "open/1":
            ours.stored.removed(topic)
        elif topic == "open/2":
            theirs.change(RetainedEntry(topic, version, False))
    theirs.change(RetainedEntry("open/0", ours.memory["open/0"], False))
    theirs.store()
    ours.stored.check()

    asked.clear()
    sender.connected()
    told = sender.digests_to_tell()
    sender.told(theirs.digests())
    assert (asked, told, sender.is_idle) == ([], theirs.digests(), True)

    ours.change(RetainedEntry("open/2", ours.clock.next(2000), True))
    ours.store()
    ours.stored.check()
    sender.told(theirs.digests())
    assert [each.topic for each in listed(sender)] == ["open/2"]

    sender.acknowledged(sender.sent([RetainedEntry("open/2", ours.tombstones.get("open/2") or NO_VERSION, True)]))
    theirs.stored.removed("open/2")
    assert ours.tombstones.count == 1, "c does not know the deletion"
    asked.clear()
    sender.connected()
    sender.told(theirs.digests())
    assert (asked, sender.is_idle) == ([], True)


def test_what_the_store_refused_is_written_again_once() -> None:
    stored = one().stored
    stored.refused("t")
    stored.refused("u")
    stored.refused("t")
    assert stored.take_refused() == ["t", "u"]
    assert not stored.has_refused


def test_a_neighbor_that_asked_gets_the_later_message_of_another_broker_when_it_is_stored() -> None:
    """The message that it asked for is replaced, and the one in its place is not stored yet."""
    broker = one()
    kept(broker, "t")
    sender = broker.senders["b"]
    sender.connected()
    sender.wanted(["t"])
    assert sender.next_changed() is not None
    sender.took("t")
    sender.owe("t")
    assert not sender.is_idle

    later = RetainedEntry("t", Version(5000, 0, "c"), False)
    broker.change(later)
    broker.store()

    assert sender.next_changed() == later
    sender.took("t")
    assert broker.senders["c"].next_changed() is None
    assert sender.is_idle


def test_what_is_owed_is_forgotten_with_the_topic() -> None:
    broker = one()
    kept(broker, "t")
    sender = broker.senders["b"]
    sender.connected()
    sender.owe("t")
    broker.stored.removed("t")
    assert sender.is_idle


def test_what_a_neighbor_asks_for_and_nobody_has_is_ignored() -> None:
    sender = one().senders["b"]
    sender.connected()
    sender.wanted([f"t/{number}" for number in range(10)])
    assert sender.is_idle


def test_a_clock_that_was_wrong_gives_versions_of_the_present_again() -> None:
    clock = VersionClock("a")
    clock.saw(Version(1000 + AHEAD_MS_MAX, 0, "b"))
    assert not clock.is_ahead(1000)
    assert clock.is_ahead(999)
    clock.goes_back(999)
    assert clock.next(999) == Version(999, 1, "a")


def test_a_mark_is_passed_when_all_before_it_is_stored_and_sent() -> None:
    broker = one()
    stored, sender = broker.stored, broker.senders["b"]
    sender.connected()
    number = stored.posted(["t"])
    mark = sender.mark()
    assert not sender.has_passed(mark)
    kept(broker, "t")  # the store is done with it before
    assert not sender.has_passed(mark)
    stored.done(number, ["t"])
    assert not sender.has_passed(mark)
    kept(broker, "u")  # later than the mark
    sender.took("t")
    assert sender.has_passed(mark)
    assert sender.next_changed() is not None


def test_marks_are_passed_without_a_connection() -> None:
    broker = one()
    broker.stored.posted(["t"])
    sender = broker.senders["b"]
    mark = sender.mark()
    assert sender.has_passed(mark)


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_deletion_is_kept_for_a_neighbor_whose_store_does_not_have_the_message_yet(is_refused: bool) -> None:
    """The digests of both stores are equal, and the message will be in one of them."""
    a, b = one("a"), one("b")
    message = RetainedEntry("t", kept(a, "t"), False)
    b.change(message, "a")
    if is_refused:
        b.stored.done(1, ["t"])
        b.stored.refused("t")
    a.tombstones.end("c")
    deletion = RetainedEntry("t", a.clock.next(2000), True)
    a.change(deletion)
    a.store()

    a.senders["b"].connected()
    assert a.arrived("b", ("digests", b.digests()), 3000) == []
    assert a.tombstones.take_finished(3000, 1000) == []
    assert a.parts("b") == [("list", [deletion])]

    if is_refused:
        b.stored.take_refused()
    else:
        b.stored.done(1, ["t"])
    b.unstored.clear()
    a.senders["b"].connected()
    a.arrived("b", ("digests", b.digests()), 3000)
    assert a.tombstones.take_finished(3000, 1000) == ["t"]


def test_an_owed_message_is_sent_once_when_the_store_has_the_later_one() -> None:
    """Neighbors are told of the broker's own anyway."""
    broker = one()
    sender = broker.senders["b"]
    kept(broker, "t")
    sender.connected()
    sender.owe("t")  # a later one is in force
    kept(broker, "t")
    assert sender.next_changed() is not None
    sender.took("t")
    assert sender.is_idle


def test_a_deletion_that_a_neighbor_has_listed_is_passed_on() -> None:
    """The message was back, from a backup: the other neighbor may have it again, too."""
    broker = one()
    kept(broker, "t")
    for sender in broker.senders.values():
        sender.connected()
    deletion = RetainedEntry("t", Version(9000, 0, "b"), True)
    broker.change(deletion, "b")
    broker.stored.relearned("t")
    broker.store()
    assert broker.senders["c"].next_changed() == deletion

    broker.senders["c"].took("t")
    broker.change(RetainedEntry("t", Version(9001, 0, "b"), False))
    broker.store()
    assert broker.senders["c"].next_changed() is None
