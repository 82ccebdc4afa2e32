"""Which site of a broker is active: what each site notes of itself, and when that changes. Pure.

A broker may have two sites, mates of each other. Replicas of the active one own the broker. The standby one receives
the log, and none of its replicas owns the broker. Each site notes its own state in a key of its own servers: there is
nothing that both sites could compare and set. So an operator decides which site is active, and these rules hold:

1. The epoch of the sites grows with each promotion. A site that hears of a later epoch than its own serves no more.
2. A planned switch: the active site is demoted. Its last message gives the broker up to the mate (`Handed`). A mate
   whose log ends with that message has everything, and may be promoted.
3. An unplanned one accepts a loss. Clients have seen sequences that the new active site does not know. So the broker
   has another incarnation from then on, and sequences are skipped as for a lost cursor.
4. A site whose replicas have all been away asks its mate before one of them owns the broker. If the mate does not
   answer, an operator has to say that the site shall serve.
"""

from enum import Enum, StrEnum
from typing import Any, Final, NamedTuple

import orjson

from sluicegate.storage.errors import StorageError
from sluicegate.storage.replication.messages import Handed

_NUMBER_MAX: Final = 1 << 64


class UnreadableState(StorageError):
    """The value of a site's key is none that a replica writes."""


class CannotSwitch(StorageError):
    """A site is not in the state from which it could be promoted or demoted."""


class SiteRole(StrEnum):
    """What a site is."""

    ACTIVE = "active"  # one of its replicas owns the broker
    DEMOTING = "demoting"  # its owner stops, and gives the broker up to the mate
    STANDBY = "standby"  # it receives the log of the mate


class SiteState(NamedTuple):
    """What a site notes of itself."""

    site: str
    role: SiteRole
    epoch: int  # of the sites: of its own promotion, or of that of the site whose log it has
    generation: int = 0  # of its stream: see `stream_name`
    incarnation: int = 0  # that clients see since the last promotion that accepted a loss; 0: that of the log
    base: int = 0  # the last message that it had received when it was promoted with a loss; 0: not known yet
    skips: bool = False  # sequences have to be skipped before it serves
    serves_alone: bool = False  # by command, though the mate does not answer, until it has answered


class Decision(Enum):
    """What a replica does that could own the broker."""

    SERVE = "serve"
    RECEIVE = "receive"  # its site is the standby one
    YIELD = "yield"  # the mate was promoted meanwhile: the site has to become the standby one
    ASK = "ask"  # the mate has not answered


def first_state(site: str, *, is_active: bool) -> SiteState:
    """Return the state of a site that has none yet."""
    return SiteState(site, SiteRole.ACTIVE if is_active else SiteRole.STANDBY, 0)


def serving(own: SiteState, first: int) -> SiteState:
    """Return the state of an active site before it serves; `first` is the message with which its owner has taken over.

    Until a site has served first it has epoch 0, so one that has lost all of its log yields to its mate.
    """
    return own._replace(epoch=max(1, own.epoch), base=own.base or first - 1, skips=False)


def decide(own: SiteState, mate: SiteState | None, *, is_continued: bool) -> Decision:
    """Return what a replica does that has the key of its site's owners.

    `mate`: what that site noted last, None when it has not answered. `is_continued`: this process has seen a replica of
    its own site own the broker, so the site was not away.
    """
    if own.role is SiteRole.STANDBY:
        return Decision.RECEIVE
    if mate is not None:
        return Decision.YIELD if mate.epoch > own.epoch else Decision.SERVE
    return Decision.SERVE if is_continued or own.serves_alone else Decision.ASK


def demoting(own: SiteState) -> SiteState:
    """Return the state of an active site that an operator demotes. Raises CannotSwitch."""
    if own.role is not SiteRole.ACTIVE:
        raise CannotSwitch(f"site {own.site} is {own.role} already")
    return own._replace(role=SiteRole.DEMOTING)


