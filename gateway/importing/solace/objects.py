"""What is in a message VPN of Solace: queues, templates, profiles, users and bridges."""

import re
from collections.abc import Iterator
from typing import Any, Final

from argon2 import PasswordHasher
from pydantic import ValidationError

from sluicegate.gateway.admin.semp.objects.clients import ACL_PROFILE, CLIENT_PROFILE, USERNAME
from sluicegate.gateway.admin.semp.objects.queues import QUEUE, QUEUE_TEMPLATE
from sluicegate.gateway.config.sections.section import Section
from sluicegate.gateway.config.sections.security.client_profiles import AclProfileSettings, ClientProfileSettings
from sluicegate.gateway.importing.imported import NO_PASSWORD, Imported
from sluicegate.gateway.importing.json_text import Item
from sluicegate.gateway.importing.names import queue_name_problem, unique
from sluicegate.gateway.importing.report import Report, Setting
from sluicegate.gateway.importing.solace.settings import (
    ACL_DEFAULTS,
    CLIENT_DEFAULTS,
    NOTHING_LIKE_IT,
    QUEUE_DEFAULTS,
    Problem,
    take_settings,
    with_defaults,
)
from sluicegate.messaging.queues.definition import QueueInvalid, definition_from_dict
from sluicegate.messaging.queues.template import template_from_dict
from sluicegate.messaging.topics.syntax import TopicError, parse_queue_subscription, syntax_of

OWN: Final = "#"  # names of the broker's own objects begin so
DEFAULT: Final = "default"
EXCEPTIONS: Final = (  # collections, of older and newer releases: key, our setting, syntax
    ("publishTopicExceptions", "publishTopicException", "publish_topic_exceptions"),
    ("publishExceptions", "publishExceptionTopic", "publish_topic_exceptions"),
    ("subscribeTopicExceptions", "subscribeTopicException", "subscribe_topic_exceptions"),
    ("subscribeExceptions", "subscribeExceptionTopic", "subscribe_topic_exceptions"),
    ("subscribeShareNameExceptions", "subscribeShareNameException", "subscribe_share_name_exceptions"),
)
SYNTAXES: Final = {"publishExceptionTopic": "topicSyntax", "subscribeExceptionTopic": "topicSyntax"}
BRIDGE: Final = "a bridge speaks AMQP 1.0 with Solace: give it the port of that, and look at its rules"


def collection(item: Item, name: str, label: str, key: str) -> list[Item]:
    """Return the objects of a collection: a list, or a response of SEMP with a list. Raises ImportFailed."""
    if isinstance(item.values.get(name), dict):
        response = item.inner(name)
        response.skip("links", "meta", "collections")
        return response.items("data", label, key)
    return item.items(name, label, key)


def take_queues(vpn: Item, section: dict[str, Any], report: Report) -> None:
    """Take queues with their subscriptions, and queue templates. Raises ImportFailed."""
    declared: list[dict[str, Any]] = []
    for queue in collection(vpn, "queues", "queue", "queueName"):
        name = queue.text("queueName")
        wrong = queue_name_problem(name)
        if wrong:
            report.not_taken(queue.setting(), wrong)
            queue.skip()
            continue
        made: dict[str, Any] = {"name": name}
        with_defaults(queue, made, QUEUE_DEFAULTS, report)
        take_settings(queue, QUEUE, made, _queue_problem, report, apart=("subscriptions",))
        topics: list[str] = []
        for each in collection(queue, "subscriptions", "subscription", "subscriptionTopic"):
            each.skip("queueName", "msgVpnName", "uri")
            topic = each.text("subscriptionTopic")
            try:
                parse_queue_subscription(topic, syntax_of(topic))
            except TopicError as error:
                report.not_taken(each.setting(), str(error))
                continue
            topics.append(topic)
            report.taken(each.setting(), f"{name}: subscriptions")
        declared.append({**made, "subscriptions": topics} if topics else made)
        report.taken(queue.setting(), f"queues.declared: {name}")
    templates: list[dict[str, Any]] = []
    for template in collection(vpn, "queueTemplates", "queue template", "queueTemplateName"):
        made = {"name": template.text("queueTemplateName")}
        if "queueNameFilter" in template.values:
            made["queue_name_filter"] = template.text("queueNameFilter")
        take_settings(template, QUEUE_TEMPLATE, made, _template_problem, report, apart=())
        wrong = _template_problem(made)
        if wrong:
            report.not_taken(template.setting(), wrong)
        else:
            templates.append(made)
            report.taken(template.setting(), "queues.templates")
    for key, made_list in (("declared", declared), ("templates", templates)):
        if made_list:
            section.setdefault("queues", {})[key] = made_list


