"""Users and groups, and who may read and write destinations. Rights of several entries add up, as in ActiveMQ."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from argon2 import PasswordHasher

from sluicegate.gateway.importing.activemq.policies import Policies, matches
from sluicegate.gateway.importing.activemq.values import (
    flag_of,
    is_exact,
    is_placeholder,
    is_sayable,
    topic_filters,
    words_of,
)
from sluicegate.gateway.importing.imported import NO_PASSWORD, Imported
from sluicegate.gateway.importing.names import profile_name
from sluicegate.gateway.importing.report import Setting
from sluicegate.gateway.importing.xml_text import Element

FILES: Final = "users and groups are in other files, which are not read: add them with `sluicegate user add`"
WILDCARD: Final = "for names with dots a wildcard in the middle is no filter; it holds for topics with slashes"
NO_FILTER: Final = "a wildcard is a whole level, and `>` the last one: the name is no filter here, so less is allowed"
NO_RIGHTS: Final = "rights are not in authorizationEntry of one authorizationPlugin: nobody may publish or subscribe"
UNKNOWN_PLUGIN: Final = "it may be about who may do what: so clients need an account"
MORE_THAN_CONSUME: Final = (
    "an owner may do more than consume: change, empty and delete the queue. The only user who may read is its owner"
)
PLUGINS: Final = (
    "jaasAuthenticationPlugin", "jaasCertificateAuthenticationPlugin", "jaasDualAuthenticationPlugin", "shiroPlugin",
)  # fmt: skip
HARMLESS: Final = frozenset(  # children of `plugins` that say nothing of rights, or whose rights are taken
    {
        "authorizationPlugin", "camelRoutesBrokerPlugin", "connectionDotFilePlugin", "destinationDotFilePlugin",
        "destinationPathSeparatorPlugin", "discardingDLQBrokerPlugin", "forcePersistencyModeBroker",
        "forcePersistencyModeBrokerPlugin", "loggingBrokerPlugin", "multicastTraceBrokerPlugin", "redeliveryPlugin",
        "simpleAuthenticationPlugin", "statisticsBrokerPlugin", "subQueueSelectorCacheBroker",
        "subQueueSelectorCacheBrokerPlugin", "timeStampingBrokerPlugin", "traceBrokerPathPlugin",
        "udpTraceBrokerPlugin", "virtualSelectorCacheBrokerPlugin",
    }
)  # fmt: skip
ANY_GROUP: Final = "*"


@dataclass(slots=True)
class _Entry:
    element: Element
    kind: str  # queue or topic
    name: str

    def permits(self, right: str, groups: set[str]) -> bool:
        allowed = {*words_of(self.element.get(right))}
        return bool(allowed & groups) or ANY_GROUP in allowed


def take_access(broker: Element, policies: Policies, imported: Imported) -> None:
    """Take accounts and rights. Raises ImportFailed."""
    report = imported.report
    groups: dict[str, set[str]] = {}
    is_anonymous = True
    for plugin in broker.all("simpleAuthenticationPlugin"):
        is_anonymous = flag_of(plugin, "anonymousAccessAllowed", False) and is_anonymous
        report.taken(plugin.setting(), f"authentication.allow_anonymous: {str(is_anonymous).lower()}")
        for attribute in ("anonymousUser", "anonymousGroup"):
            if attribute in plugin.attributes:
                report.taken(plugin.setting(attribute), "the rights of the ACL profile `default`")
        groups[""] = {*words_of(plugin.get("anonymousGroup", "anonymous"))} if is_anonymous else set()
        for user in plugin.all("authenticationUser"):
            _account(user, groups, imported)
    for name in PLUGINS:
        for plugin in broker.all(name):
            is_anonymous = False
            plugin.note(report.not_taken, FILES)
    others = [*_unknown_plugins(broker, imported)]
    is_anonymous = is_anonymous and not others
    if not is_anonymous:
        groups.pop("", None)
    imported.put("authentication.allow_anonymous", is_anonymous)
    entries: list[_Entry] = []
    for each in broker.all("authorizationEntry"):
        for kind in ("queue", "topic"):
            entries += [_Entry(each, kind, name) for name in words_of(each.get(kind))]
    for each in broker.all("tempDestinationAuthorizationEntry"):
        each.note(report.differs, "a temporary destination is only for the connection that created it")
    plugins = [*broker.all("authorizationPlugin")]
    if len(plugins) > 1:  # ActiveMQ asks all of them, while the rights of entries add up
        entries = []
    for plugin in plugins:
        if entries:
            report.taken(plugin.setting(), "authentication.acl_profiles")
        else:
            plugin.note(report.not_taken, NO_RIGHTS)
    is_said_elsewhere = bool(others or [*broker.all("shiroPlugin")])
    if is_said_elsewhere and not plugins:
        entries = []
        report.not_taken(Setting("", "rights of accounts"), NO_RIGHTS)
    if is_said_elsewhere or plugins:
        _rights(entries, groups, imported)
        _consumers(entries, groups, policies, imported)


def _unknown_plugins(broker: Element, imported: Imported) -> Iterator[Setting]:
    """Yield the plug-ins that may be about rights, and that this importer does not know."""
    found = [each for holder in broker.children if holder.name == "plugins" for each in holder.children]
    for plugin in found:
        if plugin.name not in (*HARMLESS, *PLUGINS):
            plugin.note(imported.report.not_taken, UNKNOWN_PLUGIN)
            yield plugin.setting()
    if "plugins" in broker.attributes:
        imported.report.not_taken(broker.setting("plugins"), UNKNOWN_PLUGIN)
        yield broker.setting("plugins")


def _account(user: Element, groups: dict[str, set[str]], imported: Imported) -> None:
    name, password = user.get("username"), user.get("password")
    if name:
        groups[name] = {*words_of(user.get("groups"))}
    if not name or is_placeholder(name):
        imported.report.not_taken(user.setting(), "its name is in another file: add it with `sluicegate user add`")
        return
    if password and not is_placeholder(password):
        file = imported.secrets.add(name, PasswordHasher().hash(password))
        imported.report.taken(user.setting(), f"authentication.users: {name}, with a hash of its password")
    else:
        file = imported.secrets.add_none(name)
        imported.report.taken(user.setting(), f"authentication.users: {name}")
        imported.report.not_taken(user.setting("password"), NO_PASSWORD.format(file=file))
    imported.section("authentication").setdefault("users", []).append({"name": name, "password_file": file})


def _rights(entries: list[_Entry], groups: dict[str, set[str]], imported: Imported) -> None:
    authentication = imported.section("authentication")
    profiles: list[dict[str, Any]] = [_profile("default", entries, groups.get("", set()))]
    for user in authentication.get("users", ()):
        name = profile_name(user["name"], [each["name"] for each in profiles])
        user["acl_profile"] = name
        profiles.append(_profile(name, entries, groups[user["name"]]))
    authentication["acl_profiles"] = profiles
    report = imported.report
    for entry in entries:
        for right in ("read", "write", "admin"):
            if right not in entry.element.attributes:
                continue
            setting = entry.element.setting(right)
            if right == "admin":
                text = "every user may create queues, unless its client profile has no "
                report.differs(setting, f"{text}allow_guaranteed_endpoint_create_enabled")
            elif entry.kind == "queue" and right == "read":
                report.taken(setting, "who consumes: permission and owner of queues")
            else:
                report.taken(setting, f"{'publish' if right == 'write' else 'subscribe'} exceptions of ACL profiles")
        report.taken(entry.element.setting(), "rights of the groups' users")
        if not is_sayable(entry.name):
            report.not_taken(entry.element.setting(entry.kind), NO_FILTER)
        elif not is_exact(entry.name):
            report.not_taken(entry.element.setting(entry.kind), f"{WILDCARD}; less is allowed")


def _profile(name: str, entries: list[_Entry], groups: set[str]) -> dict[str, Any]:
    publish: list[str] = []
    subscribe: list[str] = []
    for entry in entries:
        filters = topic_filters(entry.name)
        if entry.kind == "queue":
            filters = [f"$queue/{each}" for each in filters]
        if entry.permits("write", groups):
            publish += filters
        if entry.kind == "topic" and entry.permits("read", groups):
            subscribe += filters
    return {
        "name": name,
        "publish_topic_default_action": "disallow",
        "publish_topic_exceptions": [{"topic": each, "syntax": "smf"} for each in dict.fromkeys(publish)],
        "subscribe_topic_default_action": "disallow",
        "subscribe_topic_exceptions": [{"topic": each, "syntax": "smf"} for each in dict.fromkeys(subscribe)],
    }


def _consumers(entries: list[_Entry], groups: dict[str, set[str]], policies: Policies, imported: Imported) -> None:
    """Say who consumes: all users, one owner, or of a queue that a client creates only its user."""
    users = [name for name in groups if name or groups[name]]
    for name, queue in policies.declared.items():
        reading = [each for each in entries if each.kind == "queue" and matches(each.name, name)]
        readers = [user for user in users if any(each.permits("read", groups[user]) for each in reading)]
        if users and len(readers) == len(users):
            continue
        queue["permission"] = "no-access"
        if len(readers) == 1 and readers[0]:
            queue["owner"] = readers[0]
            for each in reading:
                imported.report.differs(each.element.setting("read"), f"{name}: {MORE_THAN_CONSUME}: {readers[0]}")
            continue
        closed = ", ".join(filter(None, readers))
        for each in reading:
            text = f"the queue {name!r} is for all users or for one owner: it is closed"
            text += f" to {closed}" if closed else ", for the source names no user who may read it"
            imported.report.not_taken(each.element.setting("read"), text)
    for template in policies.templates:
        template["permission"] = "no-access"
    if policies.templates and entries:
        setting = entries[0].element.setting("read")
        imported.report.differs(setting, "a queue that a client creates is for its user: give it another permission")
