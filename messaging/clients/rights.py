"""What one connected client may do: answers from its profiles, cached for topics.

A publish asks once for each batch, and the answer for a topic is cached. A refusal is counted and reported where it is
decided, so a caller only translates it into its protocol.

`messaging.clients.roster` limits the connections of a username; `messaging.queues.definition` says what a queue
permits.
"""

from collections.abc import Callable
from typing import Final, final

from sluicegate.messaging.clients.acl_profile import AclProfile, nothing_allowed
from sluicegate.messaging.clients.limits import UNLIMITED, ClientProfile, VpnQuota
from sluicegate.messaging.clients.payload_rules import PayloadCheck, PayloadRules
from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.message.refusals import (
    ADMITTED,
    REFUSAL_TEXTS,
    REFUSED_GUARANTEED_SEND,
    REFUSED_PAYLOAD,
    REFUSED_PUBLISH_ACL,
)
from sluicegate.messaging.message.usage import selector_bytes, share_bytes
from sluicegate.messaging.topics.syntax import TOPIC_REMEMBERED_CHARACTERS_MAX, TopicFilter, reaches_others

VERDICTS_CACHED_MAX: Final = 4096  # topics of one client; all are forgotten when there are more

# Why a client was denied something, in metrics and in the audit log.
NOT_AUTHENTICATED: Final = "not_authenticated"
FOREIGN_ORIGIN: Final = "foreign_origin"  # a web page that may not use the port
FOREIGN_HOST: Final = "foreign_host"  # an unknown host name, where no login is required
LOGINS_BUSY: Final = "logins_busy"
AUTHENTICATION_UNAVAILABLE: Final = "authentication_unavailable"  # a backend gives no answer
BUSY: Final = "503 Too Many Logins: more passwords wait to be checked than can be in time; try again later"
UNAVAILABLE: Final = "503 Service Unavailable: who may connect cannot be checked at the moment; try again later"
VPN_UNKNOWN: Final = "message_vpn_not_allowed"  # the VPN does not exist, or is not the client's own
VPN_DOWN: Final = "message_vpn_unavailable"
BROKER_RETIRED: Final = "broker_retired"  # it has nothing of the client, whose home is another one of this machine
CONNECT_ACL: Final = "connect_acl"
USERNAME_SHUT_DOWN: Final = "client_username_shutdown"
TOO_MANY_CONNECTIONS: Final = "too_many_connections"
SESSION_COUNT: Final = "mqtt_session_count"
SESSION_BYTES: Final = "mqtt_session_bytes"
UNRELEASED: Final = "mqtt_unreleased_messages"
SESSION_OF_ANOTHER: Final = "session_of_another_user"
PUBLISHER_OF_ANOTHER: Final = "publisher_of_another_user"
TRANSACTION_OF_ANOTHER: Final = "transaction_of_another_user"
PUBLISH_ACL: Final = "publish_acl"
SUBSCRIBE_ACL: Final = "subscribe_acl"
SHARE_NAME_ACL: Final = "share_name_acl"
SHARED_SUBSCRIPTIONS: Final = "shared_subscriptions"
SUBSCRIPTION_COUNT: Final = "subscription_count"
GUARANTEED_SEND: Final = "guaranteed_send"
GUARANTEED_RECEIVE: Final = "guaranteed_receive"
ENDPOINT_CREATE: Final = "endpoint_create"
ENDPOINT_COUNT: Final = "endpoint_count"
EGRESS_FLOWS: Final = "egress_flow_count"
INGRESS_FLOWS: Final = "ingress_flow_count"
TRANSACTIONS: Final = "transacted_sessions"
PAYLOAD_INVALID: Final = "payload_invalid"

_VERDICT_REASONS: Final = {REFUSED_PUBLISH_ACL: PUBLISH_ACL, REFUSED_GUARANTEED_SEND: GUARANTEED_SEND}


@final
class Denials:
    """Counts the denials and reports each to a listener."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}  # by reason
        self.listener: Callable[[str, str, str], None] | None = None  # gets reason, client name and text
        # The same for messages that do not fit a rule for payloads, and are published nevertheless: nothing is denied.
        self.unfit_listener: Callable[[str, str], None] | None = None

    def deny(self, reason: str, client: str, text: str) -> None:
        """Report a denial. The text says what was denied, and contains no secret."""
        self.counts[reason] = self.counts.get(reason, 0) + 1
        if self.listener is not None:
            self.listener(reason, client, text)


class ClientDenied(Exception):
    """A client may not do what it asked for. `reason` is a constant above; the text may be shown to the client."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text


