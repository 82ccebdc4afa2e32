"""ACL files of mosquitto as ACL profiles: topics of users and of clients without a name, and patterns."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from sluicegate.gateway.importing.report import ImportFailed, Setting
from sluicegate.messaging.clients.acl_profile import CLIENT_ID, CLIENT_USERNAME
from sluicegate.messaging.topics.relations import covers, overlap
from sluicegate.messaging.topics.syntax import Syntax, TopicError, TopicFilter, parse_filter

EXCEPTIONS_MAX: Final = 1000
ACCESSES: Final = ("read", "write", "readwrite", "deny")
HIDDEN: Final = ("$SYS/#", "$queue/#", "$temporary/#", "$reply/#")  # which `#` does not reach
HIDDEN_SMF: Final = ("#LOG/>", "#P2P/>")  # likewise: events, and queues by another name. Not MQTT's syntax

NotePart = Literal["taken", "differs", "not_taken"]


@dataclass(frozen=True, slots=True)
class Rule:
    """A line with a topic."""

    setting: Setting
    access: str
    topic: str
    is_pattern: bool

    def grants(self, access: str) -> bool:
        """Return whether it is about reading, or writing."""
        return self.access in (access, "readwrite", "deny")


@dataclass(slots=True)
class AclFile:
    """The rules of an ACL file."""

    users: dict[str, Setting] = field(default_factory=dict)  # with a section; the empty name: clients without one
    topics: dict[str, list[Rule]] = field(default_factory=dict)  # by user
    patterns: list[Rule] = field(default_factory=list)
    settings: list[Setting] = field(default_factory=list)  # all lines
    deny_with_access: list[Setting] = field(default_factory=list)  # `deny write TOPIC`, which denies another topic

    def rules_of(self, user: str) -> tuple[Rule, ...]:
        """Return the rules for a user; of the empty name for clients without one."""
        rules = [*self.topics.get(user, ())]
        for pattern in self.patterns:
            if "%u" not in pattern.topic:
                rules.append(pattern)
            elif user:
                rules.append(pattern if _is_variable(pattern.topic, "%u") else _with_name(pattern, user))
        return tuple(rules)


def read_acl(path: str, text: str, *, client_id_is_user: bool) -> AclFile:
    """Read an ACL file. `client_id_is_user`: `%c` is the name of the user. Raises ImportFailed."""
    acl = AclFile()
    user = ""
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        setting = Setting(f"{path}:{number}", line)
        word, _, value = line.partition(" ")
        value = value.strip()
        if word not in ("user", "topic", "pattern") or not value:
            allowed = "user NAME, topic [ACCESS] TOPIC, pattern [ACCESS] TOPIC"
            raise ImportFailed(setting.where, f"{line[:60]!r} is no line of an ACL file; allowed: {allowed}")
        acl.settings.append(setting)
        if word == "user":
            user = value
            acl.users[user] = setting
            continue
        first, _, rest = value.partition(" ")
        access, topic = (first, rest.strip()) if first in ACCESSES and rest.strip() else ("readwrite", value)
        if word == "pattern" and client_id_is_user:
            topic = topic.replace("%c", "%u")
        rule = Rule(setting, access, topic, word == "pattern")
        if access == "deny" and topic.partition(" ")[0] in ACCESSES:
            acl.deny_with_access.append(setting)
        (acl.patterns if rule.is_pattern else acl.topics.setdefault(user, [])).append(rule)
    return acl


def profile_of(
    name: str, rules: tuple[Rule, ...], user: str
) -> tuple[dict[str, Any], list[tuple[NotePart, Rule, str]]]:
    """Return an ACL profile, and what there is to say of its rules."""
    notes: list[tuple[NotePart, Rule, str]] = []
    profile: dict[str, Any] = {"name": name}
    for access, kind in (("write", "publish"), ("read", "subscribe")):
        usable = [*_usable([rule for rule in rules if rule.grants(access)], notes)]
        allowed = [each for each in usable if each[0].access != "deny"]
        denied = [each for each in usable if each[0].access == "deny"]
        everything = [each for each in allowed if each[1].is_everything()]
        if everything and denied:
            hidden = [each for each in HIDDEN if not any(covers(other[1], _filter(each)) for other in allowed)]
            profile[f"{kind}_topic_default_action"] = "allow"
            topics = [*[each[2] for each in denied], *hidden]
        else:
            profile[f"{kind}_topic_default_action"] = "disallow"
            topics = [each[2] for each in _without(allowed, denied, notes)]
        unique = [*dict.fromkeys(topics)]
        if len(unique) > EXCEPTIONS_MAX:
            rule = usable[-1][0]
            notes.append(
                ("not_taken", rule, f"a profile has at most {EXCEPTIONS_MAX} rules of a kind: {user!r} has more")
            )
        exceptions = [{"topic": topic, "syntax": "mqtt"} for topic in unique[:EXCEPTIONS_MAX]]
        if everything and denied:
            exceptions += [{"topic": topic, "syntax": "smf"} for topic in HIDDEN_SMF]
        profile[f"{kind}_topic_exceptions"] = exceptions
    return profile, notes


def _usable(rules: list[Rule], notes: list[tuple[NotePart, Rule, str]]) -> Iterator[tuple[Rule, TopicFilter, str]]:
    for rule in rules:
        topic = rule.topic
        if rule.is_pattern:
            levels = [{"%u": CLIENT_USERNAME, "%c": CLIENT_ID}.get(each, each) for each in topic.split("/")]
            topic = "/".join(levels)
            if "%c" in topic:
                text = "a client identifier can only be a whole level of a topic"
                notes.append(("not_taken", rule, f"{text}; {_consequence(rule)}"))
                if rule.access != "deny":
                    continue
                topic = "/".join("+" if "%c" in level else level for level in levels)  # rather too much than too little
        try:
            yield rule, _filter(topic), topic
        except TopicError as error:
            notes.append(("not_taken", rule, f"it is no topic filter: {error}"))


def _consequence(rule: Rule) -> str:
    return "more is denied" if rule.access == "deny" else "the rule is left out, so less is allowed"


def _without(
    allowed: list[tuple[Rule, TopicFilter, str]],
    denied: list[tuple[Rule, TopicFilter, str]],
    notes: list[tuple[NotePart, Rule, str]],
) -> Iterator[tuple[Rule, TopicFilter, str]]:
    """Leave out what is denied: all rules that touch it, for a profile cannot deny a part of what it allows."""
    for each in allowed:
        touching = [other for other in denied if overlap(other[1], each[1])]
        if not touching:
            yield each
        elif not any(covers(other[1], each[1]) for other in touching):
            text = f"a part of it is denied by {touching[0][0].setting.where}, which an ACL profile cannot say"
            notes.append(("not_taken", each[0], f"{text}; the rule is left out, so less is allowed"))


def _filter(topic: str) -> TopicFilter:
    return parse_filter(topic, Syntax.MQTT)


def _is_variable(topic: str, variable: str) -> bool:
    """Return whether a variable stands for whole levels only."""
    return all(level == variable or variable not in level for level in topic.split("/"))


def _with_name(pattern: Rule, user: str) -> Rule:
    """Return a pattern for one user, whose name is a part of a level. A name with wildcards gains nothing."""
    name = user if not set(user) & set("+#/") else "\x00"
    return Rule(pattern.setting, pattern.access, pattern.topic.replace("%u", name), True)
