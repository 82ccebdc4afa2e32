"""Everything that operators make while a gateway runs, as one document: what is wanted, and what differs from it.

A document has a version, and for each message VPN lists of objects by kind. An object is a mapping with a name; what it
does not say has its default, so a document says all there is to an object. How objects are read and changed is a matter
of those who talk to the gateway (`gateway.cli.declared_kinds`).
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

VERSION: Final = 1
BYTES_MAX: Final = 8 << 20  # of a document: ten thousand queues with a few topics each are about 3 MiB
VALUES_MAX: Final = 1_000_000

ADD: Final = "+"
SET: Final = "~"
REMOVE: Final = "-"

Fields = Mapping[str, object]
Objects = Mapping[str, Fields]  # by name


class DeclarationInvalid(ValueError):
    """A document is none that this release reads. The text says where, and what is allowed."""


@dataclass(frozen=True, slots=True)
class Change:
    """What is to become of one object."""

    deed: str  # ADD, SET or REMOVE
    kind: str
    name: str
    fields: Fields  # ADD: all of them; SET: those that differ, as they are wanted
    before: Fields  # SET: those that differ, as they are


def read_declaration(document: Mapping[str, object], kinds: Collection[str]) -> dict[str, dict[str, Objects]]:
    """Return the objects of a document, by message VPN, kind and name. Raises DeclarationInvalid."""
    if document.keys() != {"version", "message_vpns"}:
        raise DeclarationInvalid(f"it has {', '.join(document) or 'nothing'}; allowed: version and message_vpns")
    if document["version"] != VERSION:
        raise DeclarationInvalid(f"version: {document['version']!r} is not allowed; allowed: {VERSION}")
    allowed = ", ".join(kinds)
    found: dict[str, dict[str, Objects]] = {}
    for vpn, given in _mapping("message_vpns", document["message_vpns"], "kinds of objects by message VPN").items():
        where = f"message_vpns.{vpn}"
        found[vpn] = {}
        for kind, objects in _mapping(where, given, f"lists of {allowed}").items():
            if kind not in kinds:
                raise DeclarationInvalid(f"{where}.{kind}: there is no such kind of objects; allowed: {allowed}")
            found[vpn][kind] = _objects(f"{where}.{kind}", objects)
    return found


def _mapping(where: str, given: object, allowed: str) -> Mapping[str, object]:
    if not isinstance(given, Mapping):
        raise DeclarationInvalid(f"{where}: it is no mapping; allowed: {allowed}")
    return given


def _objects(where: str, given: object) -> Objects:
    if not isinstance(given, list):
        raise DeclarationInvalid(f"{where}: it is no list; allowed: a list of objects with a name each")
    found: dict[str, Fields] = {}
    for index, each in enumerate(given):
        fields = _mapping(f"{where}[{index}]", each, "an object with a name")
        name = fields.get("name")
        if not isinstance(name, str) or name in found:
            reason = "has no name" if not isinstance(name, str) else f"is a second {name!r}"
            raise DeclarationInvalid(f"{where}[{index}] {reason}; allowed: each name once")
        found[name] = fields
    return found


def differences(kind: str, wanted: Objects, present: Objects, *, prune: bool) -> Iterator[Change]:
    """Yield what has to be done for all that is wanted to be there; with `prune`, for nothing else to be there."""
    for name, fields in sorted(wanted.items()):
        if name not in present:
            yield Change(ADD, kind, name, fields, {})
            continue
        before = {key: present[name].get(key) for key, value in fields.items() if present[name].get(key) != value}
        if before:
            yield Change(SET, kind, name, {key: fields[key] for key in before}, before)
    if prune:
        yield from (Change(REMOVE, kind, name, {}, {}) for name in sorted(present.keys() - wanted.keys()))
