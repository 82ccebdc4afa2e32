"""Views of bridges: their state, why they are down, and what each rule has carried and dropped."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluicegate.gateway.config.sections.message_vpns.bridges import Bridge as Definition
from sluicegate.gateway.config.sections.message_vpns.bridges import IncomingRule, OutgoingRule

if TYPE_CHECKING:
    from sluicegate.protocols.bridges.bridge import Bridge
    from sluicegate.protocols.bridges.outgoing import OutgoingSide
    from sluicegate.protocols.bridges.rules import RuleCounters

OUTGOING = "outgoing"
INCOMING = "incoming"


@dataclass(frozen=True, slots=True)
class BridgeRuleView:
    """One rule of a bridge. Counts are those since the start of the broker."""

    name: str
    direction: str  # OUTGOING or INCOMING
    source: str  # where its messages come from
    target: str  # where they go
    qos: int
    up: bool
    reason: str  # why it is not up
    shortfall: str  # what the foreign broker gives it less than it asks for; empty: nothing
    unconfirmed: int  # messages that wait for the other side
    messages: int  # that the other side has confirmed
    bytes: int  # their payloads
    failures: int  # times that the other side did not take a message now
    dropped: dict[str, int]  # by reason
    lowered: int  # times that the foreign broker gave it less than it asks for


@dataclass(frozen=True, slots=True)
class BridgeView:
    """A bridge. It is up when it is connected to its foreign broker."""

    name: str
    origin: str  # one of gateway.provisioning.store
    enabled: bool
    up: bool
    state: str  # connecting, up, waiting, paused, given-up or stopped
    reason: str  # why it is not up
    remote_url: str
    connections: int  # made since the bridge started
    failures: int  # in a row
    unmatched: int  # messages that came for no rule, and were dropped, since the bridge started
    definition: Definition
    rules: Sequence[BridgeRuleView]


@dataclass(frozen=True, slots=True)
class BridgesView:
    """All bridges, by name."""

    bridges: Sequence[BridgeView]


def bridge_view(
    definition: Definition,
    running: "Bridge | None",
    counters: "dict[tuple[str, str], RuleCounters]",
    *,
    origin: str,
    reason: str,
) -> BridgeView:
    """Return the view of a bridge."""
    return BridgeView(
        name=definition.name,
        origin=origin,
        enabled=definition.enabled,
        up=running is not None and running.is_open,
        state="stopped" if running is None else running.state.value,
        reason=reason or ("" if running is None else running.reason) or _lacking(definition),
        remote_url=definition.remote_url,
        connections=0 if running is None else running.connections_count,
        failures=0 if running is None else running.failures_count,
        unmatched=0 if running is None else running.unmatched_count,
        definition=definition,
        rules=[
            *[_outgoing_view(index, rule, running, counters) for index, rule in enumerate(definition.outgoing)],
            *[_incoming_view(index, rule, running, counters) for index, rule in enumerate(definition.incoming)],
        ],
    )


def _lacking(definition: Definition) -> str:
    return "" if definition.outgoing or definition.incoming else "it has no rule"


def _outgoing_view(
    index: int, rule: OutgoingRule, running: "Bridge | None", counters: "dict[tuple[str, str], RuleCounters]"
) -> BridgeRuleView:
    side = running.outgoing[index] if running is not None and index < len(running.outgoing) else None
    source = f"queue {rule.queue}" if rule.queue else f"topic {rule.topic}"
    return _view(
        rule.label(),
        OUTGOING,
        (source, _target(rule.remote_queue, rule.remote_topic, rule.strip_prefix, rule.add_prefix)),
        rule.guarantee(),
        (*_outgoing_state(side, running), "" if side is None else side.shortfalls.text),
        0 if side is None else side.waiting_count,
        counters.get((OUTGOING, rule.label())),
    )


def _outgoing_state(side: "OutgoingSide | None", running: "Bridge | None") -> tuple[bool, str]:
    """Return whether a rule is up, and why not. One whose queue is bound is down with its connection."""
    if side is None or running is None:
        return False, "stopped"
    if side.is_up and not running.is_open:
        return False, "not connected"
    return side.is_up, side.reason


def _incoming_view(
    index: int, rule: IncomingRule, running: "Bridge | None", counters: "dict[tuple[str, str], RuleCounters]"
) -> BridgeRuleView:
    side = running.incoming[index] if running is not None and index < len(running.incoming) else None
    is_up = side is not None and running is not None and running.is_open and not side.reason
    source = f"queue {rule.remote_queue}" if rule.remote_queue else f"topic {rule.remote_topic}"
    return _view(
        rule.label(),
        INCOMING,
        (source, _target(rule.queue, rule.topic, rule.strip_prefix, rule.add_prefix)),
        rule.qos,
        (
            is_up,
            "" if is_up else "stopped" if side is None else side.reason or "not connected",
            "" if side is None else side.shortfalls.text,
        ),
        0 if side is None else side.waiting_count,
        counters.get((INCOMING, rule.label())),
    )


def _target(queue: str, topic: str, strip: str, add: str) -> str:
    if queue or topic:
        return f"queue {queue}" if queue else f"topic {topic}"
    return f"topic {add}..." if add or strip else "the same topic"


def _view(
    name: str,
    direction: str,
    ends: tuple[str, str],
    qos: int,
    state: tuple[bool, str, str],
    unconfirmed: int,
    counted: "RuleCounters | None",
) -> BridgeRuleView:
    return BridgeRuleView(
        name=name,
        direction=direction,
        source=ends[0],
        target=ends[1],
        qos=qos,
        up=state[0],
        reason=state[1],
        shortfall=state[2],
        unconfirmed=unconfirmed,
        messages=0 if counted is None else counted.messages_count,
        bytes=0 if counted is None else counted.payload_bytes,
        failures=0 if counted is None else counted.failures_count,
        dropped={} if counted is None else dict(counted.dropped),
        lowered=0 if counted is None else counted.lowered_count,
    )
