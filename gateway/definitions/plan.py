"""The changes that bring a node to what a document says, and the objects that cannot be changed so, with reasons.

Nothing is changed here. Profiles and message VPNs that a change needs must exist, or be in the document; what else the
node would refuse is known only when `gateway.definitions.applying` makes the change.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from sluicegate.gateway.config.sections.admin import AccessLevel
from sluicegate.gateway.definitions.background import in_background
from sluicegate.gateway.definitions.document import (
    ADD,
    REMOVE,
    SET,
    SETTINGS,
    USERS,
    Change,
    Fields,
    Objects,
    differences,
)
from sluicegate.gateway.definitions.kinds import KIND_BY_NAME, KINDS, DefinitionKind
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.gateway.views.definitions import DefinitionOutcome, DefinitionView
from sluicegate.gateway.views.errors import Refused
from sluicegate.messaging.clients.roster import DEFAULT

Wanted = Mapping[str, Mapping[str, Objects]]  # by message VPN and kind, as `document.read_definitions` returns them
WhyNot = Callable[[AccessLevel, str], str]  # why an account may not change objects of a level in a message VPN

OUTCOMES: Final = {
    ADD: DefinitionOutcome.CREATED,
    SET: DefinitionOutcome.CHANGED,
    REMOVE: DefinitionOutcome.DELETED,
}


@dataclass(frozen=True, slots=True)
class Step:
    """One change in one message VPN."""

    vpn: str
    change: Change
    secrets: Fields = field(repr=False)
    written: Collection[str] = ()  # ADD: the fields that the document gives; all others have their defaults
    refusal: str = ""  # why it cannot be made; empty: nothing is known against it

    @property
    def kind(self) -> DefinitionKind:
        """The kind of its object."""
        return KIND_BY_NAME[self.change.kind]

    def view(self, outcome: DefinitionOutcome, reason: str = "") -> DefinitionView:
        """Return what becomes of it. Secrets are not shown."""
        change = self.change
        fields = change.fields
        if change.action == ADD:
            fields = {name: value for name, value in fields.items() if name in self.written}
        return DefinitionView(
            vpn_name=self.vpn,
            kind=change.kind,
            name=change.name,
            outcome=outcome,
            reason=reason,
            fields=fields,
            before=change.before,
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """All changes in their order, and the objects that stay as they are."""

    steps: tuple[Step, ...]
    kept: tuple[DefinitionView, ...]

    @property
    def is_refused(self) -> bool:
        """Whether a change cannot be made. Then none is."""
        return any(step.refusal for step in self.steps)


@dataclass(frozen=True, slots=True)
class _Present:
    """What a message VPN has of the kinds that a document lists for it."""

    objects: Mapping[str, Objects]  # by kind
    names: Mapping[str, Collection[str]]  # by the kinds that others need
    refused_settings: str = ""  # why its settings cannot be changed


async def planned(node: NodeInterface, wanted: Wanted, *, prune: bool, why_not: WhyNot) -> Plan:
    """Return the plan for a document. With `prune`, what it does not list is deleted, of the kinds that it lists.

    Raises Refused for a node that cannot be asked now, and VpnNotFound for a message VPN that is deleted meanwhile.
    """
    steps: list[Step] = []
    kept: list[DefinitionView] = []
    known = {each.name for each in (await node.list_message_vpns()).message_vpns}
    for vpn, by_kind in wanted.items():
        if vpn not in known and SETTINGS not in by_kind:
            steps.append(_of_no_vpn(vpn))
            continue
        present = await _present(node, vpn, by_kind, is_known=vpn in known)
        here, stay = await in_background(partial(_compared, vpn, by_kind, present, prune, why_not))
        steps += here
        kept += stay
    return Plan(tuple(steps), tuple(kept))


async def _present(node: NodeInterface, vpn: str, wanted: Mapping[str, Objects], *, is_known: bool) -> _Present:
    """Read what is compared. A message VPN that the document creates has the default profiles and nothing else."""
    if not is_known:
        return _Present({}, {kind.kind: {DEFAULT} for kind in KINDS})
    here = node.in_vpn(vpn)
    objects = {kind.kind: await kind.present(here) for kind in KINDS if kind.kind in wanted}
    names = {kind.kind: await kind.names(here) for kind in KINDS} if USERS in wanted else {}
    refused_settings = ""
    if SETTINGS in wanted and vpn not in objects[SETTINGS]:
        advice = f"change them there and reload, and remove `{SETTINGS}` of this message VPN from the document"
        refused_settings = f"the settings of message VPN {vpn!r} are configured: {advice}"
    return _Present(objects, names, refused_settings)


def _of_no_vpn(vpn: str) -> Step:
    """Return the refused step that stands for all objects of a message VPN that does not exist."""
    allowed = "create it first, or give its `settings` in the document"
    return Step(vpn, Change(ADD, SETTINGS, vpn, {}, {}), {}, refusal=f"there is no message VPN {vpn!r}: {allowed}")


def _compared(
    vpn: str, wanted: Mapping[str, Objects], present: _Present, prune: bool, why_not: WhyNot
) -> tuple[list[Step], list[DefinitionView]]:
    steps = [
        _step(vpn, change, wanted, present, why_not) for change in _changes(vpn, wanted, present.objects, prune=prune)
    ]
    removed = {(step.change.kind, step.change.name) for step in steps if step.change.action == REMOVE}
    steps = [_checked(step, wanted, present, removed) for step in steps]
    changing = {(step.change.kind, step.change.name) for step in steps}
    kept = list(_kept(vpn, wanted, present.objects, changing))
    return steps, kept


def _changes(
    vpn: str, wanted: Mapping[str, Objects], present: Mapping[str, Objects], *, prune: bool
) -> Iterator[Change]:
    """Yield the changes for a message VPN, ordered so that each object exists before another one names it."""
    removals: list[Change] = []
    for kind in KINDS:
        if kind.kind in wanted:
            complete = {name: kind.complete(given) for name, given in wanted[kind.kind].items()}
            there = present.get(kind.kind, {})
            if kind.kind == SETTINGS:
                there = {name: fields for name, fields in there.items() if name == vpn}
            for change in differences(kind.kind, complete, there, prune=prune):
                if change.action == REMOVE:
                    removals.append(change)
                else:
                    yield change
    yield from reversed(removals)


def _step(vpn: str, change: Change, wanted: Mapping[str, Objects], present: _Present, why_not: WhyNot) -> Step:
    """Return the step for a change, refused if the account may not make it or the object has no secret."""
    kind = KIND_BY_NAME[change.kind]
    refusal = why_not(kind.level(change.fields), vpn)
    if change.kind == SETTINGS:
        refusal = refusal or present.refused_settings
    secrets: Fields = {}
    given: Fields = wanted[change.kind][change.name] if change.action == ADD else {}
    if change.action == ADD and not refusal:
        try:
            secrets = kind.secrets(given)
        except Refused as missing:
            refusal = missing.reason
    return Step(vpn, change, secrets, given.keys(), refusal)


def _checked(
    step: Step, wanted: Mapping[str, Objects], present: _Present, removed: Collection[tuple[str, str]]
) -> Step:
    """Return the step, refused if an object that it names will not exist when the change is made."""
    if step.refusal:
        return step
    for kind, name in step.kind.needs(step.change.fields).items():
        if name in wanted.get(kind, ()):
            continue
        if name not in present.names[kind] or (kind, name) in removed:
            text = f"it needs the {KIND_BY_NAME[kind].label} {name!r}, which does not exist"
            return replace(step, secrets={}, refusal=text)
    return step


def _kept(
    vpn: str, wanted: Mapping[str, Objects], present: Mapping[str, Objects], changing: Collection[tuple[str, str]]
) -> Iterator[DefinitionView]:
    """Yield the objects that stay as they are: unchanged ones, and those that the document does not list."""
    for kind in KINDS:
        if kind.kind not in wanted:
            continue
        listed, there = wanted[kind.kind], present.get(kind.kind, {})
        for name in sorted(listed if kind.kind == SETTINGS else {**listed, **there}):
            if (kind.kind, name) not in changing:
                outcome = DefinitionOutcome.UNCHANGED if name in listed else DefinitionOutcome.LEFT
                yield DefinitionView(vpn_name=vpn, kind=kind.kind, name=name, outcome=outcome)
