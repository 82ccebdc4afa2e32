"""Response Information: the topic below which a client may have its responses sent [3.1.2-28] (section 4.10.1).

An operator gives a pattern, in which %c stands for the client identifier and %u for the user name. What a client is
told is advice: its ACL profile alone says where it may subscribe, and others may publish.
"""

import re
from typing import Final

WILDCARDS: Final = ("+", "#")
CLIENT_ID: Final = "%c"
PATTERN_CHARS_MAX: Final = 1024
PLACES: Final = re.compile("%[cu]")


def response_information(pattern: str, client_id: str, user: str) -> str:
    """Return what a client is told; empty if that is nothing.

    Nothing is told where the pattern has a name that the client has not, or that would make it no ordinary topic.
    """
    parts: list[str] = []
    pos = 0
    while (place := pattern.find("%", pos)) >= 0:
        name = client_id if pattern.startswith(CLIENT_ID, place) else user
        if not name or any(each in name for each in WILDCARDS):
            return ""
        parts += [pattern[pos:place], name]
        pos = place + 2
    topic = "".join([*parts, pattern[pos:]])
    return "" if topic.startswith("$") else topic


def check_pattern(pattern: str) -> None:
    """Raise ValueError unless this is a topic of MQTT, or empty, in which each % begins %c or %u.

    Topics that begin with $ would not cross links to other brokers.
    """
    if len(pattern) > PATTERN_CHARS_MAX:
        raise ValueError(f"it has {len(pattern)} characters; allowed: {PATTERN_CHARS_MAX}")
    if "%" in PLACES.sub("", pattern):
        raise ValueError(f"{pattern!r} has a % before another letter; allowed: %c (client identifier), %u (user name)")
    if pattern.startswith("$") or any(each in pattern for each in (*WILDCARDS, "\0")):
        allowed = "one without + and # that does not begin with $, as response/%c"
        raise ValueError(f"{pattern!r} is no topic of clients; allowed: {allowed}")
