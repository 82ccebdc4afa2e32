"""Client profiles and ACL profiles: what clients may do, by the profiles of their user.

Names of attributes are Solace's, in snake case. Their effect on a connected client is described in
`messaging.clients.limits` and `messaging.clients.acl_profile`.
"""

import ipaddress
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from sluicegate.gateway.config.sections.section import NamedSection, Section
from sluicegate.messaging.clients.acl_profile import AclProfile, AddressRules, TopicRules, parse_exception
from sluicegate.messaging.clients.limits import COUNT_MAX, UNLIMITED, ClientProfile
from sluicegate.messaging.routing.deliver_to_one import priority_of

ALLOW: Final = "allow"
EXCEPTIONS_MAX: Final = 1000  # of one kind in one profile; all are checked when a new topic is used

Action = Literal["allow", "disallow"]
ProfileName = Annotated[str, Field(min_length=1, max_length=32)]
Count = Annotated[int, Field(ge=0, le=COUNT_MAX)]


def _network(text: str) -> str:
    ipaddress.ip_network(text)
    return text


class ClientProfileSettings(NamedSection):
    """A client profile. By default everything but links of other brokers is permitted, without limits."""

    name: ProfileName
    dto_local_priority: Literal["P1", "P2", "P3", "P4", "DA"] = Field(
        default="P1",
        description="priority of its subscriptions for Deliver-To-One: P1 (highest) to P4, or DA (deliver always)",
    )
    allow_guaranteed_msg_send_enabled: bool = True
    allow_guaranteed_msg_receive_enabled: bool = True
    allow_guaranteed_endpoint_create_enabled: bool = True
    allow_shared_subscriptions_enabled: bool = True
    allow_transacted_sessions_enabled: bool = True
    allow_bridge_connections_enabled: bool = Field(
        default=False, description="its clients may be brokers that link to this one"
    )
    max_connection_count: Count = COUNT_MAX
    max_connection_count_per_client_username: Count = COUNT_MAX
    max_egress_flow_count: Count = COUNT_MAX
    max_ingress_flow_count: Count = COUNT_MAX
    max_subscription_count: Count = COUNT_MAX
    max_endpoint_count_per_client_username: Count = COUNT_MAX
    max_msg_rate: Count = UNLIMITED

    def profile(self) -> ClientProfile:
        """Return the profile as the core's type."""
        values: dict[str, Any] = self.model_dump()
        return ClientProfile(**values | {"dto_local_priority": priority_of(self.dto_local_priority)})


class TopicException(Section):
    """Topics, or share names, for which the opposite of the default action applies."""

    topic: str
    syntax: Literal["smf", "mqtt"] = "smf"

    @model_validator(mode="after")
    def _check_topic(self) -> Self:
        parse_exception(self.topic, self.syntax)  # raises an error that names the problem
        return self


TopicExceptions = Annotated[tuple[TopicException, ...], Field(max_length=EXCEPTIONS_MAX)]


class AclProfileSettings(NamedSection):
    """An ACL profile."""

    name: ProfileName
    client_connect_default_action: Action = "allow"
    client_connect_exceptions: Annotated[
        tuple[Annotated[str, AfterValidator(_network)], ...], Field(max_length=EXCEPTIONS_MAX)
    ] = ()
    publish_topic_default_action: Action = "disallow"
    publish_topic_exceptions: TopicExceptions = ()
    subscribe_topic_default_action: Action = "disallow"
    subscribe_topic_exceptions: TopicExceptions = ()
    subscribe_share_name_default_action: Action = "allow"
    subscribe_share_name_exceptions: TopicExceptions = ()

    def profile(self) -> AclProfile:
        """Return the profile as the core's type."""
        return AclProfile(
            self.name,
            connect=AddressRules(
                [ipaddress.ip_network(each) for each in self.client_connect_exceptions],
                allows_by_default=self.client_connect_default_action == ALLOW,
            ),
            publish=_rules(self.publish_topic_default_action, self.publish_topic_exceptions),
            subscribe=_rules(self.subscribe_topic_default_action, self.subscribe_topic_exceptions),
            share_names=_rules(self.subscribe_share_name_default_action, self.subscribe_share_name_exceptions),
        )


def _rules(action: str, exceptions: tuple[TopicException, ...]) -> TopicRules:
    filters = [parse_exception(each.topic, each.syntax) for each in exceptions]
    return TopicRules(filters, allows_by_default=action == ALLOW)