def _queue_problem(made: dict[str, Any]) -> str:
    try:
        definition_from_dict(dict(made))
    except QueueInvalid as problem:
        return f"{problem.reason}; allowed: {problem.allowed}"
    return ""


def _template_problem(made: dict[str, Any]) -> str:
    try:
        template_from_dict({"queue_name_filter": ">", **made})
    except QueueInvalid as problem:
        return f"{problem.reason}; allowed: {problem.allowed}"
    return ""


def take_clients(vpn: Item, section: dict[str, Any], imported: Imported) -> None:
    """Take profiles and users. Raises ImportFailed."""
    report = imported.report
    authentication = section.setdefault("authentication", {})
    acl: list[dict[str, Any]] = []
    for profile in collection(vpn, "aclProfiles", "ACL profile", "aclProfileName"):
        made: dict[str, Any] = {"name": profile.text("aclProfileName")}
        if _is_left_out(profile, "aclProfileName", report):
            continue
        with_defaults(profile, made, ACL_DEFAULTS, report)
        names = ("clientConnectExceptions", *[each[0] for each in EXCEPTIONS])
        take_settings(profile, ACL_PROFILE, made, _problem_of(AclProfileSettings), report, apart=names)
        _exceptions(profile, made, report)
        report.taken(profile.setting(), "authentication.acl_profiles")
        acl.append(made)
    clients: list[dict[str, Any]] = []
    for profile in collection(vpn, "clientProfiles", "client profile", "clientProfileName"):
        made = {"name": profile.text("clientProfileName")}
        if _is_left_out(profile, "clientProfileName", report):
            continue
        if made["name"] != DEFAULT:
            with_defaults(profile, made, CLIENT_DEFAULTS, report)
        take_settings(profile, CLIENT_PROFILE, made, _problem_of(ClientProfileSettings), report, apart=())
        report.taken(profile.setting(), "authentication.client_profiles")
        clients.append(made)
    authentication |= {key: made for key, made in (("acl_profiles", acl), ("client_profiles", clients)) if made}
    known = {"acl_profile": {DEFAULT, *[each["name"] for each in acl]}}
    known["client_profile"] = {DEFAULT, *[each["name"] for each in clients]}
    users = [made for made in _users(vpn, known, imported) if made]
    if users:
        authentication["users"] = users


def _is_left_out(item: Item, key: str, report: Report) -> bool:
    """Return whether an object is one of the broker itself, or has no name."""
    name = item.text(key)
    if name and not name.startswith(OWN):
        return False
    if name:
        report.taken(item.setting(), "of the broker itself")
    else:
        report.not_taken(item.setting(), f"it has no {key}")
    item.skip()
    return True


def _problem_of(model: type[Section]) -> Problem:
    def problem(made: dict[str, Any]) -> str:
        try:
            model.model_validate(made)
        except ValidationError as error:
            return "; ".join(str(each.get("ctx", {}).get("error", each["msg"])) for each in error.errors())
        return ""

    return problem


def _exceptions(profile: Item, made: dict[str, Any], report: Report) -> None:
    found: dict[str, list[tuple[Setting, object]]] = {}
    for each in collection(profile, "clientConnectExceptions", "exception", "clientConnectExceptionAddress"):
        each.skip("aclProfileName", "msgVpnName", "uri")
        address = each.text("clientConnectExceptionAddress")
        found.setdefault("client_connect_exceptions", []).append((each.setting(), address))
    for name, key, field in EXCEPTIONS:
        for each in collection(profile, name, "exception", key):
            each.skip("aclProfileName", "msgVpnName", "uri")
            syntax = each.text(SYNTAXES.get(key, f"{key}Syntax"), "smf")
            found.setdefault(field, []).append((each.setting(), {"topic": each.text(key), "syntax": syntax}))
    for field, exceptions in found.items():
        _take_exceptions(field, exceptions, made, report)


