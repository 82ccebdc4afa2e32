"""The sources of settings, by rank: defaults, then the file, then the environment, then `--set`.

`SLUICEGATE_LISTENERS__MQTT__PORT=0` and `--set listeners.mqtt.port=0` mean the same. A number in the path is an index
of a list; the index after the last adds an item. Variables without a double underscore are not settings: Kubernetes
sets `SLUICEGATE_PORT` and the like for a service of that name, and `SLUICEGATE_URL` belongs to the command line.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sluicegate.gateway.config.document import ConfigError, Document, Path, Place, Problem
from sluicegate.messaging.queues.attributes import quoted

ENVIRONMENT_PREFIX: Final = "SLUICEGATE_"
LEVEL_SEPARATOR: Final = "__"
NUMBER_CHARS_MAX: Final = 20  # by which numbers in names are compared
ENVIRONMENT_SOURCE: Final = "environment "


def apply_environment(document: Document, environment: Mapping[str, str]) -> list[Problem]:
    """Set the values of the environment, in the order of the names, so that the result does not depend on the shell."""
    problems: list[Problem] = []
    for name in sorted(environment, key=_by_numbers):
        if name.startswith(ENVIRONMENT_PREFIX) and LEVEL_SEPARATOR in name:
            levels = _levels(document, name.removeprefix(ENVIRONMENT_PREFIX))
            problems += _apply(document, levels, environment[name], Place(ENVIRONMENT_SOURCE + name))
    return problems


def apply_settings(document: Document, settings: Sequence[str]) -> list[Problem]:
    """Set the values of the command line, in their order."""
    problems: list[Problem] = []
    for setting in settings:
        path, equals, value = setting.partition("=")
        place = Place(f"--set {path}")
        if not equals:
            text = f"{setting!r} has no '='; write --set listeners.mqtt.port=1884"
            problems.append(Problem(Place("--set"), "", text))
            continue
        problems += _apply(document, path.strip().split("."), value, place)
    return problems


def _by_numbers(name: str) -> list[str]:
    """Order items of a list by their numbers: each is made behind the one before."""
    return [level.zfill(NUMBER_CHARS_MAX) if level.isdigit() else level for level in name.split(LEVEL_SEPARATOR)]


def _levels(document: Document, name: str) -> list[str]:
    """Return the levels of a variable's name. Names of message VPNs may have capitals, as the file has them."""
    levels: list[str] = []
    node: object = document.root
    for level in name.lower().split(LEVEL_SEPARATOR):
        known = node if isinstance(node, dict) else {}
        levels.append(level if level in known else next((key for key in known if key.lower() == level), level))
        node = known.get(levels[-1])
    return levels


def _apply(document: Document, levels: Iterable[str], text: str, place: Place) -> list[Problem]:
    path: Path = tuple(int(level) if level.isascii() and level.isdigit() else level for level in levels)
    dotted = ".".join(str(part) for part in path)
    if "" in path:
        return [Problem(place, dotted, "a part of the name is empty")]
    try:
        value = _value(text, place.source)
    except ConfigError as error:
        reason = error.problems[0].text
        return [Problem(place, dotted, f"{quoted(text)} starts like a YAML list or mapping, but is not one: {reason}")]
    node: object = document.root
    for index, part in enumerate(path):
        last = index + 1 == len(path)
        filling: object = value if last else [] if isinstance(path[index + 1], int) else {}
        if isinstance(node, dict) and isinstance(part, str):
            if last or not isinstance(node.get(part), dict | list):
                node[part] = filling
            node = node[part]
        elif isinstance(node, list) and isinstance(part, int):
            if part > len(node):
                text = f"the list has {len(node)} items, and the next is {len(node)}; or set the whole list with [...]"
                return [Problem(place, dotted, text)]
            if part == len(node):
                node.append(filling)
            elif last:
                node[part] = filling
            node = node[part]
        else:
            around = ".".join(str(each) for each in path[:index]) or "the top"
            return [Problem(place, dotted, f"{around} is {quoted(node)}, where {part!r} leads nowhere")]
    _forget_below(document, path)
    document.values[path] = document.keys[path] = place
    return []


def _value(text: str, source: str) -> object:
    """Return a scalar as text (the models convert it), and a YAML list or mapping as such."""
    if text[:1] not in ("[", "{"):
        return text
    from sluicegate.gateway.config.yaml_document import read_value  # late: few configurations have such a value

    return read_value(text, source)


def _forget_below(document: Document, path: Path) -> None:
    """Drop the places of the values that are replaced."""
    for places in (document.values, document.keys):
        for known in [known for known in places if known[: len(path)] == path]:
            del places[known]