@final
class LoginsBusy(ClientDenied):
    """A password is not checked, for the queue of logins is full. The answer reveals nothing about the username."""

    def __init__(self) -> None:
        super().__init__(LOGINS_BUSY, BUSY)


@final
class BackendUnavailable(ClientDenied):
    """Nobody can say now whether a client may come in."""

    def __init__(self) -> None:
        super().__init__(AUTHENTICATION_UNAVAILABLE, UNAVAILABLE)


@final
class Grants:
    """What the profiles of a username grant. Clients share it, unless the ACL profile depends on the client's name."""

    def __init__(
        self,
        username: str,
        client: str,
        profile: ClientProfile,
        acl: AclProfile,
        denials: Denials,
        quota: VpnQuota,
        payload_rules: PayloadRules | None = None,
    ) -> None:
        self.username = username
        self.profile = profile
        self.acl = acl
        self.denials = denials
        self.quota = quota  # of the message VPN
        self.payload_rules = payload_rules  # of the message VPN; None: it has none
        self.publish = acl.publish.of_client(username, client)
        self.subscribe = acl.subscribe.of_client(username, client)
        self.share_names = acl.share_names.of_client(username, client)
        self.is_for_all = (
            self.publish is acl.publish and self.subscribe is acl.subscribe and self.share_names is acl.share_names
        )

    def limits_publishing(self) -> bool:
        """Return whether a publish has to be checked at all."""
        profile = self.profile
        return (
            not self.publish.allows_all
            or not profile.allow_guaranteed_msg_send_enabled
            or profile.max_msg_rate != UNLIMITED
            or self.payload_rules is not None
        )


@final
class PublishState:
    """What is remembered of a client's publishes while they are limited."""

    def __init__(self, credit: int, refilled_ms: int) -> None:
        self.verdicts: dict[str, bool] = {}  # topics, and whether they may be published to
        self.credit = credit  # thousandths of messages that may be taken; below 0: over the rate
        self.refilled_ms = refilled_ms


_NO_GRANTS: Final = Grants("", "", ClientProfile(name=""), nothing_allowed(), Denials(), VpnQuota())


