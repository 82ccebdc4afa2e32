"""What one connected client may do: its profiles, asked on its behalf, with the answers remembered.

Of publishing it is asked once a batch, and looks a topic up that it was asked before. A refusal is counted and told at
the one place where it is given, so whoever gets one only has to say it in the protocol's words.

How many of a name may connect is `messaging.clients.roster`; what a queue permits is `messaging.queues.definition`.
"""

from collections.abc import Callable
from typing import Final, final

from sluicegate.messaging.clients.acl_profile import AclProfile
from sluicegate.messaging.clients.client_profile import UNLIMITED, ClientProfile
from sluicegate.messaging.clients.vpn_quota import VpnQuota
from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.message.refusals import ADMITTED, REFUSAL_TEXTS, REFUSED_GUARANTEED_SEND, REFUSED_PUBLISH_ACL
from sluicegate.messaging.message.usage import selector_bytes, share_bytes
from sluicegate.messaging.topics.syntax import TOPIC_REMEMBERED_CHARACTERS_MAX, TopicFilter, reaches_others

VERDICTS_CACHED_MAX: Final = 4096  # topics of one client; all are forgotten when there are more

_NO_VERDICTS: Final[dict[str, bool]] = {}  # of all clients that asked for none yet

# Why something was denied, in metrics and in the audit log.
NOT_AUTHENTICATED: Final = "not_authenticated"
FOREIGN_ORIGIN: Final = "foreign_origin"  # a web page that may not use the port
FOREIGN_HOST: Final = "foreign_host"  # a name of the broker that it does not know, where nobody has to log in
LOGINS_BUSY: Final = "logins_busy"
BUSY: Final = "503 Too Many Logins: more passwords wait to be checked than can be in time; try again later"
VPN_UNKNOWN: Final = "message_vpn_not_allowed"  # a client named one that is not there, or not its own
VPN_DOWN: Final = "message_vpn_unavailable"
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

_VERDICT_REASONS: Final = {REFUSED_PUBLISH_ACL: PUBLISH_ACL, REFUSED_GUARANTEED_SEND: GUARANTEED_SEND}


@final
class Denials:
    """Everything that clients were denied, counted, and told to whoever listens."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}  # by reason
        self.listener: Callable[[str, str, str], None] | None = None  # is told reason, client name and text

    def deny(self, reason: str, client: str, text: str) -> None:
        """Note that a client was denied something. The text says what, and holds no secret."""
        self.counts[reason] = self.counts.get(reason, 0) + 1
        if self.listener is not None:
            self.listener(reason, client, text)


class ClientDenied(Exception):
    """A client may not do what it asked for. `reason` is one of those above; the text may be shown to it."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text


@final
class LoginsBusy(ClientDenied):
    """A password is not looked at: it would wait too long. This tells nothing of its name."""

    def __init__(self) -> None:
        super().__init__(LOGINS_BUSY, BUSY)


