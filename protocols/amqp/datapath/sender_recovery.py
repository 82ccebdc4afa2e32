"""Recovery of sending links: the outcomes of deliveries are kept for a client while it is away (2.6.13).

A client that loses its connection does not know the outcome of what it sent last. It attaches the link again, by the
same name from the same container, and lists the deliveries that it is unsure of. The broker names those that arrived,
and the client sends the others again. So nothing is lost and nothing doubled.

Outcomes are kept for links whose target asks for it, by an expiry policy of `never` or a timeout, while the client is
away for no longer than that. They are in memory: a restart of the broker forgets every link.

See also: the answer to a resumed delivery (`publishing`).
"""

from collections.abc import Callable
from typing import Final, final

from sluicegate.actors.messages.data import Confirmed, PublishFailed
from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.refusals import REFUSED_SPOOL_FAILED
from sluicegate.protocols.amqp.codec.delivery_states import ACCEPTED_STATE, DeliveryState, rejected
from sluicegate.protocols.amqp.codec.termini import CONNECTION_CLOSE, LINK_DETACH, NEVER, SESSION_END, Target
from sluicegate.protocols.amqp.types import errors as conditions
from sluicegate.protocols.amqp.types.encoding import encode
from sluicegate.protocols.amqp.types.values import AmqpMap, AmqpValue

TIMEOUT_S_MAX: Final = 86_400  # what is granted at most of the time that a client asks for
LINKS_MAX: Final = 1_000  # kept at a time; the one that has been away longest makes room for a new one
# Deliveries whose outcomes are kept, as a multiple of the credit. What was sent under credit that the client has seen,
# and what was unanswered when that was granted, is all that it can be unsure of; each is at most the credit.
TAGS_PER_CREDIT: Final = 2

POLICIES: Final = (LINK_DETACH, SESSION_END, CONNECTION_CLOSE, NEVER)
NOT_BEGUN: Final = 0  # in place of a time


@final
class _PendingDeliveries:
    """Deliveries of one publish whose outcome is not known yet, and whom to tell."""

    __slots__ = ("inbox", "pending", "refusal", "tags", "token")

    def __init__(self, tags: list[bytes], pending: int, inbox: Address, token: int) -> None:
        self.tags = tags
        self.pending = pending
        self.inbox = inbox
        self.token = token
        self.refusal: PublishFailed | None = None


@final
class SuspendedSender(Address):
    """One link. What is published on it is confirmed to this object, which outlives the client's connection.

    Invariants: at most `tags_max` outcomes, the latest; a delivery that is being stored has none.
    """

    def __init__(self, target: Target, *, make_publisher: Callable[[Address], Publisher], tags_max: int) -> None:
        self.target_address = target.address
        self.expiry_policy = target.expiry_policy
        self.timeout_s = min(target.timeout_s, TIMEOUT_S_MAX)
        self.is_attached = False
        self.attached_count = 0  # an earlier connection may no longer change it
        self.expires_ms = NOT_BEGUN
        self.publisher = make_publisher(self)
        self._outcomes: dict[bytes, DeliveryState] = {}  # by delivery tag, oldest first
        self._tags_max = tags_max
        self._storing: dict[int, _PendingDeliveries] = {}
        self._next_token = 1
        self._waiting: list[LoopFuture[None]] = []

    # --- deliveries ---

    def take_token(self) -> int:
        """Return a token for the next publish."""
        token = self._next_token
        self._next_token = token + 1
        return token

    def stores(self, token: int, tags: list[bytes], pending: int, inbox: Address, confirm_token: int) -> None:
        """Wait for the confirmations of a publish; send the connection a single one, under its own token."""
        self._storing[token] = _PendingDeliveries(tags, pending, inbox, confirm_token)

    def post(self, message: object) -> None:
        """Take a confirmation, whether the client is there or not."""
        assert isinstance(message, Confirmed | PublishFailed), "nobody else knows this address"
        storing = self._storing.get(message.token)
        if storing is None:
            return
        storing.pending -= 1
        if isinstance(message, PublishFailed):
            storing.refusal = storing.refusal or message
        if storing.pending:
            return
        del self._storing[message.token]
        refusal = storing.refusal
        self.note(storing.tags, stored_state(refusal))
        storing.inbox.post(
            Confirmed(storing.token)
            if refusal is None
            else PublishFailed(storing.token, refusal.reason, refusal.verdict)
        )
        if not self._storing:
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                each.set()

    def note(self, tags: list[bytes], state: DeliveryState) -> None:
        """Keep the outcome of deliveries."""
        outcomes = self._outcomes
        for tag in tags:
            outcomes.pop(tag, None)  # a tag may be used again; then it is among the latest
            outcomes[tag] = state
        while len(outcomes) > self._tags_max:
            del outcomes[next(iter(outcomes))]

    def outcome(self, tag: bytes) -> DeliveryState | None:
        """Return what became of a delivery; None when nothing is known of it."""
        return self._outcomes.get(tag)

    def settled(self) -> LoopFuture[None]:
        """Return what is done when every delivery that arrived has an outcome."""
        answer: LoopFuture[None] = LoopFuture()
        if self._storing:
            self._waiting.append(answer)
        else:
            answer.set()
        return answer

    def resume(self, unsettled: AmqpMap | None, *, is_incomplete: bool) -> list[tuple[bytes, DeliveryState]]:
        """Return those of the client's unsettled deliveries that have an outcome. The rest of them it has settled."""
        tags = [] if unsettled is None else [tag for tag, _ in unsettled.pairs if isinstance(tag, bytes)]
        known = [(tag, self._outcomes[tag]) for tag in tags if tag in self._outcomes]
        if not is_incomplete:
            self._outcomes = dict(known)
        return known

    def __repr__(self) -> str:
        return f"SuspendedSender({len(self._outcomes)} outcomes, {len(self._storing)} publishes being stored)"