def _take_exceptions(
    field: str, exceptions: list[tuple[Setting, object]], made: dict[str, Any], report: Report
) -> None:
    """Take the exceptions of one kind.

    Where the default is `allow`, one that cannot be taken is one that would deny something: so the kind is closed, and
    has none of its exceptions, which would then allow what they deny.
    """
    check = _problem_of(AclProfileSettings)
    action = field.replace("exceptions", "default_action")
    kept: list[object] = []
    problems: dict[int, str] = {}
    for number, (_, value) in enumerate(exceptions):
        wrong = check({**made, field: [*kept, value]})
        if wrong:
            problems[number] = wrong
        else:
            kept.append(value)
    default = made.get(action, AclProfileSettings.model_fields[action].default)
    is_closed = bool(problems) and default == "allow"
    if is_closed:
        made[action] = "disallow"
    elif kept:
        made[field] = kept
    closed = f"{action} is written as disallow, without exceptions"
    for number, (setting, _) in enumerate(exceptions):
        if number in problems:
            report.not_taken(setting, f"{problems[number]}; so {closed}" if is_closed else problems[number])
        elif is_closed:
            report.not_taken(setting, f"another exception cannot be taken: {closed}")
        else:
            report.taken(setting, f"{made['name']}: {field}")


def _users(vpn: Item, known: dict[str, set[str]], imported: Imported) -> Iterator[dict[str, Any]]:
    report = imported.report
    for user in collection(vpn, "clientUsernames", "client username", "clientUsername"):
        name = user.text("clientUsername")
        if _is_left_out(user, "clientUsername", report):
            continue
        made: dict[str, Any] = {"name": name, "enabled": False}
        take_settings(user, USERNAME, made, lambda _: "", report, apart=("password",))
        for key, names in known.items():
            if made.get(key, DEFAULT) not in names:
                report.not_taken(user.setting(), f"there is no {key} {made[key]!r}: it is written with enabled: false")
                made |= {key: DEFAULT, "enabled": False}
        if user.text("password"):
            made["password_file"] = imported.secrets.add(name, PasswordHasher().hash(user.text("password")))
            report.taken(user.setting("password"), "its hash")
        else:
            made["password_file"] = imported.secrets.add_none(name)
            report.not_taken(user.setting(), NO_PASSWORD.format(file=made["password_file"]))
        report.taken(user.setting(), "authentication.users")
        yield made


def take_bridges(vpn: Item, section: dict[str, Any], imported: Imported) -> None:
    """Take bridges to message VPNs of other brokers, switched off. Raises ImportFailed."""
    report = imported.report
    for bridge in collection(vpn, "bridges", "bridge", "bridgeName"):
        name = bridge.text("bridgeName")
        if _is_left_out(bridge, "bridgeName", report):
            continue
        remotes = collection(bridge, "remoteMsgVpns", "remote message VPN", "remoteMsgVpnName")
        topics = collection(bridge, "remoteSubscriptions", "remote subscription", "remoteSubscriptionTopic")
        rules: list[dict[str, Any]] = [
            {"remote_queue": each.text("queueBinding")} for each in remotes[:1] if each.text("queueBinding")
        ]
        rules += [{"remote_topic": each.text("remoteSubscriptionTopic"), "qos": 0} for each in topics]
        location = remotes[0].text("remoteMsgVpnLocation") if remotes else ""
        host = re.sub(r":[0-9]+$", "", location)
        for each in (*remotes, *topics):
            each.skip()
        setting = bridge.setting()
        for key, value in bridge.values.items():
            if not isinstance(value, list | dict) and key not in ("bridgeName", "msgVpnName", "bridgeVirtualRouter"):
                report.not_taken(bridge.setting(key), f"{NOTHING_LIKE_IT}: look at the bridge {name}")
        bridge.skip()
        if not host or not rules or re.search(r"[\s/?#@]", host):
            report.not_taken(
                setting, "it has no address, or nothing to bring: use a bridge, or a link of two Sluicegates"
            )
            continue
        bridges = section.setdefault("bridges", [])
        plain = re.sub(r"[^A-Za-z0-9._-]", "-", name).lstrip("._-") or "bridge"
        made = {
            "name": unique(plain[:140], [each["name"] for each in bridges], 140),
            "enabled": False,
            "remote_url": f"{'amqps' if remotes[0].values.get('tlsEnabled') is True else 'amqp'}://{host}",
            "incoming": rules,
        }
        bridges.append(made)
        report.taken(setting, f"bridges: {made['name']}, with enabled: false; of its remote message VPNs the first")
        report.differs(setting, BRIDGE)
