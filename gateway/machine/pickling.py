"""What crosses between the supervisor and brokers, as bytes.

The standard pickle has two gaps: it cannot make a compiled dataclass again that is frozen, nor an error whose arguments
are not those of its constructor. Here a dataclass is made from its fields, and an error without its constructor.
"""

import io
import pickle
from dataclasses import fields, is_dataclass
from typing import Any


def dumps(value: object) -> bytes:
    """Return a value as bytes. Raises what pickling raises for a value that cannot cross."""
    target = io.BytesIO()
    _Pickler(target, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return target.getvalue()


def loads(data: bytes) -> Any:
    """Return the value that `dumps` was given, of another process that runs the same code."""
    return pickle.loads(data)


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if is_dataclass(value) and not isinstance(value, type):
            return _made, (type(value), {each.name: getattr(value, each.name) for each in fields(value) if each.init})
        if isinstance(value, BaseException):
            return _raised, (type(value), value.args, _attributes(value))
        return NotImplemented


def _made(kind: Any, values: dict[str, object]) -> object:
    return kind(**values)


def _raised(kind: type[BaseException], arguments: tuple[object, ...], attributes: dict[str, object]) -> BaseException:
    error = kind.__new__(kind)
    error.args = arguments
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


def _attributes(error: BaseException) -> dict[str, object]:
    """Return the attributes of an error: those of a compiled class are not in its dictionary."""
    names = [*getattr(type(error), "__mypyc_attrs__", ()), *getattr(error, "__dict__", ())]
    own = [name for name in names if not name.startswith("__") and hasattr(error, name)]
    return {name: getattr(error, name) for name in own}
