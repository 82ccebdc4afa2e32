"""Users, their tags and permissions. RabbitMQ's permissions are regular expressions of names of queues and exchanges.

An ACL profile says which topics a user publishes and subscribes to, so a permission is applied to the exchanges that
there are. A queue is for everybody of its message VPN, or for one owner. Where a permission cannot be said exactly,
less is allowed.
"""

import base64
import binascii
import re
from typing import Any, Final

from argon2 import PasswordHasher

from sluicegate.gateway.importing.imported import NO_PASSWORD, Imported
from sluicegate.gateway.importing.json_text import Item
from sluicegate.gateway.importing.names import profile_name
from sluicegate.gateway.importing.rabbitmq.queues import pattern_matches
from sluicegate.gateway.importing.rabbitmq.vhost import PREDEFINED, TOPIC_EXCHANGE, VirtualHost
from sluicegate.gateway.importing.report import Report
from sluicegate.messaging.clients.roster import DEFAULT
from sluicegate.protocols.security.password_hashes import RABBITMQ_SHA_256, RABBITMQ_SHA_512, check_foreign_hash

EVERYTHING: Final = (".*", "^.*$", "^.*", ".*$", "^(.*)$", "(.*)")
NOTHING: Final = ("", "^$")
DEFAULT_EXCHANGE: Final = "amq.default"  # what permissions call the one without a name
OF_SESSIONS: Final = ("mqtt-subscription-client-qos1", "amq.gen-x", "x")  # queues that clients have created for them
ALGORITHMS: Final = {
    "rabbit_password_hashing_sha256": RABBITMQ_SHA_256,
    "rabbit_password_hashing_sha512": RABBITMQ_SHA_512,
}
LEVELS: Final = {"administrator": "admin", "monitoring": "read-only"}
MAY_READ, MAY_WRITE, MAY_CREATE = "read", "write", "configure"
NAME_CHARS_MAX: Final = 255
GUEST: Final = "guest"
GUEST_OPERATOR: Final = (
    "an operator may log in from everywhere, which guest may not: add another account to admin.users"
)
MORE_THAN_CONSUME: Final = "an owner may do more than consume: change, empty and delete the queue"
NO_READER: Final = "no account here may read it in RabbitMQ: it is closed until you give it an owner or a permission"
LOOPBACK: Final = ("127.0.0.0/8", "::1/128")
ALL_TOPICS: Final = {"publish_topic_default_action": "allow", "subscribe_topic_default_action": "allow"}


def take_users(root: Item, vhosts: list[VirtualHost], imported: Imported) -> None:
    """Take the users with their hashes, tags and limits. Raises ImportFailed."""
    report = imported.report
    operators: list[dict[str, Any]] = []
    for user in root.items("users", "user"):
        name = user.text("name")
        permissions = [(vhost, each) for vhost in vhosts for each in vhost.permissions if each.text("user") == name]
        level = _level(user, report)
        if not 0 < len(name) <= NAME_CHARS_MAX:
            report.not_taken(user.setting(), f"a user name has 1 to {NAME_CHARS_MAX} characters")
            user.skip()
            continue
        if not permissions and not level:
            report.not_taken(user.setting(), "it has no permission in any virtual host")
            user.skip()
            continue
        file = _password_file(user, imported)
        report.taken(user.setting(), f"an account in {', '.join(each.vpn for each, _ in permissions) or 'admin.users'}")
        if level:
            operators.append({"name": name, "password_file": file, "global_access_level": level})
        limits = user.inner("limits")
        for vhost, permission in permissions:
            account: dict[str, Any] = {"name": name, "password_file": file}
            _rights(account, permission, limits, vhost, report)
            vhost.section.setdefault("authentication", {}).setdefault("users", []).append(account)
        _limits(limits, report)
    if operators:
        imported.section("admin")["users"] = operators
    names = {each.text("name") for each in root.items("users", "user")}
    for vhost in vhosts:
        _who_consumes(vhost, [each for each in vhost.permissions if each.text("user") in names], report)


def _level(user: Item, report: Report) -> str:
    """Return the access level of an operator; empty: it is none."""
    tags = user.values.get("tags") or []
    words = tags.split(",") if isinstance(tags, str) else tags
    if not isinstance(words, list) or any(not isinstance(each, str) for each in words):
        raise user.wrong("tags", "a list of texts")
    words = [each.strip() for each in words if each.strip()]
    if "tags" in user.values:
        others = [each for each in words if each not in LEVELS]
        if user.text("name") == GUEST and len(others) < len(words):
            report.not_taken(user.setting("tags"), GUEST_OPERATOR)
            return ""
        if others:
            text = f"{', '.join(others)}: give the account a level in admin.users, or in single message VPNs"
            report.not_taken(user.setting("tags"), text)
        if len(others) < len(words) or not words:
            report.taken(user.setting("tags"), "global_access_level of admin.users" if words else "no operator")
    return next((level for tag, level in LEVELS.items() if tag in words), "")


