"""The judge of a simulated run: what the node promised and what clients saw, in a plain form.

It knows nothing of the broker's inside. It gets the bytes that the node writes to its clients and reads from them, at
that moment, and the requests of operators. Time here is a count of events (`tick`).

Rules, `Violation` otherwise:

- no message comes that was not published, or whose topic the queue does not want;
- a consumer of every queue that must get a confirmed message settles it in the end; or an operator purged it, or it
  was tried as often as the queue allows, or it was in a page that the simulation damaged;
- first deliveries of a queue with an order come in the order published, and no message comes while an earlier confirmed
  one of its key is neither settled nor with the same consumer;
- a second delivery is flagged, also of a message that its publisher sent again, and its delivery count is never less
  than what consumers saw;
- a settled message does not come again, unless the node crashed or the settlement was void;
- no message comes after it has expired, except again to a session;
- a rejected message comes to the dead message queue;
- exactly once is once;
- all queues that want a message get it, or none does, also if its publisher never got a response.
"""

from bisect import insort
from collections.abc import Callable, Iterable

from simulation.course import Course
from simulation.judge.far_flows import FarFlows
from simulation.judge.retained import RetainedTopic
from simulation.judge.targets import (
    DEAD,
    GROUP,
    NOT_YET,
    PARTITIONED,
    SESSION,
    Holder,
    Message,
    Rules,
    Seen,
    Target,
    Violation,
)
from simulation.judge.timeliness import check_expiry, check_holder, check_priority, check_time
from simulation.publish_acl import PublishAcl

DENIED = 0x87  # the reason code of what its client may not publish


