"""Compare two configurations: which changes a running node can apply, and which need a restart."""

from dataclasses import dataclass
from typing import Final, TypeVar

from sluicegate.gateway.config.allowed import is_secret, leaves, shown
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.config.sections.listeners import Listeners
from sluicegate.gateway.config.sections.message_vpns.message_vpns import Vpn
from sluicegate.gateway.config.sections.section import Section

# Dotted paths of settings that a running node applies, or of whole sections. All others need a restart.
RELOADABLE: Final[tuple[str, ...]] = (
    "admin.oauth",  # for the next request
    "admin.users",
    "amqp",  # for the next connection
    "authentication",  # for the next CONNECT; open connections go by changed profiles, or end with their user
    "backpressure",
    "events",
    "bridges",  # changed ones restart
    "flow",  # for the next connection
    "http",  # for the next connection
    "links",  # changed ones begin anew
    *[f"listeners.{name}.{each}" for name in Listeners.model_fields for each in ("max_connections", "vpn")],
    "log",
    "mqtt",  # for the next CONNECT: a client has been told its limits
    "node.allowed_hosts",  # for the next request
    "payload_rules",  # for the next message
    "queues.declared",  # new ones are created; none is changed or deleted
    "queues.defaults",
    "queues.templates",  # new ones are created; none is changed or deleted
    "queues.temporary_grace_s",  # for queues created from now on
    "rest",  # delivery points restart
    "rest_delivery_points",  # changed ones restart
    "schemas",  # for the next message
    "virtual_destinations",  # for the next message
    "vpn",
    "watchdog",  # for the next heartbeat
)


@dataclass(frozen=True, slots=True)
class Change:
    """One setting that differs."""

    path: str
    old: object
    new: object
    secret: bool = False

    def __str__(self) -> str:
        old, new = shown(self.old), shown(self.new)
        # Differences within the items of a list are not shown.
        return f"{self.path} changed" if self.secret or old == new else f"{self.path}: {old} -> {new}"


@dataclass(frozen=True, slots=True)
class Changes:
    """The difference of two configurations."""

    reloadable: tuple[Change, ...]
    restart_needed: tuple[Change, ...]


def diff(old: Config, new: Config) -> Changes:
    """Return the differences that a running node can apply, and those that need a restart."""
    before = {path: value for path, _, value in leaves(old)}
    reloadable: list[Change] = []
    restart_needed: list[Change] = []
    for kind, olds, news in (("vpns", old.vpns, new.vpns), ("links", old.links, new.links)):
        for name in dict.fromkeys([*olds, *news]):
            if (name in olds) != (name in news):
                reloadable.append(Change(f"{kind}.{name}", name in olds, name in news))
    for path, field, value in leaves(new):
        if path not in before or before[path] == value:  # a missing path is part of a new VPN or link
            continue
        secret = is_secret(field) or path.endswith(".users")
        change = Change(path, before[path], value, secret)
        (reloadable if is_reloadable(path) else restart_needed).append(change)
    return Changes(tuple(reloadable), tuple(restart_needed))


S = TypeVar("S", bound=Section)


def in_force(old: S, new: S, at: str = "") -> S:
    """Return the configuration in force after a reload: the new settings, and the old ones that need a restart.

    So a setting that waits for a restart is told with each reload until then, and nobody takes its new value for that
    of an open port. `at` is where the section stands, with a dot behind it.
    """
    kept: dict[str, object] = {}
    for name in type(new).model_fields:
        path = f"{at}{name}"
        before, after = getattr(old, name), getattr(new, name)
        if isinstance(after, Section):
            kept[name] = in_force(before, after, f"{path}.")
        elif path == "vpns":
            kept[name] = {
                vpn: in_force(before.get(vpn, section), section, f"{path}.{vpn}.") for vpn, section in after.items()
            }
        elif not is_reloadable(path):
            kept[name] = before
    return new.model_copy(update=kept)


def is_reloadable(path: str) -> bool:
    """Return whether a setting can change while the node runs."""
    if path.startswith("vpns."):
        _, _, within = path.split(".", 2)
        path = f"vpn.{within}" if within in Vpn.model_fields else within
    return any(path == known or path.startswith(known + ".") for known in RELOADABLE)