def _password_file(user: Item, imported: Imported) -> str:
    name, report = user.text("name"), imported.report
    plain = user.text("password")
    if plain:
        report.taken(user.setting("password"), "its hash")
        return imported.secrets.add(name, PasswordHasher().hash(plain))
    raw, algorithm = user.text("password_hash"), user.text("hashing_algorithm", "rabbit_password_hashing_md5")
    secret = f"{ALGORITHMS.get(algorithm, '')}${raw}"
    problem = "" if algorithm in ALGORITHMS or not raw else f"the algorithm {algorithm!r} is not accepted"
    if raw and not problem:
        try:
            base64.b64decode(raw, validate=True)
            check_foreign_hash(secret)
        except (ValueError, binascii.Error) as error:
            problem = str(error)
    if problem or not raw:
        file = imported.secrets.add_none(name)
        text = f"{problem or 'it has no password here'}; {NO_PASSWORD.format(file=file)}"
        report.not_taken(user.setting("password_hash" if "password_hash" in user.values else ""), text)
        return file
    report.taken(user.setting("password_hash"), "its hash")
    report.differs(user.setting("password_hash"), "clients cannot use SCRAM-SHA-256 with this hash; a new password can")
    return imported.secrets.add(name, secret)


# --- what a user may do in a virtual host ---


def _rights(account: dict[str, Any], permission: Item, limits: Item, vhost: VirtualHost, report: Report) -> None:
    name = permission.text("user")
    authentication = vhost.section.setdefault("authentication", {})
    permission.label = f"permission of {name!r} in {vhost.name!r}"
    acl: dict[str, Any] = {}
    for key, kind in ((MAY_WRITE, "publish"), (MAY_READ, "subscribe")):
        acl |= _topics(permission, key, kind, vhost, report)
    if name == GUEST:
        acl |= {"client_connect_default_action": "disallow", "client_connect_exceptions": [*LOOPBACK]}
        report.taken(permission.setting(), f"{name} may connect from this machine only, RabbitMQ's default")
    if acl:
        profiles = authentication.setdefault("acl_profiles", [])
        account["acl_profile"] = profile_name(name, [DEFAULT, *[each["name"] for each in profiles]])
        profiles.append({"name": account["acl_profile"], **ALL_TOPICS, **acl})
    client: dict[str, Any] = {}
    if "max-connections" in limits.values and limits.number("max-connections") >= 0:
        client["max_connection_count_per_client_username"] = limits.number("max-connections")
    if not any(pattern_matches(permission, MAY_CREATE, each) for each in OF_SESSIONS) or (
        permission.text(MAY_CREATE) in NOTHING
    ):
        client["allow_guaranteed_endpoint_create_enabled"] = False
        report.taken(permission.setting(MAY_CREATE), f"{name}: it may create no queues")
        if permission.text(MAY_CREATE) not in NOTHING:
            report.not_taken(permission.setting(MAY_CREATE), "a user may create queues, or not: names have no rule")
    else:
        report.taken(permission.setting(MAY_CREATE), f"{name}: it may create queues")
        if permission.text(MAY_CREATE) not in EVERYTHING:
            report.differs(permission.setting(MAY_CREATE), "a user may create queues, or not: names have no rule")
    if client:
        profiles = authentication.setdefault("client_profiles", [])
        account["client_profile"] = profile_name(name, [DEFAULT, *[each["name"] for each in profiles]])
        profiles.append({"name": account["client_profile"], **client})
    permission.skip("user", "vhost")


def _limits(limits: Item, report: Report) -> None:
    for key in limits.values:
        if key == "max-connections":
            report.taken(limits.setting(key), "max_connection_count_per_client_username of its client profile")
        else:
            report.not_taken(limits.setting(key), "sessions of a connection are limited by amqp.channel_max")


def _topics(permission: Item, key: str, kind: str, vhost: VirtualHost, report: Report) -> dict[str, Any]:
    """Return the rules of one kind for an ACL profile; empty: everything is allowed."""
    pattern, setting = permission.text(key), permission.setting(key)
    rules = [each for each in vhost.topic_permissions if each.text("user") == permission.text("user")]
    if pattern in EVERYTHING and not rules:
        report.taken(setting, f"{kind}: everything")
        return {}
    restricted = {each.text("exchange") for each in rules} - {TOPIC_EXCHANGE}
    names = sorted({*PREDEFINED, *vhost.types(), *restricted})
    matching = [each for each in names if pattern not in NOTHING and pattern_matches(permission, key, each)]
    allowed = [each for each in matching if each not in restricted]
    may_send = pattern not in NOTHING and pattern_matches(permission, key, DEFAULT_EXCHANGE)
    queues = ["$queue/>"] if may_send and kind == "publish" else []
    filters = _of_topic_permissions(rules, key, report)
    report.taken(setting, f"{kind}: the topics of {', '.join(allowed) or 'no exchange'}")
    if TOPIC_EXCHANGE in allowed and filters is None:
        others = [each for name in names if name not in (*allowed, TOPIC_EXCHANGE) for each in _hidden(name)]
        hidden = others if queues else [*others, "$queue/>"]
        return {f"{kind}_topic_default_action": "allow", f"{kind}_topic_exceptions": _exceptions(hidden)}
    topics = [each for name in allowed if name != TOPIC_EXCHANGE for each in _of_exchange(name)] + queues
    if TOPIC_EXCHANGE in allowed:
        topics += filters or []
    return {f"{kind}_topic_default_action": "disallow", f"{kind}_topic_exceptions": _exceptions(topics)}