@final
class ClientRights:
    """The rights of one connection. What is named `check` raises ClientDenied, counted and told."""

    def __init__(
        self,
        *,
        user: str,
        client: str,
        profile: ClientProfile,
        acl: AclProfile,
        denials: Denials,
        now_ms: int,
        quota: VpnQuota,
    ) -> None:
        self.user = user
        self.client = client
        self.profile = profile
        self.admitted_ms = now_ms  # of the clock that timers go by
        self._denials = denials
        self._quota = quota  # of the message VPN
        self._verdicts: dict[str, bool] = _NO_VERDICTS  # topics that may, or may not, be published to
        self.acl = acl
        self._publish = acl.publish.of_client(user, client)
        self._subscribe = acl.subscribe.of_client(user, client)
        self._share_names = acl.share_names.of_client(user, client)
        self._credit = profile.max_msg_rate * 1000  # thousandths of messages that may be taken; below 0: too many were
        self._refilled_ms = now_ms
        self.limits_publishing = self._limits_publishing()

    def __repr__(self) -> str:
        return f"ClientRights({self.client!r} as {self.user!r}, {self.profile.name!r}, {self.acl.name!r})"

    @property
    def verdicts_count(self) -> int:
        """How many topics it remembers the answer for."""
        return len(self._verdicts)

    def renew(self, profile: ClientProfile, acl: AclProfile) -> None:
        """Go by changed profiles from now on; what the client has, it keeps."""
        was_limited = self.profile.max_msg_rate != UNLIMITED
        self.profile = profile
        self.acl = acl
        self._publish = acl.publish.of_client(self.user, self.client)
        self._subscribe = acl.subscribe.of_client(self.user, self.client)
        self._share_names = acl.share_names.of_client(self.user, self.client)
        self._verdicts = _NO_VERDICTS
        rate = profile.max_msg_rate * 1000
        self._credit = min(self._credit, rate) if was_limited else rate
        self.limits_publishing = self._limits_publishing()

    def _limits_publishing(self) -> bool:
        profile = self.profile
        return (
            not self._publish.allows_all
            or not profile.allow_guaranteed_msg_send_enabled
            or profile.max_msg_rate != UNLIMITED
        )

    # --- publishing ---

    def publish_verdict(self, batch: MessageBatch) -> int:
        """Return ADMITTED, or why a batch, or some of it, may not be published. Of one message it is counted and told.

        What is admitted counts against the rate.
        """
        verdict = self.verdict_on(batch)
        if verdict == ADMITTED:
            self.count_taken(batch.count)
        elif batch.count == 1:  # else they are asked about again, one by one
            self._denials.deny(_VERDICT_REASONS[verdict], self.client, f"publish to {batch.topic_of(0)!r}")
        return verdict

    def verdict_on(self, batch: MessageBatch) -> int:
        """Return ADMITTED, or why a batch, or some of it, may not be published. Tells nobody, and counts nothing."""
        if batch.qos != AT_MOST_ONCE and not self.profile.allow_guaranteed_msg_send_enabled:
            return REFUSED_GUARANTEED_SEND
        if self._publish.allows_all:
            return ADMITTED
        topics = batch.topics
        if topics is None:
            return ADMITTED if self.may_publish(batch.topic) else REFUSED_PUBLISH_ACL
        for topic in set(topics):
            if not self.may_publish(topic):
                return REFUSED_PUBLISH_ACL
        return ADMITTED

    def may_publish(self, topic: str) -> bool:
        """Return whether a topic may be published to; a queue's is its own, as in `$queue/orders`. Tells nobody."""
        known = self._verdicts.get(topic)
        if known is None:
            known = self._publish.allows_topic(topic)
            if len(topic) > TOPIC_REMEMBERED_CHARACTERS_MAX:
                return known
            if self._verdicts is _NO_VERDICTS or len(self._verdicts) >= VERDICTS_CACHED_MAX:
                self._verdicts = {}
            self._verdicts[topic] = known
        return known

    def check_publish(self, topic: str, *, guaranteed: bool = False) -> None:
        """Ask whether a client may begin to publish to a topic, guaranteed messages too."""
        if guaranteed and not self.profile.allow_guaranteed_msg_send_enabled:
            self._deny(GUARANTEED_SEND, REFUSAL_TEXTS[REFUSED_GUARANTEED_SEND])
        if not self.may_publish(topic):
            self._deny(PUBLISH_ACL, f"403 Publish ACL Denied: {topic!r}")

    def count_taken(self, count: int) -> None:
        """Count messages against the rate that were taken from the client, also those that are published later."""
        if self.profile.max_msg_rate != UNLIMITED:
            self._credit -= count * 1000

    def is_ahead(self) -> bool:
        """Return whether more was published than the rate allows, so that the client has to wait."""
        return self.profile.max_msg_rate != UNLIMITED and self._credit < 0

    def refill(self, now_ms: int) -> None:
        """Bring time. What was not used is kept for one second."""
        rate = self.profile.max_msg_rate
        self._credit = min(rate * 1000, self._credit + (now_ms - self._refilled_ms) * rate)
        self._refilled_ms = now_ms

    # --- subscriptions, flows and queues ---

    def may_subscribe(self, topic_filter: TopicFilter) -> bool:
        """Return whether a filter may be subscribed to. Tells nobody.

        Topics of queues may not, by anybody: what is sent to a queue is for those whom the queue permits. Nor may
        temporary topics and reply topics, but by whom they were made for.
        """
        if reaches_others(topic_filter):
            return False
        return self._subscribe.allows_all or self._subscribe.allows_filter(topic_filter)

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
        """Ask whether a client that has `count` other subscriptions to topics may have one for this filter.

        `is_new`: the message VPN does not have it yet. `is_own`: the topic was made for this client. `selector`: one
        that it does not have yet. `replaced_bytes`: usage of the subscription that it takes the place of; 0: of none.
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
        """Ask whether a queue that a client makes, or changes, may collect these topics, which it did not before.

        It has then `more_count` subscriptions more than before, or less than none.
        """
        for topic_filter in topics:
            if not self.may_subscribe(topic_filter):
                self._deny(SUBSCRIBE_ACL, f"403 Subscription ACL Denied: {topic_filter.text!r}")
        if more_count > 0:
            self._check_quota(topics, more_count)

    def _check_quota(self, topics: list[TopicFilter], count: int, beside_bytes: int = 0) -> None:
        refusal = self._quota.subscriptions_refusal(topics, count, beside_bytes)
        if refusal:
            self._deny(SUBSCRIPTION_COUNT, f"400 Max Num Subscriptions Exceeded: {refusal}")

    def may_share(self, share_name: str) -> bool:
        """Return whether a client may be a member of shares of this name. Tells nobody."""
        return self.profile.allow_shared_subscriptions_enabled and self._share_names.allows_topic(share_name)

    def check_share(self, share_name: str) -> None:
        """Ask whether a client may be a member of shares of this name."""
        if not self.profile.allow_shared_subscriptions_enabled:
            self._deny(SHARED_SUBSCRIPTIONS, "403 Shared Subscription Permission Denied: by the client profile")
        if not self._share_names.allows_topic(share_name):
            self._deny(SHARE_NAME_ACL, f"403 Subscription ACL Denied: share name {share_name!r}")

    def may_keep_messages(self) -> bool:
        """Return whether a client may have guaranteed messages kept for a subscription of its own. Tells nobody."""
        profile = self.profile
        return profile.allow_guaranteed_msg_receive_enabled and profile.allow_guaranteed_endpoint_create_enabled

    def check_receiving(self) -> None:
        """Ask whether a client may receive guaranteed messages, or look at them."""
        if not self.profile.allow_guaranteed_msg_receive_enabled:
            text = "403 Permission Denied: the client profile does not allow to receive guaranteed messages"
            self._deny(GUARANTEED_RECEIVE, text)

    def check_flow(self, count: int) -> None:
        """Ask whether a client that has `count` flows on queues may have one more."""
        self.check_receiving()
        count_max = self.profile.max_egress_flow_count
        if count >= count_max:
            self._deny(EGRESS_FLOWS, f"503 Max Egress Flows Exceeded: the client profile allows {count_max}")

    def check_publisher_flow(self, count: int) -> None:
        """Ask whether a client that has `count` publisher flows may have one more."""
        count_max = self.profile.max_ingress_flow_count
        if count >= count_max:
            self._deny(INGRESS_FLOWS, f"503 Max Ingress Flows Exceeded: the client profile allows {count_max}")

    def check_endpoint(self) -> None:
        """Ask whether a client may make queues, those of its subscriptions among them."""
        if not self.profile.allow_guaranteed_endpoint_create_enabled:
            text = "403 Permission Denied: the client profile does not allow to create endpoints"
            self._deny(ENDPOINT_CREATE, text)

    def check_transaction(self) -> None:
        """Ask whether a client may begin transactions."""
        if not self.profile.allow_transacted_sessions_enabled:
            self._deny(TRANSACTIONS, "403 Permission Denied: the client profile does not allow transactions")

    def _deny(self, reason: str, text: str) -> None:
        self._denials.deny(reason, self.client, text)
        raise ClientDenied(reason, text)
