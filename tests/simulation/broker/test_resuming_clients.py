"""The rules of the judge for AMQP links that resume, and for messages that a consumer declines."""

import pytest

from simulation.judge.targets import DEAD, EXCLUSIVE, PARTITIONED, SHARED, Message, Rules, Violation
from simulation.judge.truth import Truth
from simulation.scenario import HANDOFF_S, PLAIN
from simulation.wires.amqp_tap import IN, OUT, ResumerTap
from simulation.world import World
from sluicegate.protocols.amqp.codec.delivery_states import ACCEPTED_STATE, MODIFIED, DeliveryState
from sluicegate.protocols.amqp.codec.dispositions import disposition_bytes
from sluicegate.protocols.amqp.codec.frames import frame
from sluicegate.protocols.amqp.codec.performatives import CLOSE, TRANSFER, Attach
from sluicegate.protocols.amqp.codec.sections import MESSAGE_ANNOTATIONS
from sluicegate.protocols.amqp.codec.termini import Source, Target
from sluicegate.protocols.amqp.types.encoding import encode, encode_performative
from sluicegate.protocols.amqp.types.values import AmqpMap, AmqpValue, Described, Symbol, ubyte, uint, ulong

A_WHILE_US = 2_000_000
AWAY_S = 20
HANDLE = 1
ELSEWHERE = DeliveryState(MODIFIED, undeliverable_here=True)


class Another:
    """Another consumer of the queue."""

    has_let_go = False


class Scene:
    """A queue, and a client whose link on it may come back, seen at the node's end."""

    def __init__(self, kind: str = EXCLUSIVE) -> None:
        self.now_us = A_WHILE_US
        self.truth = Truth(lambda: self.now_us)
        self.truth.life = 1
        self.queue = self.truth.begins("orders", kind, ("in/",), Rules())
        self.truth.limits("orders", 0)
        self.sent: dict[int, Message] = {}
        self.delivered_count = 0
        self.tap = self.connects()
        self.attaches()
        self.is_attached()

    def connects(self, previous: ResumerTap | None = None) -> ResumerTap:
        flow = None if previous is None else previous.flow
        return ResumerTap(self.truth, "r", sent=self.sent, settles_second=True, away_s=AWAY_S, flow=flow)

    def comes_back(
        self, held: dict[bytes, DeliveryState | None], *, resumed: list[bytes] | None = None, incomplete: bool = False
    ) -> None:
        """Lose the connection; attach the link again on another one, and be answered with what is resumed."""
        self.tap.ended()
        self.tap = self.connects(self.tap)
        states = {tag: None if state is None else state.described() for tag, state in held.items()}
        self.attaches(states, incomplete=incomplete)
        self.is_attached(resumed or [])

    def attaches(self, held: dict[bytes, AmqpValue] | None = None, *, incomplete: bool = False) -> None:
        unsettled = AmqpMap(list(held.items())) if held else None
        source = Source("queue://orders")
        attach = Attach(
            IN,
            handle=HANDLE,
            is_receiver=True,
            source=source,
            target=Target("here"),
            unsettled=unsettled,
            incomplete_unsettled=incomplete,
        )
        self.tap.read(frame(0, attach.encode()))

    def is_attached(self, resumed: list[bytes] | None = None, name: str = IN) -> None:
        attach = Attach(
            name,
            handle=HANDLE,
            is_receiver=name == OUT,
            source=Source("queue://orders"),
            target=Target("here"),
            unsettled=AmqpMap([(tag, None if name == IN else ACCEPTED_STATE.described()) for tag in resumed or []]),
            initial_delivery_count=0,
        )
        self.tap.written(frame(0, attach.encode()))

    def delivers(
        self, number: int, tag: bytes, *, count: int = 1, resumes: bool = False, died_in: str = "", died_ms: int = 0
    ) -> None:
        fields: list[AmqpValue] = [uint(HANDLE), uint(self.delivered_count), tag, uint(0), False, False]
        self.delivered_count += 1
        header: list[AmqpValue] = [True, ubyte(4), None, count == 1, uint(count - 1)]
        message = encode(Described(ulong(0x70), header))
        if died_in:
            dead: list[tuple[AmqpValue, AmqpValue]] = [
                (Symbol("x-opt-sluicegate-dead-queue"), died_in),
                (Symbol("x-opt-sluicegate-dead-time-ms"), died_ms),
            ]
            message += encode(Described(ulong(MESSAGE_ANNOTATIONS), AmqpMap(dead)))
        message += encode(Described(ulong(0x75), b"m%d|" % number))
        self.tap.written(frame(0, encode_performative(TRANSFER, [*fields, None, None, resumes]) + message))

    def settles(self, delivery_id: int, state: DeliveryState, *, by_node: bool = False) -> None:
        said = disposition_bytes(
            is_receiver=not by_node, first=delivery_id, last=delivery_id, settled=by_node, state=state
        )
        (self.tap.written if by_node else self.tap.read)(frame(0, said))

    def closes(self) -> None:
        self.tap.written(frame(0, encode_performative(CLOSE, [])))

    def delivers_to_another(self, number: int, count: int = 2) -> None:
        self.truth.delivered(self.queue, number, Another(), held_us=self.now_us, flagged=True, count=count, again=False)