def _of_exchange(name: str) -> list[str]:
    return [name, f"{name}/>"] if not set(name) & set("*>+#") else []


def _hidden(name: str) -> list[str]:
    """Return filters that keep the topics of an exchange away: of a name with wildcards more than its own."""
    plain = re.sub(r"[*>].*", "*", name, flags=re.DOTALL)
    return [plain, f"{plain}/>"] if plain else []


def _exceptions(topics: list[str]) -> list[dict[str, str]]:
    return [{"topic": each, "syntax": "smf"} for each in topics]


def _of_topic_permissions(rules: list[Item], key: str, report: Report) -> list[str] | None:
    """Return the topics that topic permissions allow; None: there are none for this."""
    found: list[str] | None = None
    for rule in rules:
        rule.label = f"topic permission of {rule.text('user')!r} on {rule.text('exchange')!r}"
        rule.skip("user", "vhost", "exchange")
        setting = rule.setting(key)
        if rule.text("exchange") != TOPIC_EXCHANGE:
            report.not_taken(setting, "only those of amq.topic are taken: the user has no right to the exchange at all")
            continue
        pattern = rule.text(key)
        topic = ">" if pattern in EVERYTHING else topic_of_pattern(pattern)
        found = found or []
        if topic:
            found.append(topic)
            report.taken(setting, f"an exception of the ACL profile: {topic}")
        elif pattern in NOTHING:
            report.taken(setting, "no topic")
        else:
            report.not_taken(setting, "this regular expression is like no topic filter; no topic is allowed for it")
    return found


def topic_of_pattern(pattern: str) -> str:
    """Return the topic filter that a regular expression of routing keys is like, in SMF's syntax; empty: none.

    Words that are separated by escaped dots: a text, a variable such as `{username}`, or any one word. The last one may
    be any words. Without `^` or `$` the expression would be more than the filter.
    """
    variables = {"{username}": "$client-username", "{client_id}": "$client-id", "[^.]+": "*", "[^.]*": "*"}
    if not pattern.startswith("^"):
        return ""
    *words, last = re.split(r"\\\.|\[\.\]", pattern[1:])
    if last in (".*", ".+", ".*$", ".+$"):
        last = ">"
    elif last.endswith("$"):
        words, last = [*words, last[:-1]], ""
    else:
        return ""
    if not all(each in variables or re.fullmatch(r"[A-Za-z0-9_ :@=-]+", each) for each in words):
        return ""
    return "/".join([*[variables.get(each, each) for each in words], *([last] if last else [])])


def _who_consumes(vhost: VirtualHost, permissions: list[Item], report: Report) -> None:
    """Say for each queue who may consume: all users of the message VPN, one owner, or nobody.

    Without users nobody is known who may: an account that is added later would read whatever there is.
    """
    for name, queue in vhost.declared.items():
        readers = [each.text("user") for each in permissions if _may(each, MAY_READ, name)]
        if permissions and len(readers) == len(permissions):
            continue
        own = [each.text("user") for each in permissions if _may(each, MAY_READ, name, only_some=True)]
        queue["permission"] = "no-access"
        chosen = own or readers
        item = next(each for each in vhost.queues if each.text("name") == name)
        if len(chosen) == 1:
            queue["owner"] = chosen[0]
            report.taken(item.setting(), f"{name}: owner: {chosen[0]}, by its permission to read")
            report.differs(item.setting(), f"{name}: {MORE_THAN_CONSUME}: {chosen[0]}")
        others = [each for each in readers if each != queue.get("owner")]
        if others:
            text = "a queue is for all users or for one owner: it is closed to"
            report.not_taken(item.setting(), f"{text} {', '.join(sorted(others))}, who may read it in RabbitMQ")
        if not readers:
            report.not_taken(item.setting(), f"{name}: {NO_READER}")


def _may(permission: Item, key: str, name: str, *, only_some: bool = False) -> bool:
    pattern = permission.text(key)
    if pattern in NOTHING or (only_some and pattern in EVERYTHING):
        return False
    return pattern_matches(permission, key, name)
