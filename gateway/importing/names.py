"""Names of the source made fit for this broker, and different from each other."""

import re
from collections.abc import Collection
from typing import Final

from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.queues.definition import QueueInvalid, check_queue_name

VPN_CHARS_MAX: Final = 32
PROFILE_CHARS_MAX: Final = 32


def vpn_name(name: str, taken: Collection[str]) -> str:
    """Return a name for a message VPN that is like this one."""
    if name in ("/", DEFAULT_VPN) and DEFAULT_VPN not in taken:
        return DEFAULT_VPN
    plain = re.sub(r"[^A-Za-z0-9_-]", "-", name).strip("-_")
    plain = plain if re.match("[A-Za-z]", plain) else f"v-{plain}"
    return unique(plain[:VPN_CHARS_MAX], taken, VPN_CHARS_MAX)


def profile_name(name: str, taken: Collection[str]) -> str:
    """Return a name for a profile that is like this one."""
    return unique(name[:PROFILE_CHARS_MAX] or "profile", taken, PROFILE_CHARS_MAX)


def unique(name: str, taken: Collection[str], chars_max: int) -> str:
    """Return the name, with a number where it is taken."""
    found, number = name, 1
    while found in taken:
        number += 1
        end = f"-{number}"
        found = name[: chars_max - len(end)] + end
    return found


def queue_name_problem(name: str) -> str:
    """Return why a queue cannot have a name; empty if it can."""
    try:
        check_queue_name(name)
    except QueueInvalid as problem:
        return f"{problem.reason}; allowed: {problem.allowed}"
    return ""