class Truth:
    """Everything that was promised in one run, over all lives of the node."""

    def __init__(
        self,
        now_us: Callable[[], int],
        course: Course | None = None,
        *,
        broker: str = "",
        queues_elsewhere: Iterable[str] = (),
    ) -> None:
        """Judge one broker. One of a network has a name, and the course of the run in common with the others."""
        self.now_us = now_us  # virtual time
        self.course = Course() if course is None else course
        self.broker = broker
        self.others: list[Truth] = []  # of the other brokers of the network
        self.far = FarFlows(queues_elsewhere, self.course.messages)
        self.life = 0  # of the node: how often it has started
        self.begins_after_stop = False  # this life of the node: it was stopped in order before
        self.targets: dict[str, Target] = {}  # those there are now
        self.members: set[str] = set()  # clients that are sure to be in the shared subscription
        self.joining: set[str] = set()  # those that have asked to be
        self.leaving: set[str] = set()  # those that have asked not to be, and may be yet
        self.ended: list[Target] = []
        self.stored: set[int] = set()  # messages of other brokers that are in the store, or have been
        self.came_unjudged: set[int] = set()  # messages that a queue delivered which the truth did not know
        self.retained = RetainedTopic(now_us, lambda: self.course.crashes)
        self.acl = PublishAcl()
        self.over_quota_tick = 0  # when the message VPN may last have refused messages for its quota
        self.deliveries_count = 0
        self.settled_count = 0

    def next_tick(self) -> int:
        """Note that something happened; return when."""
        self.course.tick += 1
        return self.course.tick

    def store_refuses(self) -> None:
        """The store has refused a commit: what was on its way to the dead message queue is dropped."""
        self.course.refused_tick = self.next_tick()
        for message in self.course.messages.values():
            # The publisher may have left, and sends it again. So does another broker, by its link.
            is_sent_again = message.is_known and not message.promised_tick
            if is_sent_again or (message.broker != self.broker and message.number not in self.stored):
                message.sent_count += 1
                message.unmarked_count += 1

    # --- publishers ---

    def sent(
        self,
        publisher: str,
        key: str,
        topic: str,
        qos: int,
        *,
        expiry_s: int = 0,
        delay_s: int = 0,
        priority: int = 4,
        withheld: bool = False,
    ) -> Message:
        """A publisher sends a message for the first time."""
        number, tick, now_us = len(self.course.messages) + 1, self.next_tick(), self.now_us()
        if self.broker:
            publisher = f"{self.broker}/{publisher}"
        message = Message(
            number, publisher, key, topic, qos, tick, self.course.crashes, now_us, expiry_s, delay_s, priority, withheld
        )
        message.broker = self.broker
        self.course.messages[number] = message
        return message

    def sent_again(self, message: Message, *, is_marked: bool = False) -> None:
        """A publisher that is known by its name returns: to the node it is the same message, if it still has that.

        `is_marked`: it says that the message may have come before. Of others the node knows it after a crash only, and
        in the life that begins with it (decision 0013).
        """
        wanting = [each for each in [*self.targets.values(), *self.ended] if each.wants(message)]
        was_out = any(end == 0 or end > message.sent_tick for each in wanting for _, end in each.outages)
        # What was refused is published anew if the publisher has not heard of that, and may be taken now.
        if was_out or self.course.store_faults or self.course.crashes > message.crashes_when_sent or message.refused:
            message.sent_count += 1
        crash_is_forgotten = self.begins_after_stop and self.course.crashes > message.crashes_when_sent
        if not is_marked and (self.course.store_faults or crash_is_forgotten):
            message.unmarked_count += 1

    def promised(self, message: Message, reason_code: int) -> None:
        """The node wrote PUBACK or PUBREC."""
        tick = self.next_tick()
        if reason_code >= 0x80:
            message.refused = True
            if reason_code == DENIED:
                self.acl.check_denied(message)
            if message.promised_tick == 0 and message.sent_count == 1:
                known = [each for truth in (self, *self.others) for each in (*truth.targets.values(), *truth.ended)]
                for target in known:
                    if target.name and message.number in target.seen and self._is_barred_from(target, message):
                        raise Violation(f"{message} was refused, and {target.name} has delivered it")
            return
        if message.promised_tick:
            return
        self.acl.check_accepted(message)
        message.promised_tick = tick
        message.promised_us = self.now_us()
        message.promised_to_nobody = reason_code == 0x10
        for truth in (self, *self.others):
            truth.owes_what_was_promised(message)

    def owes_what_was_promised(self, message: Message) -> None:
        """A broker, this one or another, has confirmed a message."""
        for target in self.targets.values():
            if not target.owes(message):
                continue
            if message.promised_to_nobody and not target.rules.is_temporary:  # which may have just ended
                raise Violation(f"{message} was confirmed as wanted by nobody, and {target.name} wants it")
            seen = target.seen.get(message.number)
            if seen is None or seen.settled_tick == 0:
                self._line_up(target, message)

    def restored(self) -> None:
        """The broker begins anew with a backup: its queues and sessions are older ones, and so is what it knows."""
        for name in list(self.targets):
            self.ends(name)
        for members in (self.members, self.joining, self.leaving):
            members.clear()
        for message in self.course.messages.values():
            # Publishers cannot know what the backup has of what they sent, nor can consumers what will come again.
            message.sent_count += 1
            message.unmarked_count += 1
            message.session_lost = True
            message.is_undone = message.is_undone or message.broker == self.broker
        for truth in self.others:
            for target in truth.targets.values():
                target.known_tick.pop(self.broker, None)

    def _line_up(self, target: Target, message: Message) -> None:
        """Nothing is to overtake it from now on. Sent again after a refusal it stands behind later ones."""
        line = target.line_of(message)
        if line is not None and not (message.refused or self._may_be_refused_unheard(message)):
            insort(target.lines.setdefault(line, []), message, key=lambda each: each.number)

    def _may_be_refused_unheard(self, message: Message) -> bool:
        """Return whether the store may have refused it, and its publisher has sent it again without hearing of that."""
        return message.sent_count > 1 and self.course.refused_tick > message.sent_tick

    # --- targets ---

    def begins(self, name: str, kind: str, prefixes: tuple[str, ...], rules: Rules, *, is_sure: bool = True) -> Target:
        """A queue exists, or a session is subscribed; from now on, or if not `is_sure` from when its tick is set."""
        since = self.next_tick() if is_sure else NOT_YET
        target = self.targets[name] = Target(name, kind, prefixes, since, rules, broker=self.broker)
        target.touched_us = self.now_us()
        return target

    def ends(self, name: str) -> None:
        """A queue or session is about to go."""
        target = self.targets.pop(name, None)
        if target is not None:
            target.until_tick = self.next_tick()
            self.ended.append(target)

    def joins(self, client: str) -> None:
        """A client has heard that it is in the shared subscription."""
        self.joining.discard(client)
        self.leaving.discard(client)
        target = self.targets.get(GROUP)
        if target is not None:
            self.members.add(client)
            target.since_tick = min(target.since_tick, self.next_tick())

    def may_leave(self, client: str) -> bool:
        """Return whether it will be known if the shared subscription ends when this client leaves it."""
        return bool(self.members - {client}) or not (self.joining | self.leaving) - {client}

    def may_join(self) -> bool:
        """Return whether it is known if there is a shared subscription."""
        return GROUP in self.targets or not self.leaving

    def leaves(self, client: str) -> None:
        """A client that may do so is about to leave the shared subscription, which ends with its last member."""
        if client in self.members or client in self.joining:
            self.members.discard(client)
            self.joining.discard(client)
            self.leaving.add(client)
            if not self.members:
                self.ends(GROUP)

    def has_left(self, client: str) -> None:
        """A client has heard that it is not in the shared subscription."""
        self.joining.discard(client)
        self.leaving.discard(client)

    def gives_back(self, client: str) -> None:
        """A client has unsubscribed, perhaps from the shared subscription: what it has not answered is for others."""
        for _, seen in self._sent_once_to(client):
            seen.member = ""
            seen.given_back = True

    def forsakes(self, client: str) -> None:
        """A member's session is about to end, or has: what was sent to it at QoS 2 is given to nobody [MQTT 4.8.2-5].

        What was never written to anybody may have been on its way to that member.
        """
        target = self.targets.get(GROUP)
        if target is not None:
            target.forsaken.update(number for number, _ in self._sent_once_to(client))
            target.forsaken.update(
                each.number
                for each in self.course.messages.values()
                if each.qos == 2 and each.number not in target.seen
            )

    def _sent_once_to(self, client: str) -> list[tuple[int, Seen]]:
        """Return what was sent to a member of the shared subscription at QoS 2, and not settled."""
        target = self.targets.get(GROUP)
        seen = {} if target is None else target.seen
        return [(number, each) for number, each in seen.items() if each.member == client and each.is_unsettled()]

    def outage(self, name: str, begins: bool) -> None:
        """A queue may take nothing from now on, or does so again."""
        target = self.targets.get(name)
        if target is None:
            return
        tick = self.next_tick()
        is_out = bool(target.outages) and target.outages[-1][1] == 0
        if begins and not is_out:
            target.outages.append([tick, 0])
        elif not begins and is_out:
            target.outages[-1][1] = tick

    def limits(self, name: str, redeliveries_max: int) -> None:
        """A queue may have this limit of redeliveries from now on; 0: none."""
        target = self.targets[name]
        was_limited = target.tries_max > 0 or not target.was_configured
        target.was_configured = True
        target.may_give_up = target.may_give_up or redeliveries_max > 0
        limited = redeliveries_max > 0 and was_limited
        target.tries_max = max(target.tries_max, redeliveries_max + 1) if limited else 0

    def replays(self, target: Target) -> None:
        """A queue may offer what was settled again, by ledgers that are made anew."""
        target.flow_cuts += 1
        target.forgot_tick = self.next_tick()
        target.highest.clear()  # it begins with the oldest, and with what was purged before anybody had it
        for seen in target.seen.values():
            seen.settled_for_good = -1
            seen.is_committed = False

    def unordered(self, name: str, begins: bool) -> None:
        """A queue may have no partitions from now on, or has some again: what comes then is in order."""
        target = self.targets[name]
        if begins or target.unordered_until == NOT_YET:
            target.unordered_until = NOT_YET if begins else self.next_tick()

    def hangs_up(self, names: Iterable[str]) -> None:
        """The node has lost a connection whose client consumes these targets."""
        tick = self.next_tick()
        for name in names:
            if name in self.targets:
                self.targets[name].hung_up_tick = tick

    def breaks(self, target: Target, *, is_over: bool) -> None:
        """A partition may have failed too often: what the store does not know yet is forgotten when it is read back."""
        target.is_broken = not is_over
        target.flow_cuts += 1
        target.forgot_tick = self.next_tick()
        if target.kind == GROUP:
            for seen in target.seen.values():
                seen.member = ""
                seen.given_back = True

    # --- consumers ---

    def delivered(
        self,
        target: Target,
        message_number: int,
        holder: Holder,
        *,
        held_us: int,
        flagged: bool,
        count: int,
        again: bool,
        may_be_late: bool = False,
    ) -> None:
        """The node wrote a delivery; its consumer may have been given it at `held_us`, or before if it `may_be_late`.

        `count` 0: it is not told. `again` is DUP: the node has, or may have, sent it to this client before.
        """
        message = self.course.messages.get(message_number)
        if message is None:
            raise Violation(f"{target.name} delivered {message_number}, which nobody published")
        self.check_belongs(target, message, "delivered")
        self.deliveries_count += 1
        seen = target.seen.setdefault(message_number, Seen())
        self._check_order(target, message, seen, holder, again=again)
        check_time(target, message, seen, now_us=self.now_us(), life=self.life)
        if target.rules.by_priority and not target.rules.selects:
            check_priority(target, message, seen, now_us=self.now_us())
        check_holder(target, message, seen, now_us=self.now_us(), life=self.life)
        is_forgotten = message.crashes_when_sent < self.course.crashes or message.sent_tick < target.forgot_tick
        # What was on its way to a connection that was lost may not have been written to it.
        is_forgotten = is_forgotten or message.sent_tick < target.hung_up_tick
        if not may_be_late and (target.kind not in (SESSION, GROUP) or not (is_forgotten or again)):
            # else its delivery may have begun, and then a session must not drop it [MQTT 4.3.3-7]
            check_expiry(target, message, seen, now_us=self.now_us())
        if target.kind not in (SESSION, GROUP, DEAD):  # a message can die in several queues
            self._check_flags(target, message, seen, flagged, count)
        if seen.settled_for_good == self.course.crashes and message.sent_count == 1:
            raise Violation(f"{target.name} delivered {message} again, after it was settled")
        if seen.is_committed and message.sent_count == 1:
            raise Violation(f"{target.name} delivered {message} again, after a commit had settled it")
        seen.crashes = self.course.crashes
        seen.first_crashes = self.course.crashes if seen.count == 0 else seen.first_crashes
        if seen.forgotten == (self.course.crashes, target.forgot_tick):
            seen.count_known += 1
        else:  # what was sent before may have been with the connection by then, and is written only now
            seen.count_known = 0 if message.sent_tick < target.forgot_tick else 1
        seen.forgotten = (self.course.crashes, target.forgot_tick)
        seen.count += 1
        seen.fresh_count += 0 if flagged else 1
        seen.is_answered = seen.is_answered and seen.holder is holder
        seen.holder, seen.held_us = holder, held_us
        seen.held_life, seen.held_cuts = self.life, target.flow_cuts
        seen.is_returned = False
        target.touched_us = self.now_us()

    def check_belongs(self, target: Target, message: Message, did: str) -> None:
        """A target delivers a message, or shows it. Raises Violation when it cannot have it."""
        if not target.wants(message):
            raise Violation(f"{target.name} {did} {message}, and does not want its topic")
        if message.withheld:
            raise Violation(f"{target.name} {did} {message}, which nobody is to have")
        is_barred = message.refused and message.sent_count == 1 and self._is_barred_from(target, message)
        if is_barred and not message.promised_tick:
            raise Violation(f"{target.name} {did} {message}, which was refused")
        self.acl.check_accepted(message)
        if target.kind == DEAD and not self._can_have_died(message):
            raise Violation(f"{target.name} {did} {message}, which no queue has delivered")

    def _is_barred_from(self, target: Target, message: Message) -> bool:
        """Return whether a message that is refused comes to nobody there: if a store fails, it may have come before."""
        return self.course.store_faults == 0 or (message.is_transacted and target.is_remote(message))

    def came_anew(self, target: Target, message_number: int, *, is_kept: bool) -> None:
        """A QoS 2 delivery came under a packet id that its receiver did not know: to it, it is a new message.

        To a session that is kept (`is_kept`) no message goes out that the store does not have. Another one may have got
        it by the time that the store refuses it; when its publisher sends it again, that one is published anew.
        """
        message, seen = self.course.messages[message_number], target.seen[message_number]
        seen.new_count += 1
        if seen.given_back or message.session_lost or message.refused or target.is_broken:
            return
        if not is_kept and self._may_be_refused_unheard(message):
            return
        if message.qos == 2 and seen.new_count > 1:
            raise Violation(f"{target.name} got {message} twice under QoS 2")

    def goes_to(self, target: Target, message_number: int, member: str, *, is_once: bool, is_leaving: bool) -> None:
        """A member gets a message of the shared subscription: after QoS 2 nobody else does [MQTT 4.8.2-4]."""
        message, seen = self.course.messages[message_number], target.seen[message_number]
        is_free = message.session_lost or message.refused or target.is_broken
        if seen.member not in ("", member) and not is_free:
            raise Violation(f"{target.name} gave {message} to {member}, and has sent it to {seen.member} under QoS 2")
        seen.sent_once = seen.sent_once or is_once
        if is_leaving:
            seen.given_back = True
        elif is_once:
            seen.member = member

    def does_without(self, target: Target, message_number: int) -> None:
        """A QoS 2 delivery was refused by its receiver: to it, the message is new when it comes again."""
        seen = target.seen.get(message_number)
        if seen is not None:
            seen.member = ""
            seen.new_count -= 1

    def settled(
        self,
        target: Target,
        message_number: int,
        holder: Holder,
        *,
        for_good: bool,
        rejected: bool,
        of_next: bool = False,
    ) -> None:
        """The node read a settlement. `for_good`: nothing but a crash can bring the message again.

        `of_next`: it may have come too late for its delivery, and counts for the next one if that is on its way.
        """
        message = self.course.messages[message_number]
        seen = target.seen[message_number]
        if seen.settled_tick == 0:
            self.settled_count += 1
        seen.settled_tick = self.next_tick()
        seen.settled_crashes = self.course.crashes
        # A settlement names the message, not the delivery: a late one that comes when its consumer has the message once
        # more is the word on both. Of who has it no more it is none: another one says what becomes of the message.
        if seen.holder is holder:
            if seen.answered_us < seen.held_us:
                seen.was_rejected, seen.answered_tick = rejected and not seen.is_answered, seen.settled_tick
                seen.is_answered = of_next
            seen.answered_us = self.now_us()
        if for_good and target.kind not in (PARTITIONED, DEAD):
            seen.settled_for_good = self.course.crashes
        target.touched_us = self.now_us()
        line = target.lines.get(target.line_of(message) or "")
        if line is not None and message in line:
            line.remove(message)

    def settled_by_commit(self, target: Target, message_number: int, holder: Holder) -> None:
        """A transaction that settled it is committed: for good, whatever happens. Its consumer had it until then."""
        message, seen = self.course.messages[message_number], target.seen[message_number]
        if target.kind == DEAD or message.sent_count > 1:
            return  # there may be several of it
        if seen.holder is not holder:
            raise Violation(f"{target.name}: a commit settled {message}, which another consumer had by then")
        seen.is_committed = True

    def comes_back(self, target: Target, message_number: int, tick: int, tick_before: int) -> None:
        """A transaction that settled it, at the tick, was rolled back; unless somebody has settled it since."""
        message, seen = self.course.messages[message_number], target.seen[message_number]
        if seen.settled_tick != tick:
            return
        seen.settled_tick = tick_before
        if tick_before == 0 and target.owes(message):
            self._line_up(target, message)

    def _check_order(self, target: Target, message: Message, seen: Seen, holder: Holder, *, again: bool) -> None:
        line = target.line_of(message)
        if line is None:
            return
        if message.sent_tick < target.unordered_until or (target.kind == GROUP and again):
            return  # the latter: it is completed with the member that it was sent to, whoever has its key by now
        later = self.course.messages.get(target.highest.get(line, 0))
        if later is not None and seen.count == 0 and later.number > message.number:
            was_sent_once = message.sent_count == later.sent_count == 1
            if was_sent_once and not target.may_have_back(self.course.refused_tick, later):
                raise Violation(f"{target.name} delivered {message} behind {later}")
        if seen.count == 0:
            target.highest[line] = max(message.number, target.highest.get(line, 0))
        for earlier in target.lines.get(line, ()):
            if earlier.number >= message.number:
                break
            its = target.seen.get(earlier.number)
            if its is not None and its.holder is holder and its.held_life == self.life:
                continue
            if target.is_remote(earlier) and not target.owes(earlier):
                continue  # it was confirmed there, and the target took nothing when it arrived
            if not (target.may_have_given_up(earlier) or self._waits_for_a_member(its)):
                raise Violation(
                    f"{target.name} delivered {message} while {earlier}, confirmed before, "
                    f"{'was never delivered' if its is None else 'is unsettled with another consumer'}"
                )

    def _waits_for_a_member(self, seen: Seen | None) -> bool:
        """Return whether it was sent at QoS 2 to a member that was lost since, and whose keys others have now.

        Also where the member has unsubscribed: perhaps from something else, and then it is still completed with it.
        """
        if seen is None or not seen.sent_once or seen.holder is None:
            return False
        return seen.count > 1 or seen.held_life != self.life or seen.holder.has_let_go

    def _can_have_died(self, message: Message) -> bool:
        queues = [each for each in self.queues() if each.wants(message)]
        if self.others and message.expiry_s:
            return True  # in the queue of a link
        return message.number in self.came_unjudged or any(
            each.expiry_s(message) or each.moves or message.number in each.seen for each in queues
        )

    def _check_flags(self, target: Target, message: Message, seen: Seen, flagged: bool, count: int) -> None:
        came_before_crash = seen.count > 0 and seen.crashes < self.course.crashes and message.unmarked_count == 1
        if not flagged and (seen.fresh_count >= message.unmarked_count or came_before_crash):
            raise Violation(
                f"{target.name} delivered {message} for the {seen.count + 1}th time, not flagged as redelivered; "
                f"it was sent {message.sent_count} times, {message.unmarked_count} of them as new"
            )
        before = self._count_known(target, seen)
        if flagged and message.sent_count == 1 and count < before + 1:
            raise Violation(f"{target.name} delivered {message} with count {count}, and it came {before} times before")
        if 0 < target.tries_max < count:
            raise Violation(f"{target.name} delivered {message} with count {count} of at most {target.tries_max}")

    def _count_known(self, target: Target, seen: Seen) -> int:
        return seen.count_known if seen.forgotten == (self.course.crashes, target.forgot_tick) else 0

    def queues(self) -> list[Target]:
        """Return the queues whose messages can die, those that are gone too."""
        return [each for each in [*self.targets.values(), *self.ended] if each.kind not in (SESSION, GROUP, DEAD)]