LinkName = tuple[str, str, str]  # container, user, name of the link


@final
class SuspendedSenders:
    """Those of all clients of a node. Shared on the node's loop."""

    def __init__(self, make_publisher: Callable[[Address], Publisher], *, links_max: int = LINKS_MAX) -> None:
        self.links: dict[LinkName, SuspendedSender] = {}  # those detached last come last
        self._links_max = links_max
        self._make_publisher = make_publisher  # that is confirmed at an address

    def attach(
        self, name: LinkName, target: Target, *, credit: int, now_ms: int
    ) -> tuple[SuspendedSender | None, bool]:
        """Return what is kept of a link from now on, if it asks for that, and whether it was known before."""
        found = self.links.pop(name, None)
        asks = target.expiry_policy == NEVER or target.timeout_s > 0
        if not asks or not name[0] or target.expiry_policy not in POLICIES:
            return None, False
        is_known = found is not None and found.target_address == target.address and not _is_over(found, now_ms)
        link = found if found is not None and is_known else self._new(target, credit)
        link.is_attached = True
        link.attached_count += 1
        link.expires_ms = NOT_BEGUN
        link.expiry_policy = target.expiry_policy
        link.timeout_s = min(target.timeout_s, TIMEOUT_S_MAX)
        self.links[name] = link
        self._make_room(now_ms)
        return link, is_known

    def detached(self, link: SuspendedSender, attached_count: int, *, closed: bool) -> None:
        """Note that the client which attached a link is away; `closed` when it does not mean to come back."""
        if attached_count != link.attached_count:
            return  # it has come back already, over another connection
        for name, each in self.links.items():
            if each is link:
                del self.links[name]
                if not closed:
                    link.is_attached = False
                    self.links[name] = link
                return

    def _new(self, target: Target, credit: int) -> SuspendedSender:
        return SuspendedSender(target, make_publisher=self._make_publisher, tags_max=TAGS_PER_CREDIT * credit)

    def _make_room(self, now_ms: int) -> None:
        """Forget links that have expired and, beyond the maximum, those that have been away longest."""
        away = [name for name, link in self.links.items() if not link.is_attached]
        excess = len(self.links) - self._links_max
        for name in away:
            if _is_over(self.links[name], now_ms) or excess > 0:
                del self.links[name]
                excess -= 1


def begin_expiry(link: SuspendedSender, ended: str, now_ms: int) -> None:
    """Begin a link's time when that ended which its policy names: LINK_DETACH, SESSION_END or CONNECTION_CLOSE (3.5.6).

    A session ends its links, and a connection its sessions.
    """
    if link.is_attached or link.expiry_policy == NEVER or link.expires_ms != NOT_BEGUN:
        return
    if POLICIES.index(ended) >= POLICIES.index(link.expiry_policy):
        link.expires_ms = now_ms + 1000 * link.timeout_s


def unsettled_map(known: list[tuple[bytes, DeliveryState]], bytes_max: int) -> tuple[AmqpMap, bool]:
    """Return the map of an attach, and whether not all of it fits into so many bytes (2.7.3)."""
    pairs: list[tuple[AmqpValue, AmqpValue]] = []
    size = 0
    for tag, state in known:
        described = state.described()
        size += len(encode(tag)) + len(encode(described))
        if size > bytes_max:
            return AmqpMap(pairs), True
        pairs.append((tag, described))
    return AmqpMap(pairs), False


def stored_state(refusal: PublishFailed | None) -> DeliveryState:
    """Return the outcome of what the store has or could not take."""
    if refusal is None:
        return ACCEPTED_STATE
    is_failure = refusal.verdict == REFUSED_SPOOL_FAILED
    return rejected(conditions.INTERNAL_ERROR if is_failure else conditions.RESOURCE_LIMIT_EXCEEDED, refusal.text())


def _is_over(link: SuspendedSender, now_ms: int) -> bool:
    return not link.is_attached and link.expires_ms != NOT_BEGUN and link.expires_ms <= now_ms