def demoted(own: SiteState) -> SiteState:
    """Return the state of a site that serves no more: it gave the broker up, or the mate was promoted meanwhile."""
    return own._replace(role=SiteRole.STANDBY, skips=False, serves_alone=False)


def is_later(own: SiteState, mate: SiteState) -> bool:
    """Return whether the mate was promoted since this standby site has followed it, or both were at a time."""
    return mate.epoch > own.epoch or mate.incarnation != own.incarnation


def following(own: SiteState, mate: SiteState) -> SiteState:
    """Return the state of a standby site whose log goes on as that of its mate."""
    return own._replace(epoch=mate.epoch, incarnation=mate.incarnation, base=mate.base)


def begun_anew(own: SiteState, mate: SiteState) -> SiteState:
    """Return the state of a standby site whose log cannot go on, and is made again from that of its mate."""
    return following(own, mate)._replace(generation=own.generation + 1)


def promoted(own: SiteState, mate: SiteState | None, handed: Handed | None, *, unanswered: str = "") -> SiteState:
    """Return the state of a site that an operator promotes, and that loses nothing.

    `handed`: what the last message of its log says, if that gives the broker up. `unanswered`: who did not answer when
    all that there is of the log was asked for; empty if all have. An active site that waits for its mate serves without
    it from then on. Raises CannotSwitch.
    """
    if own.role is SiteRole.ACTIVE:
        return own._replace(serves_alone=True)
    if own.role is SiteRole.DEMOTING:
        raise CannotSwitch(f"site {own.site} is being demoted; wait until it is the standby")
    if (handed is None or handed.site != own.site) and unanswered:
        raise CannotSwitch(
            f"{unanswered} does not answer, so it is not known what site {own.site} lacks: try again when it answers; "
            "or accept the loss of what is not here"
        )
    if handed is None or handed.site != own.site:
        raise CannotSwitch(
            f"the log that site {own.site} has does not end with a hand-over to it: demote the active site first, and "
            "wait until all of its log is here; or accept the loss of what is not"
        )
    return own._replace(role=SiteRole.ACTIVE, epoch=_next_epoch(own, mate, handed), base=0, serves_alone=True)


def promoted_with_loss(own: SiteState, mate: SiteState | None, incarnation: int) -> SiteState:
    """Return the state of a standby site that an operator promotes, whatever it lacks. Raises CannotSwitch."""
    if own.role is SiteRole.ACTIVE:
        raise CannotSwitch(
            f"site {own.site} is active already: promote it without a loss, and it serves without its mate"
        )
    if own.role is SiteRole.DEMOTING:
        raise CannotSwitch(f"site {own.site} is being demoted; wait until it is the standby")
    epoch = _next_epoch(own, mate, None)
    return own._replace(
        role=SiteRole.ACTIVE, epoch=epoch, base=0, incarnation=incarnation, skips=True, serves_alone=True
    )


def answered(own: SiteState) -> SiteState:
    """Return the state of a site whose mate has answered: that is asked again when this site was away."""
    return own._replace(serves_alone=False)


def _next_epoch(own: SiteState, mate: SiteState | None, handed: Handed | None) -> int:
    known = [own.epoch, 0 if mate is None else mate.epoch, 0 if handed is None else handed.site_epoch]
    return max(known) + 1


def encode_state(state: SiteState) -> bytes:
    """Return the value of a site's key."""
    return orjson.dumps(state._asdict())


def decode_state(value: bytes, where: str) -> SiteState:
    """Return what a value says. Raises UnreadableState. Fields of later releases are passed over."""
    try:
        fields: Any = orjson.loads(value)
        state = SiteState(**{name: fields[name] for name in SiteState._fields})
        state = state._replace(role=SiteRole(state.role))
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableState(f"{where} does not say what the site is: {value[:200]!r}") from error
    numbers = (state.epoch, state.generation, state.incarnation, state.base)
    is_right = all(type(each) is int and 0 <= each < _NUMBER_MAX for each in numbers)
    if not is_right or not isinstance(state.site, str):
        raise UnreadableState(f"{where} does not say what the site is: {value[:200]!r}")
    return state
