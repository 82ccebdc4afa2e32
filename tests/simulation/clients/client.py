"""A publishing and consuming MQTT 5.0 client that follows the standard, and is slow, forgetful or absent on command."""

from collections.abc import Callable
from functools import partial
from random import Random

import support.mqtt.packets as mqtt
from simulation.clients.connected_client import Wired
from simulation.judge.overlapping_subscriptions import OVERLAP_ID, Overlap
from simulation.judge.targets import GROUP, NOT_YET, RETAINED, SESSION, Message, Rules, Target, Violation
from simulation.judge.truth import Truth
from simulation.judge.wills import SET, Will
from simulation.scenario import keys_of, queue_id
from simulation.wires.aliases import TOPIC_ALIAS_MAXIMUM, AliasesOut
from simulation.wires.memory_network import Wire
from simulation.wires.mqtt_tap import Tap, name_of, number_of

OFFLINE, CONNECTING, ONLINE = "offline", "connecting", "online"
PROMPT, LATE, HOLD, PICKY = "prompt", "late", "hold", "picky"  # how it settles; picky: it rejects some
MODES = (PROMPT, LATE, HOLD, PICKY)

REJECTED = 0x80
REJECTED_SHARE = 0.3
NEVER_EXPIRES = 0xFFFF_FFFF
UNANSWERED_MAX = 300  # below the Receive Maximum of the node
SESSION_FILTER_ID, GROUP_FILTER_ID, RETAINED_FILTER_ID = 100, 101, 102  # above those of queues
RETAINED_BYTES = 40
GROUP_PREFIX = "work/b/"
GROUP_FILTER = f"$share/crew/{GROUP_PREFIX}#"
KEEP_ALIVE_S = 20

Connect = Callable[["Client", Tap], Wire]
Later = Callable[[int, Callable[[], None]], None]
Answered = Callable[[int], None]  # told the reason code