def with_a_message(scene: Scene) -> Scene:
    message = scene.truth.sent("p", "k", "in/x", 1)
    scene.truth.promised(message, 0)
    scene.delivers(1, b"t")
    return scene


@pytest.fixture
def scene() -> Scene:
    """The client has a message."""
    return with_a_message(Scene())


def test_messages_of_an_absent_client_may_go_to_no_other_until_its_time_is_over(scene: Scene) -> None:
    scene.tap.ended()
    scene.now_us += 1_000_000 * (AWAY_S - 1)
    with pytest.raises(Violation, match="was not done with it"):
        scene.delivers_to_another(1)
    scene.now_us += 1_000_000
    scene.delivers_to_another(1)


def test_a_returning_client_keeps_its_deliveries(scene: Scene) -> None:
    with pytest.raises(Violation, match="may not go on with it"):
        scene.comes_back({b"t": None})


def test_a_returning_client_may_have_lost_deliveries_with_their_partition() -> None:
    """It was another consumer's turn to have the partition, and the time for the handoff was over."""
    scene = with_a_message(Scene(PARTITIONED))
    scene.now_us += 1_000_000 * HANDOFF_S
    scene.comes_back({b"t": None})
    with pytest.raises(Violation, match="may not go on with it"):
        with_a_message(Scene(PARTITIONED)).comes_back({b"t": None})


def test_a_returning_client_may_have_lost_its_deliveries_after_a_restart(scene: Scene) -> None:
    scene.truth.life += 1
    scene.comes_back({b"t": None})
    scene.delivers_to_another(1)


def test_messages_a_client_never_got_go_to_others_when_it_returns(scene: Scene) -> None:
    scene.comes_back({})
    scene.delivers_to_another(1)


def test_only_what_the_client_has_is_resumed_and_as_the_message_that_it_was(scene: Scene) -> None:
    scene.comes_back({b"t": None}, resumed=[b"t"])
    scene.delivers(1, b"t", resumes=True)
    with pytest.raises(Violation, match="once more, which was"):
        scene.delivers(2, b"t", resumes=True)
    with pytest.raises(Violation, match="has nothing of that"):
        scene.comes_back({}, resumed=[b"t"])


def test_an_outcome_that_a_client_came_back_with_is_in_force_over_crashes(scene: Scene) -> None:
    scene.comes_back({b"t": ACCEPTED_STATE})
    scene.truth.course.crashes += 1
    with pytest.raises(Violation, match="after a commit had settled it"):
        scene.delivers_to_another(1)


def test_settlements_answered_by_the_node_survive_crashes(scene: Scene) -> None:
    scene.settles(0, ACCEPTED_STATE)
    scene.settles(0, ACCEPTED_STATE, by_node=True)
    scene.truth.course.crashes += 1
    with pytest.raises(Violation, match="after a commit had settled it"):
        scene.delivers_to_another(1)


def test_what_a_client_says_behind_the_close_of_the_node_settles_nothing(scene: Scene) -> None:
    """AMQP 2.4.6: it is discarded. The message is redelivered, to the client that was away or to another."""
    scene.closes()
    scene.settles(0, ACCEPTED_STATE)
    assert not scene.queue.seen[1].settled_tick
    scene.now_us += AWAY_S * 1_000_000
    scene.delivers_to_another(1)


def test_declined_messages_do_not_come_to_the_client_again_and_may_be_dead_lettered(scene: Scene) -> None:
    scene.settles(0, ELSEWHERE)
    assert scene.queue.may_have_given_up(scene.truth.course.messages[1])
    with pytest.raises(Violation, match="has declined message 1"):
        scene.delivers(1, b"u")
    scene.delivers_to_another(1, count=1)


