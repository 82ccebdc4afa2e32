"""What a kind of SEMP object is made of: attributes, each read from a view of the node, and collections below it.

The kinds themselves are tables in `queue_objects` and `client_objects`.
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

KEYS_APART: Final = ","  # between the attributes that name an object together
UNITS: Final = ("_s", "_ms", "_mb")  # our names end in them, SEMP's do not


def semp_name(name: str) -> str:
    """Return a name as SEMP writes it: `partition_rebalance_delay_s` is `partitionRebalanceDelay`."""
    for unit in UNITS:
        name = name.removesuffix(unit)
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def as_it_is(value: object) -> object:
    """Return a value of a body as the admin API takes it: most are the same in both."""
    return value


@dataclass(frozen=True, slots=True)
class SempAttribute(Generic[View]):
    """One attribute. One with a `field` is a setting: that is its name in the admin API, and in a configuration."""

    name: str
    schema: Schema
    meaning: str
    read: Callable[[View], Value] | None  # None: it can only be written
    field: str = ""
    write: Callable[[object], object] = as_it_is  # from a body to the value of `field`; raises SempError


@dataclass(frozen=True, slots=True)
class SempCollection(Generic[View]):
    """Objects below an object: their path, and how many there are, if that is known with the object."""

    name: str
    count: Callable[[View], int] | None
    configures: bool = False  # it is below the object in `config` as well


@dataclass(frozen=True, slots=True)
class SempObject(Generic[View]):
    """A kind of object. `key` is the attribute that tells one from another, together with `qualifier` if it has one."""

    kind: str
    key: str
    attributes: tuple[SempAttribute[View], ...]
    collections: tuple[SempCollection[View], ...] = ()
    qualifier: str = ""  # an attribute that stands before the key wherever an object is named, with a comma between

    @property
    def keys(self) -> tuple[str, ...]:
        """The attributes that tell one from another, in the order in which they name it."""
        return (self.qualifier, self.key) if self.qualifier else (self.key,)

    def names(self) -> list[str]:
        """Return what `select` may name."""
        counted = [each.name for each in self.collections if each.count is not None]
        return [*(each.name for each in self.attributes), *counted]

    def attribute(self, name: str) -> SempAttribute[View]:
        """Return one of its attributes."""
        return next(each for each in self.attributes if each.name == name)

    def fields(self, body: Mapping[str, object], parents: Mapping[str, str]) -> dict[str, object]:
        """Return what a body sets, by the admin API's names; `parents` are keys of the path. Raises SempError."""
        writable = {each.name: each for each in self.attributes if each.field}
        fields: dict[str, object] = {}
        for name, value in body.items():
            if name in parents:
                if value != parents[name]:
                    raise invalid_parameter(
                        f"{name}: {quoted(value)} is not that of the path; allowed: {parents[name]!r}"
                    )
            elif name not in writable:
                allowed = ", ".join(writable)
                raise invalid_parameter(f"{name}: there is no such attribute that can be set; allowed: {allowed}")
            else:
                fields[writable[name].field] = writable[name].write(value)
        return fields

    def name_of(self, field: str) -> str:
        """Return the attribute that a field of the admin API is, or the field where it is none."""
        return next((each.name for each in self.attributes if each.field == field), field)


def configured(kind: SempObject[Any]) -> SempObject[Any]:
    """Return a kind as `config` shows it: what can be set, and what is set of it."""
    return SempObject(
        kind.kind,
        kind.key,
        tuple(each for each in kind.attributes if each.field or each.name == kind.key),
        tuple(each for each in kind.collections if each.configures),
        kind.qualifier,
    )
