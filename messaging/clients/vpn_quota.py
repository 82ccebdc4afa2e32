"""What all clients of a message VPN may have together. What one client may have is its profile's matter.

Connections are counted by the roster, queues by their directory, subscriptions by the topic space, MQTT sessions by
theirs.
"""

from typing import Final, final

from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.topics.subscription_index import subscription_bytes
from sluicegate.messaging.topics.syntax import TopicFilter

COUNT_MAX: Final = 1 << 40  # no quota


@final
class VpnQuota:
    """The quotas of one message VPN; a configuration changes them while it is in use. What is there already stays."""

    def __init__(self, space: TopicSpace | None = None) -> None:
        self.connection_count_max = COUNT_MAX
        self.endpoint_count_max = COUNT_MAX
        self.subscription_count_max = COUNT_MAX
        self.subscription_bytes_max = COUNT_MAX
        self.session_count_max = COUNT_MAX  # of MQTT, that outlive their connections
        self.session_bytes_max = COUNT_MAX  # of all MQTT sessions
        self._space = space  # whose subscriptions count; None: none do

    def subscriptions_refusal(self, filters: list[TopicFilter], count: int, beside_bytes: int = 0) -> str:
        """Return why there may not be `count` more subscriptions, of clients or queues, with these filters among them.

        Beside their filters they count for `beside_bytes`, which is negative where they replace others. What takes no
        more than before is never refused for its bytes. Empty: there may.
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
