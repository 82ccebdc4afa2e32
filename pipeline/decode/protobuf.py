"""Protocol Buffers: one message, by a descriptor set (`protoc --include_imports --descriptor_set_out=FILE`).

Fields without presence have their default where the sender left them out; an enum is its name, or its number where it
has none. Unknown fields are left out.
"""

from collections.abc import Callable
from datetime import UTC
from decimal import Decimal
from typing import Any, ClassVar, Final, TypeAlias, final

import pyarrow as pa
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from sluicegate.pipeline.decode.decoder import ArrowType, Decoder, Record, SchemaError, Undecodable

Descriptor: TypeAlias = Any  # the library's types are those of whichever implementation is loaded
Message: TypeAlias = Any
Convert: TypeAlias = Callable[[Any], Any]

TIMESTAMP: Final = "google.protobuf.Timestamp"
UNSIGNED_64: Final = pa.decimal128(20, 0)  # Spark has no unsigned numbers


@final
class ProtobufDecoder(Decoder):
    """Decodes messages of one type. Its pickle has the arguments only: the library's classes cannot be pickled."""

    what: ClassVar[str] = "Protobuf"

    def __init__(self, descriptor_set: bytes, message: str) -> None:
        """Take a descriptor set and a message's full name. Raises SchemaError."""
        self._made_of = (descriptor_set, message)
        pool = DescriptorPool()
        try:
            for file in FileDescriptorSet.FromString(descriptor_set).file:
                pool.Add(file)
            descriptor = pool.FindMessageTypeByName(message)
        except KeyError:
            raise SchemaError(f"the descriptor set has no message {message}") from None
        except (DecodeError, TypeError) as error:
            raise SchemaError(f"the descriptor set is none, or lacks what it imports: {error}") from None
        self._class = GetMessageClass(descriptor)
        self.value_type, self._record = _message_type(descriptor, ())

    def __reduce__(self) -> tuple[type["ProtobufDecoder"], tuple[bytes, str]]:
        return type(self), self._made_of

    def decode(self, payload: bytes) -> Record:
        """Return the message's record. Raises Undecodable."""
        try:
            return self._record(self._class.FromString(payload))  # type: ignore[no-any-return]  # a struct's value
        except (DecodeError, ValueError, OverflowError) as error:
            raise Undecodable(f"{self.what}: {error}") from None


def _message_type(descriptor: Descriptor, inside: tuple[str, ...]) -> tuple[ArrowType, Convert]:
    """Return the type of a message's column, and the function that makes its values. Raises SchemaError."""
    if descriptor.full_name == TIMESTAMP:
        return pa.timestamp("us", tz="UTC"), _timestamp
    if descriptor.full_name in inside:
        raise SchemaError(f"the message {descriptor.full_name} holds itself, and a table has no such columns")
    around = (*inside, descriptor.full_name)
    fields = [(each, *_field_type(each, around)) for each in descriptor.fields]
    if not fields:
        raise SchemaError(f"the message {descriptor.full_name} has no fields, and so no columns")

    def record(message: Message) -> Record:
        return {
            field.name: convert(getattr(message, field.name))
            for field, _kind, convert in fields
            if not field.has_presence or message.HasField(field.name)
        }

    return pa.struct([pa.field(field.name, kind) for field, kind, _convert in fields]), record


def _field_type(field: Descriptor, inside: tuple[str, ...]) -> tuple[ArrowType, Convert]:
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        key_kind, key = _value_type(inner.fields_by_name["key"], inside)
        item_kind, item = _value_type(inner.fields_by_name["value"], inside)
        return pa.map_(key_kind, item_kind), lambda found: [(key(name), item(found[name])) for name in found]
    kind, convert = _value_type(field, inside)
    if field.is_repeated:
        return pa.list_(kind), lambda found: [convert(each) for each in found]
    return kind, convert


def _value_type(field: Descriptor, inside: tuple[str, ...]) -> tuple[ArrowType, Convert]:
    if field.type == field.TYPE_ENUM:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return pa.string(), lambda number: names.get(number, str(number))
    if field.message_type is not None:
        return _message_type(field.message_type, inside)
    if field.type == field.TYPE_BYTES:
        return pa.binary(), _as_it_is
    return _SCALARS[field.cpp_type]


def _as_it_is(value: Any) -> Any:
    return value


def _timestamp(value: Message) -> Any:
    return value.ToDatetime(UTC)


_SCALARS: Final = {
    FieldDescriptor.CPPTYPE_BOOL: (pa.bool_(), _as_it_is),
    FieldDescriptor.CPPTYPE_INT32: (pa.int32(), _as_it_is),
    FieldDescriptor.CPPTYPE_UINT32: (pa.int64(), _as_it_is),
    FieldDescriptor.CPPTYPE_INT64: (pa.int64(), _as_it_is),
    FieldDescriptor.CPPTYPE_UINT64: (UNSIGNED_64, Decimal),
    FieldDescriptor.CPPTYPE_FLOAT: (pa.float32(), _as_it_is),
    FieldDescriptor.CPPTYPE_DOUBLE: (pa.float64(), _as_it_is),
    FieldDescriptor.CPPTYPE_STRING: (pa.string(), _as_it_is),
}