def test_of_a_message_that_died_in_two_queues_a_client_may_decline_the_one_and_get_the_other() -> None:
    scene = _of_the_dead()
    scene.delivers(1, b"t", died_in="a", died_ms=1)
    scene.settles(0, ELSEWHERE)
    scene.delivers(1, b"u", died_in="b", died_ms=1)
    scene.settles(1, ELSEWHERE)
    scene.delivers(1, b"v", died_in="b", died_ms=2)  # a crash brought it back, and it died once more
    for queue in ("a", "b"):
        with pytest.raises(Violation, match="has declined message 1"):
            scene.delivers(1, b"w", died_in=queue, died_ms=1)


def test_of_a_message_that_was_moved_out_of_two_queues_a_client_may_decline_the_one_and_get_the_other() -> None:
    scene = _of_the_dead()
    _, *sources = scene.truth.targets.values()
    scene.delivers(1, b"t")
    scene.settles(0, ELSEWHERE)
    tick = scene.truth.next_tick()
    sources[0].moves.append([tick, tick])
    with pytest.raises(Violation, match="has declined message 1"):
        scene.delivers(1, b"u")
    sources[1].moves.append([tick, tick])
    scene.delivers(1, b"u")


def _of_the_dead() -> Scene:
    """The client consumes what died in two queues, or was moved out of them; one message came into both."""
    made = Scene(DEAD)
    message = made.truth.sent("p", "k", "in/x", 1)
    for name in ("a", "b"):
        queue = made.truth.begins(name, EXCLUSIVE, ("in/",), Rules())
        made.truth.delivered(queue, message.number, Another(), held_us=0, flagged=False, count=1, again=False)
    return made


def test_declined_messages_may_come_again_to_a_client_that_was_away_for_too_long() -> None:
    scene = Scene(SHARED)
    scene.truth.sent("p", "k", "in/x", 1)
    scene.delivers(1, b"t")
    scene.settles(0, ELSEWHERE)
    scene.comes_back({})
    with pytest.raises(Violation, match="has declined message 1"):
        scene.delivers(1, b"u")
    scene.tap.ended()
    scene.now_us += 1_000_000 * AWAY_S
    scene.comes_back({})
    scene.delivers(1, b"u", count=2)


def test_messages_the_node_reports_to_a_returning_sender_are_promised(scene: Scene) -> None:
    message = scene.truth.sent("r", "k", "in/x", 1)
    attach = Attach(
        OUT,
        handle=0,
        is_receiver=False,
        source=Source("here"),
        target=Target(None),
        unsettled=AmqpMap([(b"2", None)]),
        initial_delivery_count=0,
    )
    scene.tap.read(frame(0, attach.encode()))
    scene.is_attached([b"2"], OUT)
    assert message.promised_tick
    with pytest.raises(Violation, match="had not asked"):
        scene.is_attached([b"1"], OUT)


def test_a_client_that_is_cut_off_before_its_answers_comes_back_and_nothing_is_doubled() -> None:
    world = World(1, PLAIN)
    resumer = world.resumers["r0"]
    resumer.connect("first")
    world.advance(A_WHILE_US)
    for _ in range(3):
        world.pace.slow_left = 4  # the answer takes longer than the connection lasts
        resumer.publish("work/a/x", "k", 40)
        world.advance(20_000)
        assert resumer.is_waiting
        resumer.cut()
        resumer.connect("first")
        world.advance(A_WHILE_US)

    assert not resumer.is_waiting
    assert list(world.truth.targets["first"].seen) == [1, 2, 3]
    assert all(seen.count == 1 for seen in world.truth.targets["first"].seen.values())
    world.close()


def test_deliveries_missing_from_an_incomplete_map_stay_with_their_client(scene: Scene) -> None:
    """2.7.3: that it is not there says nothing of it."""
    scene.comes_back({}, resumed=[b"t"], incomplete=True)
    with pytest.raises(Violation, match="may not go on"):
        scene.comes_back({}, incomplete=True)


def test_deliveries_in_an_incomplete_map_may_be_returned(scene: Scene) -> None:
    scene.comes_back({b"t": None}, incomplete=True)
    scene.delivers_to_another(1)


def test_nothing_new_comes_before_a_link_is_attached_with_a_map_that_is_complete(scene: Scene) -> None:
    """2.7.3."""
    scene.truth.promised(scene.truth.sent("p", "k", "in/x", 1), 0)
    scene.comes_back({}, resumed=[b"t"], incomplete=True)
    with pytest.raises(Violation, match="incomplete"):
        scene.delivers(2, b"u")
