"""The state of a client in the referee of MQTT: its subscriptions, and the messages in flight to it."""

from collections import deque
from collections.abc import Sequence
from typing import Final

from support.mqtt.packets import PUBACK, PUBCOMP, PUBREC, properties_of, varint_at
from support.referees.mqtt.grammar import Body, Packet
from support.referees.mqtt.publications import Order, Properties, Publications, Published, judge_content
from support.referees.violations import expect

PACKET_BYTES_MAX: Final = 268_435_460  # what a remaining length can say, and the bytes before it
RECEIVE_MAXIMUM: Final = 65_535  # where a client says nothing
PROBLEMS, RESPONSE_INFORMATION, METHOD, RECEIVE, ALIASES, PACKET_BYTES = 23, 25, 21, 33, 34, 39  # properties of CONNECT
SUBSCRIPTION_IDENTIFIER, TOPIC_ALIAS, RESPONSE_TOPIC, USER_PROPERTY = 11, 35, 8, 38


class Subscribed:
    """One filter of a SUBSCRIBE."""

    def __init__(self, text: str, options: int, identifier: int, *, has_terms: bool) -> None:
        self.text = text
        self.has_terms = has_terms  # in user properties, such as a selector: not all that matches comes for it
        self.qos = options & 3  # asked for, and once it is answered, granted; -1: refused
        self.no_local = bool(options & 4)
        self.as_published = bool(options & 8)
        self.retain_handling = options >> 4 & 3
        self.identifier = identifier  # 0: none
        self.answered_at: int | None = None  # by the count of publications

    def __repr__(self) -> str:
        return f"{self.text!r} with QoS {self.qos}"

    @property
    def is_of_queue(self) -> bool:
        return self.text.startswith("$queue/")

    @property
    def is_shared(self) -> bool:
        return self._exported.startswith("$share/")

    @property
    def _exported(self) -> str:
        """The filter as neighbor brokers would see it."""
        return self.text.removeprefix("#noexport/").removeprefix("$noexport/")

    def matches(self, topic: str) -> bool:
        """4.7: whether a topic is one of the filter's. Whatever a named queue gives its consumer is."""
        filter_text = self._exported
        if self.is_of_queue:
            return True
        if filter_text.startswith("$share/"):
            filter_text = filter_text.split("/", 2)[2]
        levels, parts = topic.split("/"), filter_text.split("/")
        if topic.startswith("$") and parts[0] in ("+", "#"):  # [4.7.2-1]
            return False
        for place, part in enumerate(parts):
            if part == "#":
                return True
            if place >= len(levels) or part not in ("+", levels[place]):
                return False
        return len(levels) == len(parts)


class Asked:
    """A CONNECT, and every filter that was subscribed to on its connection."""

    def __init__(self, level: int, client_id: str, *, clean: bool, properties: dict[int, object]) -> None:
        self.level = level
        self.client_id = client_id
        self.clean = clean
        self.packet_bytes_max = _number(properties.get(PACKET_BYTES), PACKET_BYTES_MAX)
        self.receive_maximum = _number(properties.get(RECEIVE), RECEIVE_MAXIMUM)
        self.alias_max = _number(properties.get(ALIASES), 0)
        self.wants_problems = properties.get(PROBLEMS, 1) != 0
        self.wants_response_information = properties.get(RESPONSE_INFORMATION, 0) != 0
        self.method = str(properties.get(METHOD, ""))
        self.subscribed: list[Subscribed] = []
        self.has_unsubscribed = False


def _number(value: object, default: int) -> int:
    return value if isinstance(value, int) else default


def asked_of(packet: Packet) -> Asked:
    """Read a CONNECT as far as it concerns what the server may send."""
    body = Body(packet)
    body.text()
    level, flags = body.number(1) & 0x7F, body.number(1)
    body.number(2)
    properties: dict[int, object] = {}
    if level == 5:
        raw = body.rest()
        length, pos = varint_at(raw, 0)
        properties = dict(properties_of(raw[pos : pos + length]))
        body.pos -= len(raw) - pos - length
    return Asked(level, body.text(), clean=bool(flags & 2), properties=properties)


def filters_of(packet: Packet, level: int) -> tuple[int, list[Subscribed]]:
    """Read a SUBSCRIBE or UNSUBSCRIBE: its packet id and filters."""
    body = Body(packet)
    packet_id, identifier, has_terms = body.number(2), 0, False
    if level == 5:
        raw = body.rest()
        length, pos = varint_at(raw, 0)
        found = dict(properties_of(raw[pos : pos + length]))
        identifier, has_terms = _number(found.get(SUBSCRIPTION_IDENTIFIER), 0), USER_PROPERTY in found
        body.pos -= len(raw) - pos - length
    filters: list[Subscribed] = []
    while not body.is_empty:
        text = body.text()
        options = body.number(1) if packet.kind == 8 else 0
        filters.append(Subscribed(text, options, identifier, has_terms=has_terms))
    return packet_id, filters