class ClientRights:
    """The rights of one connection. A method named `check_...` raises ClientDenied, counted and reported."""

    def __init__(self) -> None:
        """Make the rights of a client that is not admitted yet: there are none."""
        self.client = ""
        self.admitted_ms = 0  # on the clock of timers
        self._grants = _NO_GRANTS
        self._published: PublishState | None = None  # until a publish is limited
        # What is smaller than a pointer stands together.
        self.is_connected = False  # from the admission of the client to the end of its connection
        self.takes_over = False  # it ends an older connection of the same client name
        self.limits_publishing = False

    def begin(self, client: str, grants: Grants, now_ms: int, *, takes_over: bool = False) -> None:
        """Take the rights of a client that is admitted; once."""
        self.client = client
        self.admitted_ms = now_ms
        self.takes_over = takes_over
        self.renew(grants)
        if grants.profile.max_msg_rate != UNLIMITED:
            self._publish_state()

    def __repr__(self) -> str:
        return f"ClientRights({self.client!r} as {self.username!r}, {self.profile.name!r}, {self.acl.name!r})"

    @property
    def username(self) -> str:
        """The username that the client was admitted under; empty: it is anonymous."""
        return self._grants.username

    @property
    def profile(self) -> ClientProfile:
        """The client profile."""
        return self._grants.profile

    @property
    def acl(self) -> AclProfile:
        """The ACL profile."""
        return self._grants.acl

    @property
    def verdicts_count(self) -> int:
        """The number of cached topics."""
        return 0 if self._published is None else len(self._published.verdicts)

    def renew(self, grants: Grants) -> None:
        """Apply changed profiles; what the client already has, it keeps."""
        published = self._published
        if published is not None:
            was_limited = self.profile.max_msg_rate != UNLIMITED
            rate = grants.profile.max_msg_rate * 1000
            published.credit = min(published.credit, rate) if was_limited else rate
            published.verdicts = {}
        self._grants = grants
        self.limits_publishing = grants.limits_publishing()

    def _publish_state(self) -> PublishState:
        published = self._published
        if published is None:
            published = self._published = PublishState(self.profile.max_msg_rate * 1000, self.admitted_ms)
        return published

    # --- publishing ---

    def publish_verdict(self, batch: MessageBatch) -> int:
        """Return ADMITTED, or why a batch, or part of it, may not be published.

        A refusal is counted and reported if the batch has one message. Admitted messages count against the rate.
        """
        verdict = self.verdict_on(batch)
        if verdict == ADMITTED:
            self.count_taken(batch.count)
        elif batch.count == 1:  # a larger batch is split, and each message is checked again
            self._grants.denials.deny(_VERDICT_REASONS[verdict], self.client, f"publish to {batch.topic_of(0)!r}")
        return verdict

    def verdict_on(self, batch: MessageBatch) -> int:
        """Return ADMITTED, or why a batch, or part of it, may not be published, without counting or reporting it."""
        grants = self._grants
        if batch.qos != AT_MOST_ONCE and not grants.profile.allow_guaranteed_msg_send_enabled:
            return REFUSED_GUARANTEED_SEND
        if grants.publish.allows_all:
            return ADMITTED
        topics = batch.topics
        if topics is None:
            return ADMITTED if self.may_publish(batch.topic) else REFUSED_PUBLISH_ACL
        for topic in set(topics):
            if not self.may_publish(topic):
                return REFUSED_PUBLISH_ACL
        return ADMITTED

    def check_payloads(self, batch: MessageBatch) -> PayloadCheck | None:
        """Check payloads against the rules of the message VPN; None: no rule is for any topic of the batch.

        The caller publishes the batch of the result, unless that is refused; and then has it counted by `note_payloads`
        if all of it was published, or if it is a single message.
        """
        rules = self._grants.payload_rules
        return None if rules is None else rules.check(batch)

    def note_payloads(self, check: PayloadCheck) -> None:
        """Count and report what a check has found."""
        rules, denials = self._grants.payload_rules, self._grants.denials
        if rules is not None:
            rules.note(check)
        if check.refused_by:
            topic = check.batch.topic_of(0)
            denials.deny(PAYLOAD_INVALID, self.client, f"publish to {topic!r}: {check.text()}")
        elif denials.unfit_listener is not None:
            for text in check.unfit:
                denials.unfit_listener(self.client, text)

    def check_later(self, batch: MessageBatch) -> MessageBatch:
        """Check payloads that are published later, in a transaction; return what is then to be published.

        Raises ClientDenied if a payload is refused.
        """
        check = self.check_payloads(batch)
        if check is None:
            return batch
        self.note_payloads(check)
        if check.refused_by:
            raise ClientDenied(PAYLOAD_INVALID, f"{REFUSAL_TEXTS[REFUSED_PAYLOAD]} ({check.text()})")
        return check.batch

    def may_publish(self, topic: str) -> bool:
        """Return whether the client may publish to a topic, or to a queue as in `$queue/orders`. Reports nothing."""
        published = self._publish_state()
        known = published.verdicts.get(topic)
        if known is None:
            known = self._grants.publish.allows_topic(topic)
            if len(topic) > TOPIC_REMEMBERED_CHARACTERS_MAX:
                return known
            if len(published.verdicts) >= VERDICTS_CACHED_MAX:
                published.verdicts = {}
            published.verdicts[topic] = known
        return known

    def check_publish(self, topic: str, *, guaranteed: bool = False) -> None:
        """Raise unless a client may begin to publish to a topic, with guaranteed messages where asked."""
        if guaranteed and not self.profile.allow_guaranteed_msg_send_enabled:
            self._deny(GUARANTEED_SEND, REFUSAL_TEXTS[REFUSED_GUARANTEED_SEND])
        if not self.may_publish(topic):
            self._deny(PUBLISH_ACL, f"403 Publish ACL Denied: {topic!r}")

    def count_taken(self, count: int) -> None:
        """Count messages taken from the client against the rate, including those that are published later."""
        if self.profile.max_msg_rate != UNLIMITED:
            self._publish_state().credit -= count * 1000

    def is_ahead(self) -> bool:
        """Return whether the client has exceeded its rate and has to wait."""
        published = self._published
        return published is not None and self.profile.max_msg_rate != UNLIMITED and published.credit < 0

    def refill(self, now_ms: int) -> None:
        """Advance the clock. Unused rate is kept for one second."""
        published, rate = self._published, self.profile.max_msg_rate
        if published is not None:
            published.credit = min(rate * 1000, published.credit + (now_ms - published.refilled_ms) * rate)
            published.refilled_ms = now_ms

    # --- subscriptions, flows and queues ---

    def may_subscribe(self, topic_filter: TopicFilter) -> bool:
        """Return whether a filter may be subscribed to. Reports nothing.

        No client may subscribe to the topic of a queue: the queue's permissions decide who receives its messages. Only
        the client that a temporary topic or reply topic was made for may subscribe to it.
        """
        if reaches_others(topic_filter):
            return False
        return self._grants.subscribe.allows_all or self._grants.subscribe.allows_filter(topic_filter)

    def check_subscription(
        self,
        topic_filter: TopicFilter,
        count: int,
        *,
        is_new: bool = True,
        is_own: bool = False,
        share_name: str = "",
        selector: str = "",
        replaced_bytes: int = 0,
    ) -> None:
        """Raise unless a client that has `count` other subscriptions to topics may subscribe to this filter.

        `is_new`: the message VPN does not have the subscription yet. `is_own`: the topic was made for this client.
        `selector`: a selector that the VPN does not have yet. `replaced_bytes`: usage of the subscription that this one
        replaces; 0: none.
        """
        if not (is_own or self.may_subscribe(topic_filter)):
            self._deny(SUBSCRIBE_ACL, f"403 Subscription ACL Denied: {topic_filter.text!r}")
        count_max = self.profile.max_subscription_count
        if count >= count_max:
            text = f"400 Max Num Subscriptions Exceeded: the client profile allows {count_max}"
            self._deny(SUBSCRIPTION_COUNT, text)
        if is_new or selector or replaced_bytes:
            beside_bytes = share_bytes(share_name) + selector_bytes(selector) - replaced_bytes
            self._check_quota([topic_filter] if is_new or replaced_bytes else [], int(is_new), beside_bytes)

    def check_collecting(self, topics: list[TopicFilter], more_count: int) -> None:
        """Raise unless a queue that a client creates or changes may subscribe to these further topics.

        `more_count` is how many subscriptions the queue gains; it may be negative.
        """
        for topic_filter in topics:
            if not self.may_subscribe(topic_filter):
                self._deny(SUBSCRIBE_ACL, f"403 Subscription ACL Denied: {topic_filter.text!r}")
        if more_count > 0:
            self._check_quota(topics, more_count)

    def _check_quota(self, topics: list[TopicFilter], count: int, beside_bytes: int = 0) -> None:
        refusal = self._grants.quota.subscriptions_refusal(topics, count, beside_bytes)
        if refusal:
            self._deny(SUBSCRIPTION_COUNT, f"400 Max Num Subscriptions Exceeded: {refusal}")

    def may_share(self, share_name: str) -> bool:
        """Return whether a client may join shared subscriptions of this name. Reports nothing."""
        return self.profile.allow_shared_subscriptions_enabled and self._grants.share_names.allows_topic(share_name)

    def check_share(self, share_name: str) -> None:
        """Raise unless a client may join shared subscriptions of this name."""
        if not self.profile.allow_shared_subscriptions_enabled:
            self._deny(SHARED_SUBSCRIPTIONS, "403 Shared Subscription Permission Denied: by the client profile")
        if not self._grants.share_names.allows_topic(share_name):
            self._deny(SHARE_NAME_ACL, f"403 Subscription ACL Denied: share name {share_name!r}")

    def may_keep_messages(self) -> bool:
        """Return whether guaranteed messages may be stored for a subscription of the client. Reports nothing."""
        profile = self.profile
        return profile.allow_guaranteed_msg_receive_enabled and profile.allow_guaranteed_endpoint_create_enabled

    def check_receiving(self) -> None:
        """Raise unless a client may receive or browse guaranteed messages."""
        if not self.profile.allow_guaranteed_msg_receive_enabled:
            text = "403 Permission Denied: the client profile does not allow to receive guaranteed messages"
            self._deny(GUARANTEED_RECEIVE, text)

    def check_flow(self, count: int) -> None:
        """Raise unless a client that has `count` flows on queues may have one more."""
        self.check_receiving()
        count_max = self.profile.max_egress_flow_count
        if count >= count_max:
            self._deny(EGRESS_FLOWS, f"503 Max Egress Flows Exceeded: the client profile allows {count_max}")

    def check_publisher_flow(self, count: int) -> None:
        """Raise unless a client that has `count` publisher flows may have one more."""
        count_max = self.profile.max_ingress_flow_count
        if count >= count_max:
            self._deny(INGRESS_FLOWS, f"503 Max Ingress Flows Exceeded: the client profile allows {count_max}")

    def check_endpoint(self) -> None:
        """Raise unless a client may create queues, including those of its subscriptions."""
        if not self.profile.allow_guaranteed_endpoint_create_enabled:
            text = "403 Permission Denied: the client profile does not allow to create endpoints"
            self._deny(ENDPOINT_CREATE, text)

    def check_transaction(self) -> None:
        """Raise unless a client may begin transactions."""
        if not self.profile.allow_transacted_sessions_enabled:
            self._deny(TRANSACTIONS, "403 Permission Denied: the client profile does not allow transactions")

    def _deny(self, reason: str, text: str) -> None:
        self._grants.denials.deny(reason, self.client, text)
        raise ClientDenied(reason, text)
