"""What all clients of a message VPN may have together. What one client may have is its profile's matter.

Connections are counted by the roster, queues by their directory, subscriptions by the topic space.
"""

from typing import Final, final

from messaging.routing import TopicSpace

COUNT_MAX: Final = 1 << 40  # no quota


@final
class VpnQuota:
    """The quotas of one message VPN; a configuration changes them while it is in use. What is there already stays."""

    def __init__(self, space: TopicSpace | None = None) -> None:
        self.connection_count_max = COUNT_MAX
        self.endpoint_count_max = COUNT_MAX
        self.subscription_count_max = COUNT_MAX
        self._space = space  # whose subscriptions count; None: none do

    def takes_subscriptions(self, count: int) -> bool:
        """Return whether there may be so many more subscriptions, of clients or queues."""
        return self._space is None or self._space.subscriptions_count + count <= self.subscription_count_max