class Sent:
    """A message of QoS 1 or 2 that has gone out under a packet id."""

    __slots__ = ("content", "is_released", "qos")

    def __init__(self, qos: int, content: tuple[str, bytes]) -> None:
        self.qos = qos
        self.content = content
        self.is_released = False  # PUBREL has gone out: the message never comes again


class Sessions:
    """What is under way to clients, by their ids and those of packets, over the connections of one gateway's life."""

    def __init__(self) -> None:
        self.publications = Publications()
        self._sent: dict[str, dict[int, Sent]] = {}
        self._begun: set[str] = set()  # whose session is of this life

    def of(self, client_id: str, *, is_resumed: bool) -> dict[int, Sent]:
        if not is_resumed:
            self._sent[client_id] = {}
            self._begun.add(client_id)
        return self._sent.setdefault(client_id, {})

    def are_known(self, client_id: str) -> bool:
        """Return whether all is known that was ever sent in a client's session."""
        return client_id in self._begun


class Deliveries:
    """Messages to a client on one connection."""

    def __init__(self, asked: Asked, sessions: Sessions, *, is_resumed: bool) -> None:
        self._asked = asked
        self._sent = sessions.of(asked.client_id, is_resumed=is_resumed)
        self._publications = sessions.publications
        self._order = Order()
        self._is_known = sessions.are_known(asked.client_id)  # all that was ever sent in this session
        self._is_resumed = is_resumed
        self._here: set[int] = set()  # packet ids that have gone out on this connection, and are not free again
        self._pubrels_due: deque[int] = deque()  # in the order of PUBREC
        self._aliases: dict[int, str] = {}

    def published(self, first_byte: int, body: Body) -> None:
        """3.3: judge a PUBLISH."""
        asked, dup, qos = self._asked, bool(first_byte & 8), first_byte >> 1 & 3
        expect(qos < 3, "3.3.1-4", "PUBLISH of QoS 3")
        topic = body.text()
        packet_id = body.number(2) if qos else 0
        properties = body.properties() if asked.level == 5 else []
        for identifier, value in properties:
            if identifier == TOPIC_ALIAS:
                assert isinstance(value, int)
                expect(value <= asked.alias_max, "3.1.2-26", "alias {}; {} are taken", value, asked.alias_max)
                topic = self._aliases[value] = topic or self._aliases.get(value, "")
            elif identifier == RESPONSE_TOPIC:
                expect(not {"+", "#"} & set(str(value)), "3.3.2-14", "the response topic {!r}", value)
        expect(topic != "", "3.3.2-8", "PUBLISH without a topic, {}", properties)
        expect(not {"+", "#"} & set(topic), "3.3.2-2", "PUBLISH on {!r}", topic)
        identifiers = [value for identifier, value in properties if identifier == SUBSCRIPTION_IDENTIFIER]
        content = topic, body.rest()
        if not self._is_resumed:
            self._judge_subscriptions(topic, qos, identifiers)
            self._judge_published(content, first_byte, properties, identifiers)
        if qos == 0:
            expect(not dup, "3.3.1-2", "DUP at QoS 0")
        else:
            self._judge_id(packet_id, Sent(qos, content), dup=dup)

    def _judge_subscriptions(self, topic: str, qos: int, identifiers: Sequence[object]) -> None:
        """3.3.4, 3.8.4: of a client whose subscriptions are all of this connection."""
        matching = [each for each in self._asked.subscribed if each.qos >= 0 and each.matches(topic)]
        expect(bool(matching), "3.3.4", "PUBLISH on {!r}, where nothing is subscribed to", topic)
        granted = max(each.qos for each in matching)
        expect(qos <= granted, "3.8.4-8", "PUBLISH of QoS {} on {!r}, and {} is granted", qos, topic, granted)
        known = {each.identifier for each in matching}
        for each in identifiers:
            expect(each in known, "3.3.4-3", "PUBLISH on {!r} for subscription {}, of {}", topic, each, known)
        expect(bool(identifiers) or 0 in known, "3.3.4-3", "PUBLISH on {!r} for none of {}", topic, known)

    def _judge_published(
        self, content: tuple[str, bytes], first_byte: int, properties: Properties, identifiers: Sequence[object]
    ) -> None:
        """Judge a message by what was published, where that is known."""
        topic = content[0]
        matching = [each for each in self._asked.subscribed if each.qos >= 0 and each.matches(topic)]
        if any(each.is_of_queue for each in matching):  # what comes again, and in what order, is the queue's matter
            return
        came_retained = bool(first_byte & 1)
        keeps_flag = any(each.as_published for each in matching)
        if came_retained and not keeps_flag:
            is_asked = any(each.retain_handling < 2 and not each.is_shared for each in matching)
            expect(is_asked, "3.3.1-11, 3.3.1-12, 4.8.2", "PUBLISH on {!r} with RETAIN", topic)
        published = self._publications.find(*content)
        if published is None:
            return
        expect(published.retain or not came_retained, "3.3.1-8", "PUBLISH on {!r} with RETAIN", topic)
        keeps_all = bool(matching) and all(each.as_published for each in matching)
        expect(came_retained or not published.retain or not keeps_all, "3.3.1-13", "{!r} without RETAIN", topic)
        is_own = published.publisher == self._asked.client_id and all(each.no_local for each in matching)
        expect(not is_own, "3.8.3-3", "{!r} comes to its publisher", topic)
        if self._asked.level == 5:
            judge_content(published, properties)
            self._judge_identifiers(matching, published, topic, identifiers)
        if not came_retained and not first_byte & 8 and not any(each.is_shared for each in matching):
            self._order.judge(published, topic, first_byte >> 1 & 3, identifiers)

    def _judge_identifiers(
        self, matching: Sequence[Subscribed], published: Published, topic: str, identifiers: Sequence[object]
    ) -> None:
        """3.3.4-4: those of all subscriptions that it came for, where these have stood since before it."""
        stood = all(each.answered_at is not None and each.answered_at < published.number for each in matching)
        texts = {each.text for each in matching}
        is_certain = stood and not self._asked.has_unsubscribed and len(texts) == len(matching)
        if is_certain and not any(each.is_shared or each.no_local or each.has_terms for each in matching):
            due = sorted({each.identifier for each in matching} - {0})
            expect(
                sorted(map(str, identifiers)) == sorted(map(str, due)),
                "3.3.4-4",
                "{} for {} on {!r}",
                identifiers,
                due,
                topic,
            )

    def _judge_id(self, packet_id: int, message: Sent, *, dup: bool) -> None:
        expect(packet_id != 0, "2.2.1-3", "PUBLISH with the packet id 0")
        expect(packet_id not in self._here, "2.2.1-4", "packet id {} is in use", packet_id)
        expect(self._is_resumed or not dup, "3.3.1-1", "DUP under {} in a session that has begun here", packet_id)
        before = self._sent.get(packet_id)
        if before is not None:
            expect(not before.is_released, "4.3.3-6", "PUBLISH under {}, which is released", packet_id)
            is_same = before.qos == message.qos and before.content == message.content
            is_new = not is_same and self._is_known  # else an earlier life of the gateway may have sent it
            expect(not (is_new and dup), "3.3.1-1, 4.4.0-1", "another message under {} with DUP", packet_id)
            expect(is_same or before.qos == 1, "4.3.3", "another message under {}, which is not released", packet_id)
            # What a named queue took back and gives again at QoS 1 is another message to MQTT, under any free id.
            expect(dup or before.qos == 1, "3.3.1-1", "the message of {} again without DUP", packet_id)
        self._sent[packet_id] = message
        self._here.add(packet_id)
        limit = self._asked.receive_maximum
        expect(len(self._here) <= limit, "3.3.4-9", "{} are under way, and {} are taken", len(self._here), limit)

    def released(self, packet_id: int) -> None:
        """3.6: a PUBREL of the gateway, for a PUBREC, or for one of an earlier connection."""
        if self._pubrels_due and self._pubrels_due[0] == packet_id:
            self._pubrels_due.popleft()
        else:
            is_earlier = self._is_resumed and packet_id not in self._here and packet_id not in self._pubrels_due
            expect(is_earlier, "4.3.3, 4.6.0-4", "PUBREL for {}: due is {}", packet_id, list(self._pubrels_due))
        if packet_id in self._sent:
            self._sent[packet_id].is_released = True

    def answered(self, kind: int, packet_id: int, code: int) -> None:
        """Learn an answer of the client."""
        message = self._sent.get(packet_id)
        if kind == PUBREC and code < 0x80:
            self._pubrels_due.append(packet_id)
        elif message is not None and (message.qos == 1) == (kind == PUBACK):
            if kind == PUBCOMP and not message.is_released:
                return
            self._here.discard(packet_id)
            del self._sent[packet_id]
