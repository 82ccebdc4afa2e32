"""Values as ActiveMQ writes them: sizes, times, names with wildcards and lists of groups."""

import re
from typing import Final

from sluicegate.gateway.importing.report import ImportFailed
from sluicegate.gateway.importing.xml_text import Element

UNITS: Final = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}
PLACEHOLDER: Final = "${"  # a property of Java, whose value is not in the file
_SIZE: Final = re.compile(r"([0-9]{1,15})\s*([a-z]{0,2})", re.IGNORECASE)


def is_placeholder(text: str) -> bool:
    """Return whether a value is in another file."""
    return PLACEHOLDER in text


def size_of(element: Element, attribute: str) -> int:
    """Return a number of bytes. Raises ImportFailed."""
    found = _SIZE.fullmatch(element.get(attribute).strip())
    if found is None or found[2].lower() not in UNITS:
        raise wrong(element, attribute, "a size, such as 20 mb")
    return int(found[1]) * UNITS[found[2].lower()]


def number_of(element: Element, attribute: str) -> int:
    """Return a whole number. Raises ImportFailed."""
    text = element.get(attribute).strip()
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise wrong(element, attribute, "a whole number")
    return int(text)


def flag_of(element: Element, attribute: str, default: bool) -> bool:
    """Return true or false. Raises ImportFailed."""
    text = element.get(attribute).strip().lower()
    if text not in ("", "true", "false"):
        raise wrong(element, attribute, "true, false")
    return default if not text else text == "true"


def wrong(element: Element, attribute: str, allowed: str) -> ImportFailed:
    """Return the error for a value that is not allowed."""
    setting = element.setting(attribute)
    return ImportFailed(setting.where, f"{setting.text} is not allowed; allowed: {allowed}")


def words_of(text: str) -> list[str]:
    """Return the items of a list with commas."""
    return [each.strip() for each in text.split(",") if each.strip()]


def topic_filters(name: str) -> list[str]:
    """Return filters in SMF's syntax for a destination, in both forms in which clients write it here.

    A name with dots is one level: `A.>` is `A.*` there. MQTT clients of ActiveMQ write `A/B` for `A.B`. A wildcard in
    the middle is no filter of the first form. There are none for names of which a part would mean more here than there:
    there a wildcard is a whole level, and `$client-username` a text.
    """
    if not is_sayable(name):
        return []
    if name == ">":
        return [">"]
    *levels, last = name.split(".")
    slashed = "/".join([*levels, last])
    found = [slashed]
    if last == ">" and levels:  # ActiveMQ's `>` matches the level above as well
        found.append("/".join(levels))
        if "*" not in levels:
            found += [".".join(levels), f"{'.'.join(levels)}.*"]
    elif "*" not in name and levels:
        found.append(name)
    return list(dict.fromkeys(found))


def is_sayable(name: str) -> bool:
    """Return whether a name means here what it means there: each wildcard is a whole level, `>` the last one."""
    *levels, last = name.split(".")
    plain = [each for each in (*levels, *([last] if last != ">" else [])) if each != "*"]
    return not any(set(each) & {"*", ">"} or "$client-" in each for each in plain)


def is_exact(name: str) -> bool:
    """Return whether filters for a name are all that the name means."""
    *levels, last = name.split(".")
    return "*" not in levels and (last != "*" or not levels)
