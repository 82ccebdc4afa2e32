"""Kinds of SEMP objects: attributes, each read from a view of the node, and collections below the object.

The tables of the kinds are in `queues` and `clients`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from sluicegate.gateway.admin.semp.errors import invalid_parameter
from sluicegate.gateway.admin.semp.query import Value
from sluicegate.messaging.queues.attributes import quoted

View = TypeVar("View")
Schema = dict[str, object]

TEXT: Final[Schema] = {"type": "string"}
INTEGER: Final[Schema] = {"type": "integer"}
BOOLEAN: Final[Schema] = {"type": "boolean"}

KEYS_APART: Final = ","  # between the attributes of a compound key
UNITS: Final = ("_s", "_ms", "_mb")  # suffixes of the gateway's names that SEMP's names lack


def semp_name(name: str) -> str:
    """Return a setting's name in SEMP: `partition_rebalance_delay_s` is `partitionRebalanceDelay`."""
    for unit in UNITS:
        name = name.removesuffix(unit)
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def as_it_is(value: object) -> object:
    """Return a value unchanged: most values are the same in SEMP and in the admin API."""
    return value


@dataclass(frozen=True, slots=True)
class SempAttribute(Generic[View]):
    """One attribute. With a `field` it is a setting; `field` is its name in the admin API and the configuration."""

    name: str
    schema: Schema
    meaning: str
    read: Callable[[View], Value] | None  # None: write-only
    field: str = ""
    write: Callable[[object], object] = as_it_is  # from a body to the value of `field`; raises SempError


@dataclass(frozen=True, slots=True)
class SempCollection(Generic[View]):
    """A collection below an object: its path, and its size if that is known with the object."""

    name: str
    count: Callable[[View], int] | None
    configures: bool = False  # it is also below the object in `config`


@dataclass(frozen=True, slots=True)
class SempObject(Generic[View]):
    """A kind of object. `key` is the attribute that identifies an object, together with `qualifier` if there is one."""

    kind: str
    key: str
    attributes: tuple[SempAttribute[View], ...]
    collections: tuple[SempCollection[View], ...] = ()
    qualifier: str = ""  # an attribute that precedes the key in names, separated by a comma

    @property
    def keys(self) -> tuple[str, ...]:
        """The attributes that identify an object, in the order of its name."""
        return (self.qualifier, self.key) if self.qualifier else (self.key,)

    def names(self) -> list[str]:
        """Return the names that `select` accepts."""
        counted = [each.name for each in self.collections if each.count is not None]
        return [*(each.name for each in self.attributes), *counted]

    def attribute(self, name: str) -> SempAttribute[View]:
        """Return the attribute of this name."""
        return next(each for each in self.attributes if each.name == name)

    def fields(self, body: Mapping[str, object], parents: Mapping[str, str]) -> dict[str, object]:
        """Return the settings of a body by their admin API names; `parents` are keys of the path. Raises SempError."""
        writable = {each.name: each for each in self.attributes if each.field}
        fields: dict[str, object] = {}
        for name, value in body.items():
            if name in parents:
                if value != parents[name]:
                    raise invalid_parameter(
                        f"{name}: {quoted(value)} differs from the path; allowed: {parents[name]!r}"
                    )
            elif name not in writable:
                allowed = ", ".join(writable)
                raise invalid_parameter(f"{name}: this is not an attribute that can be set; allowed: {allowed}")
            else:
                fields[writable[name].field] = writable[name].write(value)
        return fields

    def name_of(self, field: str) -> str:
        """Return the attribute for a field of the admin API, or the field itself if there is none."""
        return next((each.name for each in self.attributes if each.field == field), field)


def configured(kind: SempObject[Any]) -> SempObject[Any]:
    """Return a kind as `config` shows it: only its key, settings and configured collections."""
    return SempObject(
        kind.kind,
        kind.key,
        tuple(each for each in kind.attributes if each.field or each.name == kind.key),
        tuple(each for each in kind.collections if each.configures),
        kind.qualifier,
    )
