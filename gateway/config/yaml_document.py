"""Read a YAML file into plain values that keep their position. PyYAML parses; meaning is not checked here.

It is imported only when there is a file to read: importing PyYAML takes a twentieth of a node's start.
"""

import re
from typing import Final

import yaml

from sluicegate.gateway.config.document import ConfigError, Document, Path, Place, Problem
from sluicegate.messaging.queues.attributes import quoted

DEPTH_MAX: Final = 50  # nested sections and lists; an alias of its own parent nests without end
NODES_MAX: Final = 100_000  # aliases of aliases expand a small file to millions of values
TOO_DEEP: Final = f"the file has values more than {DEPTH_MAX} deep, aliases expanded"
HALF_A_PAIR: Final = "a text has half of a surrogate pair, which is no character"


class _Loader(yaml.SafeLoader):
    """Reads as text what only YAML 1.1 converts: `0777` to 511, `12:30` to 750, `no` to false, `2026-01-01` to a date.

    A setting that is a number or a boolean converts the text itself. What PyYAML writes without quotes as a text is
    read as a text here.
    """


_Loader.yaml_implicit_resolvers = {}  # otherwise the resolvers below are added to those of YAML 1.1
for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F]+)", list("-+0123456789")),
    ("float", r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+][0-9]+)?|[-+]?\.inf|\.nan", list("-+.0123456789")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})$"), _first)


def read_yaml(text: str, source: str, *, nodes_max: int = NODES_MAX) -> Document:
    """Return the document, of at most so many values.

    Raises ConfigError for broken YAML, duplicate keys, and a document that is not a mapping.
    """
    node = _composed(text, source)
    document = Document()
    document.values[()] = Place(source, 1, 1)
    if node is None:
        return document
    root = _Construction(document, source, nodes_max).value(node, ())
    if not isinstance(root, dict):
        raise ConfigError([Problem(Place(source, 1, 1), "", f"{quoted(root)} is not a mapping of sections")])
    document.root = root
    return document


def read_value(text: str, source: str) -> object:
    """Return one value, such as a list, from a text of its own. Raises ConfigError as `read_yaml`."""
    node = _composed(text, source)
    return None if node is None else _Construction(Document(), source, NODES_MAX).value(node, ())


def _composed(text: str, source: str) -> yaml.Node | None:
    try:
        node: yaml.Node | None = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        place = Place(source, mark.line + 1, mark.column + 1) if mark else Place(source)
        raise ConfigError([Problem(place, "", f"this is not YAML: {problem.problem or problem.context}")]) from None
    except yaml.YAMLError as problem:
        raise ConfigError([Problem(Place(source), "", f"this is not YAML: {problem}")]) from None
    except RecursionError:  # of PyYAML, which recurses for each level
        raise ConfigError([Problem(Place(source), "", TOO_DEEP)]) from None
    return node


def _has_surrogates(text: str) -> bool:
    """Return whether a text cannot be encoded. YAML can escape half of a surrogate pair."""
    return not text.isascii() and any("\ud800" <= each <= "\udfff" for each in text)


class _Construction:
    """One walk over the composed nodes."""

    def __init__(self, document: Document, source: str, nodes_max: int) -> None:
        self._document = document
        self._source = source
        self._nodes_max = nodes_max
        self._node_count = 0
        self._scalars = _Loader("")

    def value(self, node: yaml.Node, path: Path) -> object:
        place = self._place(node)
        self._document.values[path] = place
        self._node_count += 1
        if len(path) > DEPTH_MAX:
            raise ConfigError([Problem(place, "", TOO_DEEP)])
        if self._node_count > self._nodes_max:
            text = f"the file has more than {self._nodes_max} values, aliases expanded"
            raise ConfigError([Problem(place, "", text)])
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        if _has_surrogates(node.value):
            raise ConfigError([Problem(place, _dotted(path), HALF_A_PAIR)])
        try:
            constructed: object = self._scalars.construct_object(node)
        except (
            yaml.YAMLError,
            ValueError,
            LookupError,
            AttributeError,
        ) as problem:  # PyYAML does not check `!!int ""`
            raise ConfigError([Problem(place, _dotted(path), f"this value cannot be read: {problem}")]) from None
        return constructed

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, object]:
        result: dict[str, object] = {}
        for key_node, value_node in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            place = self._place(key_node)
            if key is None:
                raise ConfigError([Problem(place, _dotted(path), "a key must be a plain word")])
            if _has_surrogates(key):
                raise ConfigError([Problem(place, _dotted(path), HALF_A_PAIR)])
            if key in result:
                first = self._document.keys[(*path, key)]
                raise ConfigError([Problem(place, _dotted((*path, key)), f"duplicate key; first in line {first.line}")])
            self._document.keys[(*path, key)] = place
            result[key] = self.value(value_node, (*path, key))
        return result

    def _place(self, node: yaml.Node) -> Place:
        mark = node.start_mark
        return Place(self._source, mark.line + 1, mark.column + 1)


def _dotted(path: Path) -> str:
    return ".".join(str(part) for part in path)
