"""The quotas of a message VPN, for all its clients together. A client profile limits one client.

The roster counts connections, the queue directory queues, the topic space subscriptions, and the session directory MQTT
sessions.
"""

from typing import Final, final

from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.topics.subscription_index import subscription_bytes
from sluicegate.messaging.topics.syntax import TopicFilter

COUNT_MAX: Final = 1 << 40  # no quota


@final
class VpnQuota:
    """The quotas of one message VPN. A configuration may change them at any time; what exists already stays."""

    def __init__(self, space: TopicSpace | None = None) -> None:
        self.connection_count_max = COUNT_MAX
        self.endpoint_count_max = COUNT_MAX
        self.subscription_count_max = COUNT_MAX
        self.subscription_bytes_max = COUNT_MAX
        self.session_count_max = COUNT_MAX  # of MQTT sessions that outlive their connections
        self.session_bytes_max = COUNT_MAX  # of all MQTT sessions
        self._space = space  # counts the subscriptions; None: not counted

    def subscriptions_refusal(self, filters: list[TopicFilter], count: int, beside_bytes: int = 0) -> str:
        """Return why `count` more subscriptions with these filters are refused; empty: they are not.

        They are of clients or queues. Beside their filters they count for `beside_bytes`, which is negative where they
        replace others. Subscriptions that take no more than before are never refused for their bytes.
        """
        space = self._space
        if space is None:
            return ""
        if count > 0 and space.subscriptions_count + count > self.subscription_count_max:
            return f"the VPN has {self.subscription_count_max}"
        size = beside_bytes + sum([subscription_bytes(each) for each in filters])
        if size > 0 and space.subscriptions_bytes + size > self.subscription_bytes_max:
            return f"those of the VPN take {self.subscription_bytes_max} bytes"
        return ""
