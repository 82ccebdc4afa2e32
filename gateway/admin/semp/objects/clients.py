"""SEMP objects for users, clients, client profiles and ACL profiles."""

from collections.abc import Callable
from typing import Any, Final

from sluicegate.gateway.admin.semp.objects.attributes import (
    BOOLEAN,
    INTEGER,
    TEXT,
    Schema,
    SempAttribute,
    SempCollection,
    SempObject,
    semp_name,
)
from sluicegate.gateway.config.sections.section import Section
from sluicegate.gateway.config.sections.security.client_profiles import (
    AclProfileSettings,
    ClientProfileSettings,
    TopicException,
)
from sluicegate.gateway.provisioning.stored_users import PASSWORD_CHARS_MAX
from sluicegate.gateway.views.clients.accounts import UserView
from sluicegate.gateway.views.clients.clients import ClientView
from sluicegate.gateway.views.clients.subscriptions import SmrpSubscriptionView

CLIENT: Final[SempObject[ClientView]] = SempObject(
    "client",
    "clientName",
    (
        SempAttribute(
            "clientName", TEXT, "name of the client in its protocol, such as the client ID", lambda client: client.name
        ),
        SempAttribute("clientUsername", TEXT, "user name; empty: anonymous", lambda client: client.client_username),
        SempAttribute("clientProfileName", TEXT, "its client profile", lambda client: client.client_profile),
        SempAttribute("aclProfileName", TEXT, "its ACL profile", lambda client: client.acl_profile),
        SempAttribute("clientAddress", TEXT, "host and port", lambda client: client.address),
        SempAttribute("protocol", TEXT, "protocol of the connection", lambda client: client.protocol),
        SempAttribute("uptime", INTEGER, "seconds since it connected", lambda client: client.connected_s),
        SempAttribute(
            "txUnackedMsgCount", INTEGER, "unacknowledged messages from queues", lambda client: client.unacked_count
        ),
    ),
    (
        SempCollection("subscriptions", None),
        SempCollection("txFlows", lambda client: client.flows_count),
    ),
)

USERNAME: Final[SempObject[UserView]] = SempObject(
    "clientUsername",
    "clientUsername",
    (
        SempAttribute("clientUsername", TEXT, "name", lambda user: user.name, "name"),
        SempAttribute("enabled", BOOLEAN, "whether its clients may connect", lambda user: user.enabled, "enabled"),
        SempAttribute(
            "clientProfileName", TEXT, "its client profile", lambda user: user.client_profile, "client_profile"
        ),
        SempAttribute("aclProfileName", TEXT, "its ACL profile", lambda user: user.acl_profile, "acl_profile"),
        SempAttribute(
            "password",
            {**TEXT, "format": "password", "minLength": 1, "maxLength": PASSWORD_CHARS_MAX},
            "in plain text; only its hash is stored",
            None,
            "password",
        ),
        SempAttribute("connectionCount", INTEGER, "number of its connected clients", lambda user: user.connected_count),
    ),
)

CLIENT_SUBSCRIPTION: Final[SempObject[SmrpSubscriptionView]] = SempObject(
    "subscription",
    "subscriptionTopic",
    (
        SempAttribute("subscriptionTopic", TEXT, "the topic filter", lambda row: row.subscription),
        SempAttribute("dtoPriority", TEXT, "Deliver-To-One priority; DA: deliver always", lambda row: row.dto_priority),
    ),
)


def _settings(section: type[Section], names: dict[str, str]) -> tuple[SempAttribute[Any], ...]:
    """Return an attribute for each single-valued setting of a profile; `names` overrides SEMP names."""
    properties: dict[str, Schema] = section.model_json_schema()["properties"]
    return tuple(
        SempAttribute(names.get(name, semp_name(name)), schema, _meaning(schema), _setting(name), name)
        for name, schema in properties.items()
        if schema["type"] != "array"
    )


def _meaning(schema: Schema) -> str:
    return str(schema.get("description", "as in the configuration"))


def _setting(name: str) -> Callable[[Section], Any]:
    return lambda profile: getattr(profile, name)


def _exceptions(kind: str) -> SempCollection[AclProfileSettings]:
    field = EXCEPTIONS[kind][0]
    return SempCollection(f"{kind}s", lambda profile: len(getattr(profile, field)), configures=True)


# Exceptions of ACL profiles: kind -> (setting, key attribute)
EXCEPTIONS: Final = {
    "clientConnectException": ("client_connect_exceptions", "clientConnectExceptionAddress"),
    "publishTopicException": ("publish_topic_exceptions", "publishTopicException"),
    "subscribeShareNameException": ("subscribe_share_name_exceptions", "subscribeShareNameException"),
    "subscribeTopicException": ("subscribe_topic_exceptions", "subscribeTopicException"),
}

CLIENT_PROFILE: Final[SempObject[ClientProfileSettings]] = SempObject(
    "clientProfile", "clientProfileName", _settings(ClientProfileSettings, {"name": "clientProfileName"})
)

ACL_PROFILE: Final[SempObject[AclProfileSettings]] = SempObject(
    "aclProfile",
    "aclProfileName",
    _settings(AclProfileSettings, {"name": "aclProfileName"}),
    tuple(_exceptions(kind) for kind in EXCEPTIONS),
)


def exception_kind(kind: str) -> SempObject[Any]:
    """Return the kind of object for exceptions of an ACL profile."""
    key = EXCEPTIONS[kind][1]
    if kind == "clientConnectException":
        return SempObject(kind, key, (SempAttribute(key, TEXT, "a network", str, kind),))
    exception: SempObject[TopicException] = SempObject(
        kind,
        key,
        (
            SempAttribute(key, TEXT, "a topic filter, or a share name", lambda each: each.topic, "topic"),
            SempAttribute(f"{key}Syntax", TEXT, "smf or mqtt", lambda each: each.syntax, "syntax"),
        ),
        qualifier=f"{key}Syntax",
    )
    return exception