class Client(Wired):
    """One client, over all its connections. What it keeps between them is what MQTT calls the client's session."""

    def __init__(
        self,
        name: str,
        truth: Truth,
        *,
        identifier: str,
        connect: Connect,
        later: Later,
        is_durable: bool,
        receive_maximum: int,
    ) -> None:
        super().__init__()
        self.name = name
        self._identifier = identifier
        self.mode = PROMPT
        self.state = OFFLINE
        self.disconnected_with = 0  # the code of the last DISCONNECT
        self.rng = Random(0)  # seeded anew by each step
        self.held: list[mqtt.Published] = []  # not settled yet
        self.names: dict[int, str] = {}  # of targets, by subscription identifier
        self.out: dict[int, Message] = {}  # sent and not answered for, oldest first
        self._truth = truth
        self._connect = connect
        self._later = later
        self._is_durable = is_durable
        self._receive_maximum = receive_maximum
        self._aliases_max = 0  # that it takes from the node, and gives
        self._aliases = AliasesOut(0)
        self._tap: Tap | None = None
        self._wills: list[Will] = []  # of all its connections, the last one behind
        self._unread = b""
        self._released: dict[int, Message] = {}  # PUBREC came, PUBCOMP did not
        self._bytes_out: dict[int, bytes] = {}
        self._received: dict[int, int] = {}  # packet ids of QoS 2 messages that are ours, until PUBREL: which it is
        self._next_id = 1
        self._waits: dict[int, Answered] = {}  # packet id of a request -> what to do with the answer
        self._sessions_count = 0
        self._memberships_count = 0  # times it has asked to join or leave the group
        self._membership: Callable[[], None] | None = None  # what it asked for of these, until it is answered
        self._overlap = Overlap(truth)
        self._wants_clean_start = False
        self._session_is_known = False  # the node has said that it holds a session with something in it

    @property
    def session_name(self) -> str:
        """What the truth calls its present session."""
        return f"{self.name}, session {self._sessions_count}"

    # --- what it is told to do ---

    @property
    def has_left_a_will(self) -> bool:
        """Return whether losing its connection would publish something."""
        return self._wire is not None and bool(self._wills) and self._wills[-1].state == SET

    def announces(self, *, receive_maximum: int, aliases_max: int) -> None:
        """Say so with CONNECT, from the next one on."""
        self._receive_maximum = receive_maximum
        self._aliases_max = aliases_max

    def forget(self) -> None:
        """Have no session with the node any more, from the next connection on."""
        self._wants_clean_start = True

    def connect(self, *, clean_start: bool, will: Will | None = None) -> None:
        """Open a connection. One that is open already is taken over by the node."""
        if self._wire is not None:
            self._wire.vanish()
            self._gone()
        # A session that we have forgotten must not go on [MQTT 3.2.2-4]: until the node has heard it, we say so again.
        clean_start = self._wants_clean_start or (clean_start and self._truth.may_leave(self.name))
        self._wants_clean_start = clean_start
        if clean_start:
            self._truth.ends(self.session_name)
            self._truth.forsakes(self.name)
            self._truth.leaves(self.name)
            self._session_is_known = False
            self._start_anew()
        for each in self._wills:
            each.returns(clean_start=clean_start)
        tap = Tap(
            self._truth,
            self.name,
            receive_maximum=self._receive_maximum,
            names=self.names,
            out=self.out,
            keeps_session=self._is_durable,
            overlap=self._overlap,
            will=will,
            earlier_wills=self._wills[:],
        )
        self._wills += [will] if will is not None else []
        self._tap = tap
        self.state = CONNECTING
        self._unread = b""
        self._wire = self._connect(self, tap)
        properties = mqtt.session_expiry(NEVER_EXPIRES if self._is_durable else 0)
        properties += mqtt.receive_maximum(self._receive_maximum) + mqtt.topic_alias_maximum(self._aliases_max)
        self._send(
            mqtt.connect(
                self._identifier,
                level=5,
                clean_start=clean_start,
                keep_alive_s=KEEP_ALIVE_S,
                properties=properties,
                will=None if will is None else will.part(),
            )
        )

    def close(self) -> None:
        """Send DISCONNECT."""
        if self._wire is not None:
            self._send(mqtt.disconnect())
            self._wire.finish()
            self._gone()

    def stall(self, stalls: bool) -> None:
        """Stop reading from the socket, or continue."""
        if self._wire is not None:
            self._wire.stall(stalls)

    def publish(
        self,
        topic: str,
        key: str,
        qos: int,
        size: int,
        *,
        expiry_s: int = 0,
        delay_s: int = 0,
        priority: int = 4,
        retain: bool = False,
    ) -> None:
        """Publish a message, if there is a connection and a packet id for it."""
        if self.state != ONLINE or len(self.out) + len(self._released) >= UNANSWERED_MAX:
            return
        message = self._truth.sent(self.name, key, topic, qos, expiry_s=expiry_s, delay_s=delay_s, priority=priority)
        payload = (b"%d|" % message.number).ljust(size, b".") if size else b""
        if retain:
            self._truth.retained.changes(message, deletes=not size)
        packet_id = self._free_id() if qos else 0
        properties = mqtt.user_property("JMSXGroupID", key)
        if expiry_s:
            properties += mqtt.message_expiry(expiry_s)
        if delay_s:
            properties += mqtt.user_property("sluicegate-delivery-delay-ms", str(1000 * delay_s))
        if priority != 4:
            properties += mqtt.user_property("priority", str(priority))
        packet = partial(mqtt.publish, payload=payload, level=5, qos=qos, packet_id=packet_id, retain=retain)
        if qos:
            self.out[packet_id] = message
            self._bytes_out[packet_id] = packet(topic, properties=properties)  # the next connection knows no alias
        name, alias = self._aliases.name(topic, self.rng)
        self._send(packet(name, properties=alias + properties))

    def consume(self, queue_name: str, qos: int, *, selection: int = 0) -> None:
        """Subscribe to a queue, to all of it or to some keys."""
        if self.state == ONLINE:
            identifier = queue_id(queue_name, selection)
            self.names[identifier] = queue_name  # deliveries may come before the answer
            keys = ", ".join(f"'{key}'" for key in keys_of(identifier))
            selector = mqtt.user_property("selector", f"JMSXGroupID IN ({keys})") if keys else b""
            self._subscribe(identifier, f"$queue/{queue_name}", qos, lambda code: None, selector=selector)

    def subscribe(self, prefix: str, qos: int) -> None:
        """Subscribe to all topics with a prefix, for the session, and once in it."""
        # One that is not kept may have ended, and the client not heard of it.
        has_one = SESSION_FILTER_ID in self.names and not self._is_durable
        if self.state != ONLINE or has_one or self.session_name in self._truth.targets:
            return
        self._sessions_count += 1
        target = self._truth.begins(self.session_name, SESSION, (prefix,), Rules(respects_expiry=True), is_sure=False)
        self.names[SESSION_FILTER_ID] = self.session_name

        def answered(code: int) -> None:
            if code < 0x80:
                target.since_tick = self._truth.next_tick()

        self._subscribe(SESSION_FILTER_ID, f"{prefix}#", qos, answered)

    def overlap(self, qos: int) -> None:
        """Subscribe for the session to some of the topics once more."""
        target = self._truth.targets.get(self.session_name)
        if self.state == ONLINE and target is not None and target.since_tick != NOT_YET:
            heard = self._overlap.asks(target.prefixes[0])
            self._subscribe(OVERLAP_ID, self._overlap.filter_text, qos, heard)

    def end_overlap(self) -> None:
        """Take that back."""
        if self.state == ONLINE:
            self.unsubscribe(self._overlap.filter_text, self._overlap.leaves())

    def retain(self, qos: int, *, deletes: bool = False, expiry_s: int = 0) -> None:
        """Set what is retained, or delete it, unless the change before is unanswered: that may be sent again."""
        if not any(message.topic == RETAINED for message in self.out.values()):
            self.publish(RETAINED, "", qos, 0 if deletes else RETAINED_BYTES, expiry_s=expiry_s, retain=True)

    def look(self) -> None:
        """Subscribe to the retained message, and be sent it."""
        if self.state == ONLINE and self._tap is not None:
            self.names[RETAINED_FILTER_ID] = RETAINED
            self._tap.looks()
            self._subscribe(RETAINED_FILTER_ID, RETAINED, 0, lambda code: None)

    @property
    def saw(self) -> Message | None:
        """What it was sent last of the topic of retained messages, since it looked on this connection."""
        return self._tap.saw if self._tap is not None else None

    def join(self, qos: int) -> None:
        """Become a member of the shared subscription. A durable one only: it decides what the group outlives."""
        if self.state != ONLINE or not self._is_durable or not self._truth.may_join():
            return
        if GROUP not in self._truth.targets:
            self._truth.begins(GROUP, GROUP, (GROUP_PREFIX,), Rules(respects_expiry=True), is_sure=False)
        self.names[GROUP_FILTER_ID] = GROUP
        self._truth.joining.add(self.name)
        heard = self._truth.joins
        self._ask_for(lambda answered: self._subscribe(GROUP_FILTER_ID, GROUP_FILTER, qos, answered), heard)

    def leave(self) -> None:
        """Be a member no more."""
        if self.state == ONLINE and self._truth.may_leave(self.name):
            self._truth.leaves(self.name)
            self._ask_for(lambda answered: self.unsubscribe(GROUP_FILTER, answered), self._truth.has_left)

    def _ask_for(self, request: Callable[[Answered], None], heard: Callable[[str], None]) -> None:
        """Ask to be a member or not to be, now and when back, until it is answered or something else is asked for."""
        self._memberships_count += 1
        number = self._memberships_count

        def answered(code: int) -> None:
            if number == self._memberships_count:
                self._membership = None
                (heard if code < 0x80 else self._truth.has_left)(self.name)

        self._membership = lambda: request(answered)
        self._membership()

    def _subscribe(
        self, identifier: int, filter_text: str, qos: int, answered: Answered, *, selector: bytes = b""
    ) -> None:
        packet_id = self._free_id()

        def done(code: int) -> None:
            self._session_is_known = self._is_durable
            answered(code)

        self._waits[packet_id] = done
        properties = mqtt.subscription_identifier(identifier) + selector
        self._send(mqtt.subscribe((filter_text, qos), packet_id=packet_id, level=5, properties=properties))

    def unsubscribe(self, filter_text: str, answered: Answered = lambda code: None) -> None:
        """Take a subscription back."""
        if self.state != ONLINE:
            return
        packet_id = self._free_id()
        self._waits[packet_id] = answered
        self._send(mqtt.unsubscribe(filter_text, packet_id=packet_id, level=5))

    def settle(self, count: int, *, order: int, reason_code: int, twice: bool) -> None:
        """Settle some of what is held: `order` 0 the oldest, 1 the newest, 2 any."""
        if self.state != ONLINE:
            return
        for _ in range(min(count, len(self.held))):
            place = 0 if order == 0 else -1 if order == 1 else self.rng.randrange(len(self.held))
            each = self.held.pop(place)
            self._answer(each, reason_code)
            if twice:
                self._answer(each, reason_code)

    def tick(self) -> None:
        """Show that it is alive."""
        if self.state == ONLINE:
            self._send(mqtt.pingreq())

    # --- what comes ---

    def received(self, data: bytes) -> None:
        """Handle packets of the node."""
        packets, self._unread = mqtt.take_packets(self._unread + data)
        for packet in packets:
            if self._wire is None:
                return
            self._handle(packet)

    def disconnected(self) -> None:
        """The node, or the network, has ended the connection."""
        self._wire = None
        self._gone()

    def _handle(self, packet: mqtt.Packet) -> None:
        kind = packet.kind
        if kind == mqtt.CONNACK:
            self._connected(mqtt.connack(packet, 5))
        elif kind == mqtt.PUBLISH:
            self._delivery(mqtt.published(packet, 5))
        elif kind in (mqtt.PUBACK, mqtt.PUBREC, mqtt.PUBCOMP):
            self._answered(kind, mqtt.packet_id_of(packet), packet.body[2] if len(packet.body) > 2 else 0)
        elif kind == mqtt.PUBREL:
            packet_id = mqtt.packet_id_of(packet)
            self._received.pop(packet_id, None)
            self._send(mqtt.acknowledgement(mqtt.PUBCOMP, packet_id))
        elif kind in (mqtt.SUBACK, mqtt.UNSUBACK):
            self._waits.pop(mqtt.packet_id_of(packet))(mqtt.suback_codes(packet, 5)[0])
        elif kind == mqtt.DISCONNECT:
            code = self.disconnected_with = mqtt.server_disconnect(packet).reason_code
            if code in (0x81, 0x82):
                raise Violation(f"{self.name} was disconnected with 0x{code:02x}, and had done nothing wrong")

    def _connected(self, answer: mqtt.Answer) -> None:
        if answer.reason_code in (
            0x80,
            0x83,
            0x97,
        ):  # taken over, or the node stopped; the store failed
            return
        if answer.reason_code:
            raise Violation(f"{self.name} was refused with 0x{answer.reason_code:02x}")
        if self._session_is_known and not answer.session_present:
            raise Violation(f"the session of {self.name} is lost")
        self.state = ONLINE
        maximum = answer.value(TOPIC_ALIAS_MAXIMUM)
        self._aliases = AliasesOut(min(self._aliases_max, maximum if isinstance(maximum, int) else 0))
        if self._wants_clean_start:
            self._truth.forsakes(self.name)  # once more: until now the node may have sent something
        self._wants_clean_start = False
        if not answer.session_present:
            self._start_anew()
            self._truth.has_left(self.name)
            if self._tap is not None:
                self._tap.out, self._tap.overlap = self.out, self._overlap
        for packet_id, message in list(self.out.items()):  # [4.4.0-1], in the order first sent [4.6.0-1]
            message.sent_count += 1
            packet = self._bytes_out[packet_id]
            self._send(bytes([packet[0] | 8]) + packet[1:])
        for packet_id in self._released:
            self._send(mqtt.acknowledgement(mqtt.PUBREL, packet_id))
        if self._membership is not None:
            self._membership()

    def _delivery(self, publish: mqtt.Published) -> None:
        if publish.qos == 0:
            return
        self._check_id(publish)
        if publish.qos == 2 and publish.packet_id not in self._received:
            self._received[publish.packet_id] = number_of(publish.payload)
            target = self._target_of(publish)
            if target is not None:
                self._truth.came_anew(target, number_of(publish.payload), is_kept=self._is_durable)
        if self.mode == PROMPT:
            self._answer(publish, 0)
        elif self.mode == PICKY:
            self._answer(publish, REJECTED if self.rng.random() < REJECTED_SHARE else 0)
        elif self.mode == HOLD:
            self.held.append(publish)
        else:
            wire = self._wire
            self._later(self.rng.randrange(50_000), lambda: self._answer(publish, 0) if self._wire is wire else None)

    def _check_id(self, publish: mqtt.Published) -> None:
        """What comes under the packet id of a message that we have is that message to us, until PUBREL [MQTT 4.3.3]."""
        number, known = number_of(publish.payload), self._received.get(publish.packet_id)
        if known is not None and (known != number or not publish.dup or publish.qos != 2):
            raise Violation(f"{self.name} got {publish} under the packet id of message {known}, which is not released")

    def _target_of(self, publish: mqtt.Published) -> Target | None:
        """Return what a delivery belongs to, if nobody else may get it: the client's session, or the group."""
        target = self._truth.targets.get(name_of(publish, self.names) or "")
        return target if target is not None and target.kind in (SESSION, GROUP) else None

    def _answer(self, publish: mqtt.Published, reason_code: int) -> None:
        if publish.qos == 1:
            self._send(mqtt.puback(publish.packet_id, reason_code or None))
            return
        if reason_code:
            self._received.pop(publish.packet_id, None)
            target = self._target_of(publish)
            if target is not None:
                self._truth.does_without(target, number_of(publish.payload))
        self._send(mqtt.pubrec(publish.packet_id, reason_code or None))

    def _answered(self, kind: int, packet_id: int, reason_code: int) -> None:
        if kind == mqtt.PUBCOMP:
            self._released.pop(packet_id, None)
            return
        message = self.out.pop(packet_id, None)
        self._bytes_out.pop(packet_id, None)
        if kind == mqtt.PUBREC and reason_code < 0x80:
            if message is not None:
                self._released[packet_id] = message
            self._send(mqtt.acknowledgement(mqtt.PUBREL, packet_id))

    # --- what it is made of ---

    def _send(self, data: bytes) -> None:
        if self._wire is not None:
            self._wire.send(data)

    def _gone(self) -> None:
        self._wire = None
        self.state = OFFLINE
        self.held.clear()
        self._waits.clear()
        if not self._is_durable:
            self._truth.ends(self.session_name)
            self._overlap = Overlap(self._truth)
            self.names = {}  # a new one: the node's end of the connection may live a while longer

    def _start_anew(self) -> None:
        """The node knows nothing of us: neither do we [MQTT 4.1.0]. What was sent has an unknown fate."""
        for message in [*self.out.values(), *self._released.values()]:
            message.session_lost = True
        self.out = {}  # a new one: the node's end of an earlier connection may live a while longer
        self._bytes_out.clear()
        self._released.clear()
        self._received.clear()
        self._overlap = Overlap(self._truth)
        self._memberships_count += 1
        self._membership = None

    def _free_id(self) -> int:
        while self._next_id in self.out or self._next_id in self._released or self._next_id in self._waits:
            self._next_id = self._next_id % 65_535 + 1
        packet_id = self._next_id
        self._next_id = self._next_id % 65_535 + 1
        return packet_id
