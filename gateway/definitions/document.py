"""A document of the objects that operators create while a gateway runs, and its differences from a gateway.

A document has a version, and for each message VPN lists of objects by kind. An object is a mapping with a name; a field
that is left out has its default, so a document describes its objects completely. A message VPN that operators created
has `settings` as well, a mapping; with them, applying the document creates it. `gateway.definitions.kinds` reads and
changes the objects of a node.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sluicegate.messaging.queues.attributes import quoted
from sluicegate.messaging.queues.definition import QueueInvalid

VERSION: Final = 1
BYTES_MAX: Final = 8 << 20  # of a document: ten thousand queues with a few topics each are about 3 MiB
VALUES_MAX: Final = 1_000_000
OBJECTS_MAX: Final = 100_000
MISTAKES_MAX: Final = 100  # that are found

USERS: Final = "users"
SETTINGS: Final = "settings"  # of the message VPN itself, in a document; as a kind, it has one object without a name

ADD: Final = "+"
SET: Final = "~"
REMOVE: Final = "-"

Fields = Mapping[str, object]
Objects = Mapping[str, Fields]  # by name


Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing that is wrong with a document."""

    path: Path  # of the wrong value
    text: str  # where, what, and what is allowed


class DefinitionsInvalid(ValueError):
    """A document that this release cannot read. It has the first mistake of each object, and MISTAKES_MAX at most."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        assert mistakes, "an error without a mistake"
        super().__init__("\n".join(each.text for each in mistakes))
        self.mistakes = tuple(mistakes)


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one object."""

    action: str  # ADD, SET or REMOVE
    kind: str
    name: str
    fields: Fields  # ADD: all of them; SET: those that differ, with their new values
    before: Fields  # SET: those that differ, with their present values


def read_definitions(
    document: Mapping[str, object], checks: Mapping[str, Callable[[Fields], object]]
) -> dict[str, dict[str, Objects]]:
    """Return the objects of a document, by message VPN, kind and name. Raises DefinitionsInvalid.

    `checks` has a function for each kind, which checks an object and raises QueueInvalid. The settings of a message VPN
    are the object of the kind SETTINGS, under the name of the VPN.
    """
    reading = _Reading(checks)
    found = reading.document(document)
    if reading.mistakes:
        raise DefinitionsInvalid(reading.mistakes)
    return found


class _Reading:
    """One walk over a document. It records mistakes, leaves out what is wrong, and goes on."""

    def __init__(self, checks: Mapping[str, Callable[[Fields], object]]) -> None:
        self.mistakes: list[Mistake] = []
        self._objects_count = 0
        self._checks = checks
        self._allowed = ", ".join(each for each in checks if each != SETTINGS)

    def document(self, document: Mapping[str, object]) -> dict[str, dict[str, Objects]]:
        found: dict[str, dict[str, Objects]] = {}
        if document.keys() != {"version", "message_vpns"}:
            self._wrong((), f"it has {', '.join(document) or 'nothing'}; allowed: version and message_vpns")
            return found
        if document["version"] != VERSION:
            self._wrong(("version",), f"version: {quoted(document['version'])} is not allowed; allowed: {VERSION}")
            return found  # the rest may be right in that version
        path = ("message_vpns",)
        for vpn, given in self._mapping(path, document["message_vpns"], "kinds of objects by message VPN").items():
            found[vpn] = {}
            for kind, objects in self._mapping((*path, vpn), given, f"lists of {self._allowed}").items():
                place = (*path, vpn, kind)
                one = kind == SETTINGS and kind in self._checks
                found[vpn][kind] = self._settings(place, vpn, objects) if one else self._objects(place, kind, objects)
        return found

    def _settings(self, path: Path, vpn: str, given: object) -> Objects:
        settings = {**self._mapping(path, given, "settings of a message VPN"), "name": vpn}
        self._check(path, SETTINGS, settings)
        return {vpn: settings}

    def _objects(self, path: Path, kind: str, given: object) -> Objects:
        found: dict[str, Fields] = {}
        if kind not in self._checks:
            allowed = f"{SETTINGS}, {self._allowed}" if SETTINGS in self._checks else self._allowed
            self._wrong(path, f"{_dotted(path)}: there is no such kind of objects; allowed: {allowed}")
        elif not isinstance(given, list):
            self._wrong(path, f"{_dotted(path)}: it is not a list; allowed: a list of objects with a name each")
        else:
            self._objects_count += len(given)
            if self._objects_count > OBJECTS_MAX:
                self._wrong(
                    path, f"{_dotted(path)}: with it, there are {self._objects_count} objects; allowed: {OBJECTS_MAX}"
                )
                raise DefinitionsInvalid(self.mistakes)
            for index, each in enumerate(given):
                self._object((*path, index), kind, each, found)
        return found

    def _object(self, path: Path, kind: str, given: object, found: dict[str, Fields]) -> None:
        if not isinstance(given, Mapping):
            self._wrong(path, f"{_dotted(path)}: it is not a mapping; allowed: an object with a name")
            return
        name = given.get("name")
        if not isinstance(name, str) or name in found:
            reason = "has no name" if not isinstance(name, str) else f"is a second {name!r}"
            self._wrong(path, f"{_dotted(path)} {reason}; allowed: each name once")
            return
        found[name] = given
        self._check(path, kind, given)

    def _check(self, path: Path, kind: str, given: Fields) -> None:
        try:
            self._checks[kind](given)
        except QueueInvalid as wrong:
            field = [int(part) if part.isascii() and part.isdigit() else part for part in wrong.field.split(".")]
            self._wrong((*path, *field), f"{_dotted(path)}, {given['name']!r}: {wrong}")

    def _mapping(self, path: Path, given: object, allowed: str) -> Mapping[str, object]:
        if isinstance(given, Mapping):
            return given
        self._wrong(path, f"{_dotted(path)}: it is not a mapping; allowed: {allowed}")
        return {}

    def _wrong(self, path: Path, text: str) -> None:
        self.mistakes.append(Mistake(path, text))
        if len(self.mistakes) >= MISTAKES_MAX:
            raise DefinitionsInvalid(self.mistakes)


def _dotted(path: Path) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def differences(kind: str, wanted: Objects, present: Objects, *, prune: bool) -> Iterator[Change]:
    """Yield the changes that make the wanted objects present; with `prune`, also those that remove all others."""
    for name, fields in sorted(wanted.items()):
        if name not in present:
            yield Change(ADD, kind, name, fields, {})
            continue
        before = {key: present[name].get(key) for key, value in fields.items() if present[name].get(key) != value}
        if before:
            yield Change(SET, kind, name, {key: fields[key] for key in before}, before)
    if prune:
        yield from (Change(REMOVE, kind, name, {}, {}) for name in sorted(present.keys() - wanted.keys()))
