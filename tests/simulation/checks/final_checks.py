"""Checks at the end of a run, when all queues are empty: nothing that was promised is lost."""

from simulation.judge.targets import QUEUE_KINDS, Message, Target, Violation
from simulation.judge.truth import Truth
from simulation.scenario import SPARE
from sluicegate.messaging.topics.syntax import DEAD_MESSAGE_QUEUE

ON_ITS_WAY_US = 1_000_000  # what a publisher sent may come so much later than what another one sent meanwhile


def check_nothing_is_lost(truth: Truth) -> None:
    """Raise Violation unless all that was confirmed has been settled, or there is a reason why not."""
    for target in truth.targets.values():
        for message in truth.course.messages.values():
            if target.owes(message) and not target.may_have_lost(message):
                _check_is_settled(truth, message, target)
        if target.rules.last_value:
            _check_the_newest(truth, target)
    if truth.course.store_faults == 0:  # else what the store refused has been delivered where it was asked for at once
        for message in truth.course.messages.values():
            _check_all_or_none(truth, message)
    dead = truth.targets.get(DEAD_MESSAGE_QUEUE)
    if dead is not None:
        for target in truth.queues():
            _check_the_dead(truth, target, dead)


def _check_is_settled(truth: Truth, message: Message, target: Target) -> None:
    """Somebody has settled it: a consumer of the queue, or of one that may have got it from there."""
    if _was_settled_in(target, message):
        return
    dies = target.expiry_s(message) > 0 or message.number in target.declined
    if dies and not target.has_dead_message_queue():
        return
    heirs = [SPARE, DEAD_MESSAGE_QUEUE] if target.was_moved_since(message.sent_tick) else []
    if target.may_give_up or dies:
        heirs.append(DEAD_MESSAGE_QUEUE)
    for name in heirs:
        heir = truth.targets.get(name)
        if heir is None or not _has_the_dead(truth, heir, message.number, message.sent_tick):
            return
        if _was_settled_in(heir, message):
            return
    what = "never delivered it" if message.number not in target.seen else "did not bring it to its end"
    raise Violation(f"{message} was confirmed, and {target.name} {what}")


def _check_all_or_none(truth: Truth, message: Message) -> None:
    """A message that was neither confirmed nor refused is in all queues that want it, or in none."""
    if message.qos == 0 or message.promised_tick or message.refused or message.withheld or message.sent_count > 1:
        return
    wanting = [each for each in truth.targets.values() if each.kind in QUEUE_KINDS and each.gets_for_sure(message)]
    if truth.course.crashes > message.crashes_when_sent:  # what was delivered before a crash may not have been stored
        wanting = [
            each
            for each in wanting
            if message.number not in each.seen or each.seen[message.number].first_crashes > message.crashes_when_sent
        ]
    got = [each.name for each in wanting if message.number in each.seen]
    if got and len(got) < len(wanting):
        without = [each.name for each in wanting if each.name not in got]
        raise Violation(f"{message} came into {got}, and not into {without}")


def _check_the_newest(truth: Truth, target: Target) -> None:
    """The last message of a queue that keeps no other is settled. The last is any that none came certainly after."""
    wanted = [message for message in truth.course.messages.values() if target.wants(message)]
    owed = [message for message in wanted if target.owes(message)]
    begun_tick = max([message.sent_tick for message in owed], default=0)
    last = [message for message in owed if message.promised_tick >= begun_tick]
    if not last or target.may_give_up:
        return
    since_tick = min(message.sent_tick for message in last)
    since_us = min(message.sent_us for message in last) - ON_ITS_WAY_US
    last += [
        each
        for each in wanted
        if each not in last and (each.sent_count > 1 or (each not in owed and each.sent_us > since_us))
    ]
    if any(target.expiry_s(each) or each.number in target.damaged for each in last):
        return
    if target.was_emptied_since(since_tick):
        return
    places = [target]
    if target.was_moved_since(since_tick):
        spare = truth.targets.get(SPARE)
        if spare is None or not all(_has_the_dead(truth, spare, each.number, since_tick) for each in last):
            return
        places.append(spare)
    if not any(_was_settled_in(place, each) for place in places for each in last):
        raise Violation(f"{target.name} did not bring its newest message to its end, one of {last}")


def _check_the_dead(truth: Truth, target: Target, dead: Target) -> None:
    """What was rejected last went to the dead message queue, and was settled there."""
    if target.until_tick or target.rules.last_value or not target.has_dead_message_queue():
        return
    for number, seen in target.seen.items():
        if not seen.was_rejected or not _has_the_dead(truth, dead, number, seen.answered_tick):
            continue
        message = truth.course.messages[number]
        if target.was_emptied_since(seen.answered_tick) or number in target.damaged:
            continue
        if target.was_moved_since(seen.answered_tick):
            continue  # a crash had brought it back
        if seen.settled_crashes < truth.course.crashes and not target.owes(message):
            continue  # it was not confirmed, and the crash may have come before it was written
        if not _was_settled_in(dead, message):
            what = "did not get it" if number not in dead.seen else "did not bring it to its end"
            raise Violation(f"{target.name}: {message} was rejected, and {dead.name} {what}")


def _was_settled_in(target: Target, message: Message) -> bool:
    seen = target.seen.get(message.number)
    return seen is not None and seen.settled_tick > 0


def _has_the_dead(truth: Truth, heir: Target, number: int, tick: int) -> bool:
    """Return whether a message that died, or was moved, after the tick has to be in this queue, and to be settled."""
    is_sure = heir.takes_since(tick) and truth.course.refused_tick < tick
    is_gone = number in heir.damaged or number in heir.declined  # the latter: it has no dead message queue of its own
    return is_sure and not is_gone and not heir.may_give_up
