"""Protobuf: a payload is one message of a type in a descriptor set, as `protoc --descriptor_set_out` writes it.

Most bytes are a Protobuf message of any type, with fields that the type does not know. So a payload with unknown fields
does not fit, unless the rule allows them.
"""

from collections.abc import Callable
from typing import Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from sluicegate.protocols.schemas.errors import SchemaUnusable

# Unknown fields are named in payloads of at most so many bytes. Python takes 3 us to look at each of 1,000 messages in
# one payload, and 150 us at each of 500,000, which fit into 1 MiB.
NAMED_BYTES_MAX: Final = 1024


def protobuf_problem_finder(content: bytes, message_type: str, *, allow_unknown_fields: bool) -> Callable[[bytes], str]:
    """Return a function that says why a payload is not a message of a type. Raises SchemaUnusable."""
    files = descriptor_pb2.FileDescriptorSet()
    try:
        files.ParseFromString(content)
    except DecodeError:
        raise SchemaUnusable("it is no descriptor set, as of `protoc --include_imports --descriptor_set_out`") from None
    if not message_type:
        raise SchemaUnusable("message_type is required: the full name of a Protobuf message, as in shop.Order")
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in files.file:
            pool.Add(file)
        kind = pool.FindMessageTypeByName(message_type)
        made = message_factory.GetMessageClass(kind)
    except (KeyError, TypeError) as problem:
        text = str(problem.args[0] if problem.args else problem)
        raise SchemaUnusable(f"there is no usable message {message_type!r}: {text}") from None

    is_recursive = _contains_itself(kind)

    def problem_of(payload: bytes) -> str:
        message = made()
        try:
            message.ParseFromString(payload)
        except DecodeError as problem:
            return f"it is no {message_type}: {problem}"
        if not message.IsInitialized():
            return f"required fields of {message_type} are missing"
        if allow_unknown_fields:
            return ""
        if not is_recursive and len(payload) > NAMED_BYTES_MAX:
            return f"it has fields that {message_type} does not have" if _has_unknown_fields(message) else ""
        unknown = unknown_field_in(message)
        return f"{message_type} has no {unknown}" if unknown else ""

    return problem_of


def _contains_itself(kind: Descriptor, above: frozenset[str] = frozenset(), seen: set[str] | None = None) -> bool:
    """Return whether messages of a type, or of one that it has, may be nested without bound."""
    seen = set() if seen is None else seen
    if kind.full_name in above:
        return True
    if kind.full_name in seen:
        return False
    seen.add(kind.full_name)
    inner = [field.message_type for field in kind.fields if field.message_type is not None]
    return any(_contains_itself(each, above | {kind.full_name}, seen) for each in inner)


def _has_unknown_fields(message: Message) -> bool:
    """Return whether a message, or one inside of it, has fields that its type does not have. It loses them.

    The library discards none that are nested deeper than 62 levels, and does not say so.
    """
    size = message.ByteSize()
    message.DiscardUnknownFields()
    return message.ByteSize() != size


def unknown_field_in(message: Message) -> str:
    """Return the name of the first field that the type of a message, or of one inside of it, does not have."""
    unknown = UnknownFieldSet(message)
    if len(unknown):
        return f"field {unknown[0].field_number}"
    for field, value in message.ListFields():
        if field.type not in (FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_GROUP):
            continue
        for each in _messages_in(field, value):
            if found := unknown_field_in(each):
                return f"{found} in {field.name}"
    return ""


def _messages_in(field: FieldDescriptor, value: object) -> list[Message]:
    if isinstance(value, Message):
        return [value]
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        values = list(value.values())  # type: ignore[attr-defined]  # a map, for which there is no common type
        return [each for each in values if isinstance(each, Message)]
    return list(value)  # type: ignore[call-overload,no-any-return]  # a repeated field
