"""Read JSON as objects that know their lines, and which of their keys were looked at: what was not is reported."""

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Final, final

from sluicegate.gateway.importing.report import UNKNOWN, ImportFailed, Report, Setting, is_secret, without_login

DEPTH_MAX: Final = 100
SHOWN_CHARACTERS_MAX: Final = 200
HIDDEN: Final = "..."
REPLACED: Final = "another setting counts in its place"
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')

Path = tuple[str | int, ...]


@final
@dataclass(slots=True)
class Document:
    """A whole document: the line of each value, and what was looked at."""

    file: str
    root: dict[str, Any]
    lines: dict[Path, int]
    named: dict[Path, Setting] = field(default_factory=dict)  # called as a setting of their own
    read: set[Path] = field(default_factory=set)  # as a part of what an object is called, or of another setting

    def finish(self, report: Report) -> None:
        """Note all values that are in no part of the report yet."""
        for path, line in self.lines.items():
            value = self._at(path)
            if isinstance(value, dict | list) and value:
                continue
            heads = [path[:end] for end in range(len(path), 0, -1)]
            named = next((self.named[head] for head in heads if head in self.named), None)
            if named is not None:
                if not report.has(named):
                    report.not_taken(named, REPLACED)
            elif not any(head in self.read for head in heads):
                dotted = ".".join(str(part) for part in path)
                report.not_taken(Setting(f"{self.file}:{line}", _shown(dotted, value)), UNKNOWN)

    def _at(self, path: Path) -> Any:
        value: Any = self.root
        for part in path:
            value = value[part]
        return value


@final
@dataclass(slots=True)
class Item:
    """One object of the document, called as the report is to call it."""

    document: Document
    label: str
    values: dict[str, Any]
    path: Path

    def setting(self, key: str = "") -> Setting:
        """Return a key as it stands in the report; without one the object itself."""
        path = (*self.path, key) if key else self.path
        line = self.document.lines.get(path, 1)
        shown = _shown(f"{self.label}: {key}", self.values.get(key)) if key else self.label
        setting = Setting(f"{self.document.file}:{line}", shown)
        if key:
            self.document.named[path] = setting
        return setting

    def skip(self, *keys: str) -> None:
        """Take keys as looked at; without any, all of them."""
        self.document.read.update((*self.path, key) for key in keys or self.values)

    def text(self, key: str, default: str = "") -> str:
        """Return a text, the default if it is missing or null. Raises ImportFailed."""
        value = self.values.get(key)
        self.document.read.add((*self.path, key))
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.wrong(key, "a text")
        return value

    def number(self, key: str, default: int = 0) -> int:
        """Return a whole number, the default if it is missing or null. Raises ImportFailed."""
        value = self.values.get(key)
        self.document.read.add((*self.path, key))
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(key, "a whole number")
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        """Return true or false, the default if it is missing or null. Raises ImportFailed."""
        value = self.values.get(key)
        self.document.read.add((*self.path, key))
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.wrong(key, "true, false")
        return value

    def wrong(self, key: str, allowed: str) -> ImportFailed:
        """Return the error for a value that is not allowed."""
        setting = self.setting(key)
        return ImportFailed(setting.where, f"{setting.text} is not allowed; allowed: {allowed}")

    def inner(self, key: str, label: str = "") -> "Item":
        """Return an object within this one, empty if it is missing. Raises ImportFailed."""
        value = self.values.get(key)
        if value is None or value == []:  # an empty object, as some programs write it
            value = {}
        if not isinstance(value, dict):
            raise self.wrong(key, "an object")
        if not value:
            self.document.read.add((*self.path, key))
        return Item(self.document, label or self.label, value, (*self.path, key))

    def items(self, key: str, label: str, name: str = "name") -> list["Item"]:
        """Return the objects of a list within this one, each called by its name. Raises ImportFailed."""
        value = self.values.get(key)
        if not value:
            self.document.read.add((*self.path, key))
            return []
        if not isinstance(value, list) or any(not isinstance(each, dict) for each in value):
            raise self.wrong(key, "a list of objects")
        found: list[Item] = []
        for index, each in enumerate(value):
            own = f"{label} {each[name]!r}" if isinstance(each.get(name), str) else label
            found.append(Item(self.document, own, each, (*self.path, key, index)))
        return found


def read_json(text: str, file: str, label: str) -> Item:
    """Return the object that a document is. Raises ImportFailed."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as problem:
        raise ImportFailed(f"{file}:{problem.lineno}", f"this is not JSON: {problem.msg}") from None
    except ValueError:  # Python's limit of the digits of a number
        raise ImportFailed(file, "it has a number of thousands of digits") from None
    except RecursionError:
        raise ImportFailed(file, f"it is nested more than {DEPTH_MAX} levels deep") from None
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ImportFailed(file, "a text has half of a character (a surrogate alone)") from None
    if not isinstance(value, dict):
        raise ImportFailed(f"{file}:1", "this is no object; allowed: {...}")
    return Item(Document(file, value, dict(_lines(text, file))), label, value, ())


def _shown(name: str, value: object) -> str:
    """Return a value behind its name; secrets are not shown."""
    shown = _without_secrets(name.rpartition(": ")[2], value)
    text = HIDDEN if shown == HIDDEN else json.dumps(shown, ensure_ascii=False)
    return without_login(f"{name}: {text}")[:SHOWN_CHARACTERS_MAX]


def _without_secrets(name: str, value: object) -> object:
    """Return a value with dots in the place of secrets, at any depth."""
    if isinstance(value, dict):
        return {key: _without_secrets(key, each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_secrets(name, each) for each in value]
    return HIDDEN if is_secret(name) and not isinstance(value, bool | NoneType) else value


def _lines(text: str, file: str) -> Iterator[tuple[Path, int]]:
    """Yield the line of each value. The text is valid JSON."""
    breaks = [match.start() for match in re.finditer("\n", text)]
    path: list[str | int] = []
    keys: list[set[str]] = []  # of each container that is open
    key_is_next: list[bool] = []  # of each container that is open: it is an object, and its next text is a key
    last_text = ""
    for token in _TOKEN.finditer(text):
        what = token.group()
        if len(path) > DEPTH_MAX:
            raise ImportFailed(file, f"it is nested more than {DEPTH_MAX} levels deep")
        if what == ":":
            path[-1] = key = json.loads(last_text)
            if key in keys[-1]:
                where = f"{file}:{bisect_right(breaks, token.start()) + 1}"
                raise ImportFailed(where, f"the key {key!r} is in its object twice; allowed: once")
            keys[-1].add(key)
            key_is_next[-1] = False
        elif what == ",":
            if isinstance(path[-1], int):
                path[-1] += 1
            else:
                key_is_next[-1] = True
        elif what in "}]":
            path.pop()
            keys.pop()
            key_is_next.pop()
        elif key_is_next and key_is_next[-1]:
            last_text = what
        else:
            yield tuple(path), bisect_right(breaks, token.start()) + 1
            if what in "{[":
                path.append("" if what == "{" else 0)
                keys.append(set())
                key_is_next.append(what == "{")
