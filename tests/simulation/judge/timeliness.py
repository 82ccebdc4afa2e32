"""The time of a delivery: not too early or late, to one consumer at a time, and after more urgent messages."""

from simulation.judge.targets import DEAD, EXCLUSIVE, GROUP, SESSION, SHARED, Message, Seen, Target, Violation

LATE_US_MAX = 10_000_000  # a delivery may wait behind an answer to its client that waits for the disk
TICK_US = 2_000  # clocks of the node count milliseconds


def check_time(target: Target, message: Message, seen: Seen, *, now_us: int, life: int) -> None:
    """Nothing comes before its delay is over, nor after a failure before it has waited. Delays die with a message."""
    rules = target.rules
    is_direct = target.kind in (SESSION, GROUP) and message.qos == 0  # then no queue is between
    delay_us = 0 if is_direct or target.kind == DEAD else max(rules.delay_s, message.delay_s) * 1_000_000
    early_us = message.sent_us + delay_us - now_us
    if delay_us and early_us > TICK_US:
        raise Violation(f"{target.name} delivered {message} {early_us / 1_000_000} s before its delay was over")
    if not rules.back_off_ms or seen.count == 0 or _is_another_life(target, seen, life) or message.sent_count > 1:
        return
    early_us = seen.held_us + rules.back_off_ms * 1000 - now_us
    if seen.settled_tick == 0 and early_us > TICK_US:
        raise Violation(f"{target.name} delivered {message} again {early_us / 1_000_000} s before it had waited")


def check_expiry(target: Target, message: Message, seen: Seen, *, now_us: int) -> None:
    """Nothing comes after it has expired, but again to a session [MQTT 4.4.0-1]. Who holds it by then may finish."""
    expiry_s = target.expiry_s(message)
    if target.is_remote(message) and expiry_s:
        expiry_s = message.expiry_s  # how long it may wait in a queue counts from when it comes
    is_sessions = target.kind in (SESSION, GROUP)
    if not expiry_s or (seen.count and is_sessions) or message.sent_count > 1 or not message.promised_us:
        return
    late_us = now_us - message.promised_us - expiry_s * 1_000_000
    if late_us > LATE_US_MAX:
        raise Violation(f"{target.name} delivered {message} {late_us / 1_000_000} s after it had expired")


def check_priority(target: Target, message: Message, seen: Seen, *, now_us: int) -> None:
    """Nothing comes for the first time while something more urgent has waited for long.

    A consumer ignores priorities while a message waits that it has declined (decision 0012).
    """
    if seen.count or any(target.seen[number].settled_tick == 0 for number in target.declined):
        return
    for line in target.lines.values():
        for each in line:
            if each.priority <= message.priority or each.number in target.seen or target.may_have_given_up(each):
                continue
            if each.promised_us + LATE_US_MAX < now_us:
                raise Violation(
                    f"{target.name} delivered {message}, priority {message.priority}, "
                    f"before {each}, priority {each.priority}"
                )


def check_holder(target: Target, message: Message, seen: Seen, *, now_us: int, life: int) -> None:
    """Nothing is taken from a consumer that is there and has time left."""
    holder = seen.holder
    if target.kind not in (EXCLUSIVE, SHARED, GROUP) or holder is None or holder.has_let_go or seen.settled_tick > 0:
        return
    if seen.is_returned or _is_another_life(target, seen, life) or message.sent_count > 1:
        return
    left_us = seen.held_us + target.rules.lock_ms * 1000 - now_us
    if not target.rules.lock_ms or left_us > TICK_US:
        raise Violation(f"{target.name} delivered {message} again, and the consumer that has it was not done with it")


def _is_another_life(target: Target, seen: Seen, life: int) -> bool:
    """Return whether the node was started, or the target's flows were cut, since the last delivery."""
    return seen.held_life != life or seen.held_cuts != target.flow_cuts
