"""The packets of one connection, seen at the node's end and reported to the judge.

It also checks two promises of the protocol: the client's Receive Maximum, and packet ids that are not reused.
"""

import re
from typing import NamedTuple

import support.mqtt.packets as mqtt
from simulation.judge.far_flows import Far
from simulation.judge.overlapping_subscriptions import Overlap
from simulation.judge.targets import GROUP, RETAINED, SESSION, Message, Target, Violation
from simulation.judge.truth import Truth
from simulation.judge.wills import Will
from simulation.scenario import keys_of, topics_of
from simulation.wires.aliases import AliasesIn
from sluicegate.messaging.message.outcomes import ACCEPTED, REJECTED

SUBSCRIPTION_IDENTIFIER = 0x0B
USER_PROPERTY = 0x26
VOID = -1  # no number of cuts
NUMBER = re.compile(rb"(\d+)\|(?:row|[. ]*)\Z")  # as each of the clients and jobs fills what is behind it


class Written(NamedTuple):
    """A delivery that waits for its answer."""

    target: Target
    number: int
    flow_cuts: int  # of the target by then
    held_us: int  # when its consumer may have been given it
    answers_count: int  # requests of the client that were answered by then


class Tap:
    """One connection. `names` and `out` are the client's: the targets that its subscription identifiers stand for, and
    what it has sent under which packet id."""

    def __init__(
        self,
        truth: Truth,
        client: str,
        *,
        receive_maximum: int,
        names: dict[int, str],
        out: dict[int, Message],
        keeps_session: bool = True,
        overlap: Overlap | None = None,
        will: Will | None = None,
        earlier_wills: list[Will] | None = None,
    ) -> None:
        self._truth = truth
        self._client = client
        self._receive_maximum = receive_maximum
        self._names = names
        self.out = out  # the client's: it begins another when it starts anew
        self._keeps_session = keeps_session  # it outlives the connection
        self.overlap = overlap or Overlap(truth)  # the client's: that of its session
        self._will = will  # of this connection
        self._earlier_wills = earlier_wills or []  # that may not have come
        self._unanswered: dict[
            int, Written | Far | None
        ] = {}  # by packet id; None: settled, or of a queue that is gone
        self._published: set[int] = set()  # ids
        self._aliases = AliasesIn()
        self._unread = b""
        self._requests_count = 0  # read, and not answered
        self._answers_count = 0
        self._has_unsubscribed = False  # and nothing that it asked for since was answered
        self._asked_last = 0  # kind of packet
        self._has_ended = False
        self._asked_us = 0  # when the requests were read that the node answered last, or has yet to answer
        self._answered_us = 0
        self.has_let_go = False  # as the truth's Holder has it
        self.saw: Message | None = None  # of the topic of retained messages, what was sent last
        self._saw_min = 0  # it looks at no older change of that

    # --- node to client ---

    def written(self, data: bytes) -> None:
        """The node writes whole packets."""
        for packet in mqtt.packets_of(data):
            kind = packet.kind
            if kind == mqtt.PUBLISH:
                self._delivery(self._aliases.resolve(mqtt.published(packet, 5)))
            elif kind in (mqtt.PUBACK, mqtt.PUBREC):
                message = self.out.get(mqtt.packet_id_of(packet))
                if message is None:
                    raise Violation(f"{self._client} was answered for a packet id that it does not use")
                self._truth.promised(message, packet.body[2] if len(packet.body) > 2 else 0)
            elif kind == mqtt.PUBREL:
                self._release(mqtt.packet_id_of(packet))
            elif kind in (mqtt.CONNACK, mqtt.SUBACK, mqtt.UNSUBACK):
                if kind == mqtt.CONNACK:
                    self._answered(mqtt.connack(packet, 5))
                self._requests_count -= 1
                self._answers_count += 1
                self._answered_us = self._truth.now_us()
                if self._requests_count == 0 and self._asked_last != mqtt.UNSUBSCRIBE:
                    self._has_unsubscribed = False
            elif kind == mqtt.DISCONNECT:
                self._ended()

    def _answered(self, connack: mqtt.Answer) -> None:
        if connack.reason_code:
            if self._will is not None:
                self._will.refused()
            self._ended()
            return
        if self._will is not None:
            self._will.begun()
        for will in self._earlier_wills:
            will.returned()

    def _ended(self) -> None:
        self._has_ended = True
        self.has_let_go = True
        self._lost()

    def _delivery(self, publish: mqtt.Published) -> None:
        identifiers = publish.values(SUBSCRIPTION_IDENTIFIER)
        name = name_of(publish, self._names)
        if name is None:
            raise Violation(f"{self._client} got {publish} and has no such subscription")
        if name == RETAINED:
            self._retained(publish)
            return
        target = self._truth.targets.get(name)
        if target is None and name in self._truth.far.queues:
            self._far_delivery(name, publish)
            return
        if target is None:  # it is being deleted, or there is one of its name again
            self._truth.came_unjudged.add(number_of(publish.payload))
            if publish.packet_id:
                self._published.add(publish.packet_id)
                self._take(publish.packet_id, None)
            return
        number = number_of(publish.payload)
        flagged, count = _marks_of(publish)
        now_us = self._truth.now_us()
        held_us = self._asked_us if self._answered_us == now_us else now_us  # it may have waited behind the answer
        keys, message = keys_of(int(str(identifiers[0]))), self._truth.course.messages.get(number)
        self._check_topic(name, publish)
        if keys and message is not None and message.key not in keys:
            raise Violation(f"{self._client} got {message} of {name}, and takes {keys} only")
        if target.kind == SESSION and message is not None:
            self.overlap.check(message, publish.topic, identifiers)
        self._truth.delivered(target, number, self, held_us=held_us, flagged=flagged, count=count, again=publish.dup)
        if target.kind == GROUP:
            self._truth.goes_to(
                target, number, self._client, is_once=publish.qos == 2, is_leaving=self._has_unsubscribed
            )
        if publish.packet_id:
            if publish.packet_id in self._unanswered:
                raise Violation(f"{self._client} got packet id {publish.packet_id} twice at a time")
            self._published.add(publish.packet_id)
            self._take(publish.packet_id, Written(target, number, target.flow_cuts, held_us, self._answers_count))

    def _far_delivery(self, name: str, publish: mqtt.Published) -> None:
        self._check_topic(name, publish)
        far = Far(name, number_of(publish.payload), *_marks_of(publish))
        self._truth.far.came(self._client, far)
        if not publish.packet_id:
            self._truth.far.says(self._client, far, ACCEPTED)
            return
        if publish.packet_id in self._unanswered:
            raise Violation(f"{self._client} got packet id {publish.packet_id} twice at a time")
        self._published.add(publish.packet_id)
        self._take(publish.packet_id, far)

    def _check_topic(self, name: str, publish: mqtt.Published) -> None:
        message = self._truth.course.messages.get(number_of(publish.payload))
        if message is not None and publish.topic not in topics_of(message.topic):
            raise Violation(f"{self._client} got {message} of {name} on the topic {publish.topic!r}")

    def looks(self) -> None:
        """The client is about to ask for the retained message."""
        self.saw, self._saw_min = None, self._truth.retained.newest

    def _retained(self, publish: mqtt.Published) -> None:
        self.saw = self._truth.course.messages[number_of(publish.payload)] if publish.payload else None
        if publish.retain and self.saw is not None:
            self._truth.retained.check_sent(self.saw, self._saw_min)

    def _release(self, packet_id: int) -> None:
        """A PUBREL keeps its place in the window; one for an earlier connection's message has none [MQTT 4.9]."""
        if packet_id not in self._published:  # else it answers a PUBREC that was sent twice
            self._take(packet_id, None)

    def _take(self, packet_id: int, what: Written | Far | None) -> None:
        self._unanswered[packet_id] = what
        count = sum(1 for each in self._unanswered if each in self._published)
        if count > self._receive_maximum:
            raise Violation(f"{self._client} takes {self._receive_maximum} at a time, and has {count}")

    def ended(self) -> None:
        """The node closes the connection, or has lost it."""
        self.has_let_go = True
        self._truth.hangs_up(self._names.values())
        self._lost()

    def _lost(self) -> None:
        """The client may hear of that much later, if it reads nothing."""
        if not self._keeps_session:
            for name in set(self._names.values()) & set(self._truth.targets):
                if self._truth.targets[name].kind == SESSION:
                    self._truth.ends(name)
        if self._will is not None:
            self._will.lost()

    # --- client to node ---

    def read(self, data: bytes) -> None:
        """The node reads bytes, cut anywhere. Behind its DISCONNECT it does not look at them."""
        if self._has_ended:
            return
        packets, self._unread = mqtt.take_packets(self._unread + data)
        for packet in packets:
            kind = packet.kind
            if kind == mqtt.DISCONNECT:
                self.has_let_go = True
                if self._will is not None:
                    self._will.goodbye()
            elif kind in (mqtt.PUBACK, mqtt.PUBREC):
                self._settlement(mqtt.packet_id_of(packet), kind, packet.body[2] if len(packet.body) > 2 else 0)
            elif kind == mqtt.PUBCOMP:
                self._unanswered.pop(mqtt.packet_id_of(packet), None)
            elif kind in (mqtt.CONNECT, mqtt.SUBSCRIBE, mqtt.UNSUBSCRIBE):
                if self._requests_count == 0:
                    self._asked_us = self._truth.now_us()
                self._requests_count += 1
                self._asked_last = kind
                self.has_let_go = True  # its flow may be another from now on
                if kind == mqtt.UNSUBSCRIBE:
                    self._has_unsubscribed = True
                    self._void_what_it_holds()
                    self._truth.gives_back(self._client)

    def _void_what_it_holds(self) -> None:
        for packet_id, what in self._unanswered.items():
            if isinstance(what, Written):
                self._unanswered[packet_id] = what._replace(flow_cuts=VOID)

    def _settlement(self, packet_id: int, kind: int, reason_code: int) -> None:
        what = self._unanswered.get(packet_id)
        if kind == mqtt.PUBACK or reason_code >= 0x80:
            self._unanswered.pop(packet_id, None)
        if what is None:
            return  # answered twice, or of a queue that is gone
        if packet_id in self._unanswered:
            self._unanswered[packet_id] = None
        if isinstance(what, Far):
            self._truth.far.says(self._client, what, REJECTED if reason_code >= 0x80 else ACCEPTED)
            return
        target, number, cuts, held_us, answers_count = what
        # Asking for other keys of a queue ends the flow, and begins one.
        is_of_another_flow = target.rules.selects and answers_count != self._answers_count
        is_late = 0 < 1000 * target.rules.lock_ms <= self._truth.now_us() - held_us
        is_cut = cuts != target.flow_cuts or target.is_broken or is_of_another_flow
        is_void = self._requests_count > 0 or self._has_unsubscribed or is_cut or is_late
        # What PUBREC says is kept once the store has it; until then the message may come again, under its id.
        # Nor is it known how long a message has waited to be written, of a client that did not read.
        waited_us = self._truth.now_us() - self._truth.course.messages[number].sent_us
        may_be_late = 0 < 1000 * target.rules.lock_ms <= waited_us
        for_good = kind == mqtt.PUBACK and not (is_void or may_be_late)
        rejected = reason_code >= 0x80 and not is_void
        of_next = is_late or is_cut  # it names the message, and not the delivery (decision 0012)
        self._truth.settled(target, number, self, for_good=for_good, rejected=rejected, of_next=of_next)


def _marks_of(publish: mqtt.Published) -> tuple[bool, int]:
    """Return whether a delivery is flagged as redelivered, and its count; 0: it is not told."""
    said = dict([each for each in publish.values(USER_PROPERTY) if isinstance(each, tuple)])
    return said.get("sluicegate-redelivered") == "true", int(said.get("sluicegate-delivery-count", "0"))


def name_of(publish: mqtt.Published, names: dict[int, str]) -> str | None:
    """Return what a delivery belongs to, by its subscription identifiers."""
    identifiers = [each for each in publish.values(SUBSCRIPTION_IDENTIFIER) if isinstance(each, int)]
    return next((names[each] for each in identifiers if each in names), None)


def number_of(payload: bytes) -> int:
    """Return which message a payload is. In that of an AMQP client its sections stand before the number.

    Bytes of these may look like a number, too.
    """
    found = NUMBER.search(payload)
    assert found is not None, f"{payload!r} is of nobody in the simulation"
    return int(found[1])
