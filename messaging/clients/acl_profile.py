"""ACL profiles: the addresses, topics and share names that a client may use. Named as in Solace.

Each of the four kinds has a default action, and exceptions for which the opposite holds. A whole level of an exception
may stand for the client that asks: `$client-username` or `$client-id`.

`messaging.clients.rights` evaluates the profile and caches the answers.
"""

import ipaddress
from typing import Final, final

from sluicegate.messaging.topics.relations import covers, overlap
from sluicegate.messaging.topics.syntax import (
    LITERAL,
    Level,
    Syntax,
    TopicFilter,
    hidden_from_wildcards,
    matches,
    parse_filter,
)

CLIENT_USERNAME: Final = "$client-username"
CLIENT_ID: Final = "$client-id"
_NOBODY: Final = Level(LITERAL, "/")  # no topic has a level with a slash in it


@final
class TopicRules:
    """A default action for topics, and filters of the topics for which the opposite holds.

    A subscription may match many topics. It is permitted when all of them are: with default `disallow`, one exception
    has to cover it; with default `allow`, it may not overlap any exception.
    """

    def __init__(self, exceptions: list[TopicFilter], *, allows_by_default: bool) -> None:
        self.allows_by_default = allows_by_default
        self.exceptions = exceptions
        self._has_variables = any(_is_variable(level) for exception in exceptions for level in exception.levels)

    @property
    def allows_all(self) -> bool:
        """Whether every topic is allowed."""
        return self.allows_by_default and not self.exceptions

    def allows_topic(self, topic: str) -> bool:
        """Return whether one topic is permitted."""
        for exception in self.exceptions:
            if matches(exception, topic):
                return not self.allows_by_default
        return self.allows_by_default

    def allows_filter(self, topic_filter: TopicFilter) -> bool:
        """Return whether every topic that a subscription matches is permitted."""
        if self.allows_by_default:
            return not any(overlap(exception, topic_filter) for exception in self.exceptions)
        return any(covers(exception, topic_filter) for exception in self.exceptions)

    def of_client(self, user: str, client: str) -> "TopicRules":
        """Return the rules for one client, with the variables replaced by its names."""
        if not self._has_variables:
            return self
        permits = not self.allows_by_default
        exceptions = [_of_client(exception, user, client, permits=permits) for exception in self.exceptions]
        return TopicRules(exceptions, allows_by_default=self.allows_by_default)


def _is_variable(level: Level) -> bool:
    return level.kind == LITERAL and level.text in (CLIENT_USERNAME, CLIENT_ID)


def _of_client(exception: TopicFilter, user: str, client: str, *, permits: bool) -> TopicFilter:
    levels: list[Level] = []
    for level in exception.levels:
        if _is_variable(level):
            # A name is literal text, whatever wildcards it contains; an exception with the variable of a name that the
            # client lacks matches nothing. Nor does a name reach what wildcards do not: `$client-id/>` would open all
            # queues to a client called `$queue`.
            name = user if level.text == CLIENT_USERNAME else client
            is_nobodys = not name or (permits and not levels and hidden_from_wildcards(name))
            levels.append(_NOBODY if is_nobodys else Level(LITERAL, name))
        else:
            levels.append(level)
    return TopicFilter(exception.text, exception.syntax, tuple(levels))


@final
class AddressRules:
    """A default action for client addresses, and networks for which the opposite holds."""

    def __init__(
        self, exceptions: list[ipaddress.IPv4Network | ipaddress.IPv6Network], *, allows_by_default: bool
    ) -> None:
        self.allows_by_default = allows_by_default
        self.exceptions = exceptions

    def allows(self, host: str) -> bool:
        """Return whether a client of this address may connect. A text that is not an address is in no network."""
        if not self.exceptions:
            return self.allows_by_default
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            return self.allows_by_default
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped  # an IPv4 client on a dual-stack socket
        is_exception = any(address in network for network in self.exceptions)
        return self.allows_by_default != is_exception


@final
class AclProfile:
    """What the clients of a username may connect from, publish to, subscribe to and share."""

    def __init__(
        self,
        name: str,
        *,
        connect: AddressRules,
        publish: TopicRules,
        subscribe: TopicRules,
        share_names: TopicRules,
    ) -> None:
        self.name = name
        self.connect = connect
        self.publish = publish
        self.subscribe = subscribe
        self.share_names = share_names  # a share name is a topic of one level

    def __repr__(self) -> str:
        return f"AclProfile({self.name!r})"


def permissive(name: str) -> AclProfile:
    """Return a profile that allows everything."""
    return AclProfile(
        name,
        connect=AddressRules([], allows_by_default=True),
        publish=TopicRules([], allows_by_default=True),
        subscribe=TopicRules([], allows_by_default=True),
        share_names=TopicRules([], allows_by_default=True),
    )


def nothing_allowed() -> AclProfile:
    """Return a profile that allows nothing."""
    return AclProfile(
        "",
        connect=AddressRules([], allows_by_default=False),
        publish=TopicRules([], allows_by_default=False),
        subscribe=TopicRules([], allows_by_default=False),
        share_names=TopicRules([], allows_by_default=False),
    )


def parse_exception(topic: str, syntax: str) -> TopicFilter:
    """Parse an exception in syntax `smf` or `mqtt`. Raises TopicError."""
    return parse_filter(topic, Syntax(syntax))
