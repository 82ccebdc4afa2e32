"""The will that a client leaves with CONNECT: when it must come, may come, and must not come.

Rules [MQTT 3.1.2.5, 3.1.3.2.2]: a will does not come while its client is connected, nor after its DISCONNECT, nor
before its delay is over, unless the session ends first; a client that returns before that cancels it. It comes once, to
all queues that want it. Neither a crash nor a stop loses the will of a kept session, unless it has QoS 0: then it is
direct.
"""

from typing import Final

import support.mqtt.packets as mqtt
from simulation.judge.targets import QUEUE_KINDS, RETAINED, Violation
from simulation.judge.timeliness import TICK_US
from simulation.judge.truth import Truth

SET, CALLED_OFF, DUE, OPEN = "set", "called off", "due", "open"  # open: nobody knows if it comes
WILL_BYTES: Final = 40


class Will:
    """The will of one connection. `is_kept`: that of a session that outlives it."""

    def __init__(
        self,
        truth: Truth,
        client: str,
        number: int,
        topic: str,
        key: str,
        *,
        qos: int,
        delay_s: int,
        is_kept: bool,
        expiry_s: int = 0,
    ) -> None:
        self.state = SET
        self.message = truth.sent(f"{client}, will {number}", key, topic, qos, expiry_s=expiry_s, withheld=True)
        self.message.is_known = True
        self.delay_s = delay_s
        self.payload = (b"%d|" % self.message.number).ljust(WILL_BYTES, b".")
        self._truth = truth
        self._is_kept = is_kept
        self._has_begun = False  # its client was let in
        self._has_returned = False  # its client has connected anew
        self._session_ends = False  # by that
        self._is_sure = False  # it has to come, if the store takes it
        self._is_back = False  # and was let in

    def part(self) -> mqtt.WillPart:
        """Return its part of CONNECT."""
        properties = mqtt.will_delay(self.delay_s) + mqtt.user_property("JMSXGroupID", self.message.key)
        if self.message.expiry_s:
            properties += mqtt.message_expiry(self.message.expiry_s)
        is_retained = self.message.topic == RETAINED
        return mqtt.WillPart(
            self.message.topic, self.payload, qos=self.message.qos, retain=is_retained, properties=properties
        )

    # --- what passes the node's end of the wire ---

    def begun(self) -> None:
        """CONNACK was written."""
        self._has_begun = True

    def refused(self) -> None:
        """CONNACK said that its client is not let in. It hears that before it could have called the will off."""
        self.state = CALLED_OFF
        self.message.withheld = True

    def goodbye(self) -> None:
        """The node has read DISCONNECT. That of a connection which was taken over meanwhile may count for nothing."""
        if self.state == SET:
            self.state = OPEN if self._has_returned else CALLED_OFF
            self.message.withheld = self.state == CALLED_OFF

    def lost(self) -> None:
        """The connection has ended, and no goodbye was read."""
        if self.state == SET:
            self._falls_due(is_sure=self._has_begun)
            self.message.promised_us = self.message.sent_us + 1_000_000 * self.message.delay_s  # when it is published

    def returns(self, *, clean_start: bool) -> None:
        """Its client connects again: perhaps in time."""
        self._has_returned = True
        if clean_start:
            self._session_ends = True
            self.message.delay_s = 0
        elif self._waits():
            self._is_sure = False

    def returned(self) -> None:
        """CONNACK was written on a later connection, of the same session unless that has ended."""
        self._is_back = True
        if self.state == DUE and self._waits() and self._left_us() > TICK_US:
            self.state, self.message.withheld = CALLED_OFF, True

    def crashed(self) -> None:
        """The node has lost what its store had not."""
        if self.state == SET and not self._is_kept:
            self.state = CALLED_OFF
        elif self.state == SET:
            self._falls_due(is_sure=self._has_begun)
        elif self.state == CALLED_OFF and self._is_kept and (not self._is_back or self._truth.course.store_faults):
            self.state, self.message.withheld = OPEN, False  # the store may not have heard that it was called off
        elif self.state in (DUE, OPEN):
            self.message.sent_count += 1
            self._is_sure = self._is_sure and self._is_kept

    # --- at the end ---

    @property
    def is_sure(self) -> bool:
        """Return whether it has to come: nobody hears of it when it is refused."""
        is_taken = not self._truth.course.store_faults and self._truth.over_quota_tick < self.message.sent_tick
        return self._is_sure and is_taken and self.message.qos > 0

    def check(self) -> None:
        """Raise Violation when it had to come, and is missing in a queue. All was drained."""
        truth, message = self._truth, self.message
        if not self.is_sure:
            return
        wanting = [each for each in [*truth.targets.values(), *truth.ended] if each.wants(message)]
        if any(end == 0 or end > message.sent_tick for each in wanting for _, end in each.outages):
            return  # whoever takes nothing refuses it for all
        for target in wanting:
            if target.kind in QUEUE_KINDS and target.gets_for_sure(message) and message.number not in target.seen:
                raise Violation(f"{message} was due, and never came into {target.name}")

    # --- what it is made of ---

    def _falls_due(self, *, is_sure: bool) -> None:
        message, truth = self.message, self._truth
        if self._is_back and self._waits():
            self.state = CALLED_OFF  # it was taken over, and goes on
            return
        self.state = DUE
        message.withheld = False
        message.sent_tick, message.sent_us = truth.next_tick(), truth.now_us()
        message.crashes_when_sent = truth.course.crashes
        message.delay_s = self.delay_s if self._waits() else 0
        self._is_sure = is_sure and not (self._has_returned and self._waits())

    def _waits(self) -> bool:
        return self.delay_s > 0 and self._is_kept and not self._session_ends

    def _left_us(self) -> int:
        return self.message.sent_us + 1_000_000 * self.message.delay_s - self._truth.now_us()
