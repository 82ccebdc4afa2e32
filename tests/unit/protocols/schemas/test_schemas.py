"""Payloads that fit a schema file and payloads that do not, and schema files that cannot be used safely."""

import io
import json
from pathlib import Path
from typing import Final

import fastavro
import pytest
from google.protobuf import descriptor_pb2

from sluicegate.protocols.schemas.errors import SchemaUnusable
from sluicegate.protocols.schemas.references import FolderReferences
from sluicegate.protocols.schemas.schema import ProblemOf, problem_finder

ORDER: Final = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}
AVRO_ORDER: Final = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "lines", "type": {"type": "array", "items": "string"}},
        {"name": "due", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None},
    ],
}


def finder(
    folder: Path,
    name: str,
    *,
    references: FolderReferences | None = None,
    message_type: str = "",
    unknown: bool = False,
    bytes_max: int = 1000,
) -> ProblemOf:
    return problem_finder(
        folder,
        name,
        references=references or FolderReferences(folder),
        message_type=message_type,
        allow_unknown_fields=unknown,
        payload_bytes_max=bytes_max,
    )


def of_json(folder: Path, schema: object, name: str = "schema.json") -> ProblemOf:
    (folder / name).write_text(json.dumps(schema))
    return finder(folder, name)


def of_avro(folder: Path, schema: object, message_type: str = "") -> ProblemOf:
    (folder / "schema.avsc").write_text(json.dumps(schema))
    return finder(folder, "schema.avsc", message_type=message_type)


def datum(schema: object, value: object) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)  # type: ignore[arg-type]
    return stream.getvalue()


def descriptor_set() -> bytes:
    """Return what `protoc` makes of: message Order { int64 id; Line line; repeated Line more; } and its Line.

    And of message Node { Node child; }.
    """
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    line = file.message_type.add(name="Line")
    line.field.add(name="sku", number=1, type=9, label=1)
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=3, label=1)
    order.field.add(name="line", number=2, type=11, type_name=".shop.Line", label=1)
    order.field.add(name="more", number=3, type=11, type_name=".shop.Line", label=3)
    node = file.message_type.add(name="Node")
    node.field.add(name="child", number=1, type=11, type_name=".shop.Node", label=1)
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


def test_json_that_fits_has_no_problem_and_other_json_names_place_and_reason(tmp_path: Path) -> None:
    problem_of = of_json(tmp_path, ORDER)
    assert problem_of(b'{"id": 7}') == ""
    assert problem_of(b'{"id": "x"}') == '$.id: the value is not of type "integer"'
    assert problem_of(b"{}") == '$: "id" is a required property'
    assert problem_of(b"{").startswith("it is not JSON: ")
    assert problem_of(b"[" * 900 + b"]" * 900) != ""  # deeper than the validator goes: refused, and not a crash


def test_a_pattern_takes_a_bounded_number_of_steps(tmp_path: Path) -> None:
    """Without a bound this look-ahead takes more steps than there are atoms."""
    problem_of = of_json(tmp_path, {"type": "string", "pattern": r"^(?=(a+)+$)(a|a)*$"})
    assert problem_of(b'"' + b"a" * 60 + b'!"') != ""


def test_json_schemas_refer_to_files_of_the_folder_and_to_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "common.json").write_text(json.dumps({"$id": "https://shop.example/id.json", "type": "integer"}))
    by_path = of_json(tmp_path, {"properties": {"id": {"$ref": "common.json"}}})
    by_id = of_json(
        tmp_path, {"$id": "https://shop.example/a.json", "properties": {"id": {"$ref": "id.json"}}}, "a.json"
    )
    for problem_of in (by_path, by_id):
        assert problem_of(b'{"id": 1}') == ""
        assert "is not of type" in problem_of(b'{"id": "x"}')
    for reference in ("http://127.0.0.1:9/id.json", "../outside.json", "missing.json"):
        with pytest.raises(SchemaUnusable):
            of_json(tmp_path, {"$ref": reference}, "bad.json")


def test_rules_that_share_references_read_the_files_of_the_folder_once(tmp_path: Path) -> None:
    """Else each rule with a reference by `$id` would read all of them."""
    common = tmp_path / "common.json"
    common.write_text(json.dumps({"$id": "https://shop.example/id.json", "type": "integer"}))
    (tmp_path / "order.json").write_text(json.dumps({"$ref": "https://shop.example/id.json"}))
    references = FolderReferences(tmp_path)
    assert finder(tmp_path, "order.json", references=references)(b"1") == ""
    common.unlink()
    assert finder(tmp_path, "order.json", references=references)(b"1") == ""
    with pytest.raises(SchemaUnusable):
        finder(tmp_path, "order.json")


def test_avro_data_fit_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    problem_of = of_avro(tmp_path, AVRO_ORDER)
    good = datum(AVRO_ORDER, {"id": 7, "state": "PAID", "lines": ["a", "b"], "due": None})
    assert problem_of(good) == ""
    assert problem_of(good + b"\0") == "1 bytes are left behind the Avro datum"
    for length in range(len(good)):
        assert problem_of(good[:length]) != ""
    assert problem_of(b'{"id": 7}') != ""


def test_a_type_inside_an_avro_file_can_be_named(tmp_path: Path) -> None:
    line = {"type": "record", "name": "Line", "fields": [{"name": "n", "type": "int"}, {"name": "o", "type": "Other"}]}
    other = {"type": "record", "name": "Other", "fields": [{"name": "s", "type": "string"}]}
    problem_of = of_avro(tmp_path, [other, line], "Line")
    assert problem_of(b"\x02\x02x") == ""
    assert problem_of(b"\x02") != ""
    with pytest.raises(SchemaUnusable, match="it has no type 'Nothing'; it has: Line, Other"):
        of_avro(tmp_path, [other, line], "Nothing")


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}, "contains itself"),
        ({"type": "array", "items": "null"}, "items without bytes"),
        ({"type": "array", "items": {"type": "record", "name": "E", "fields": []}}, "items without bytes"),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, "items without bytes"),
        ({"type": "record", "name": "N", "fields": [{"name": "x", "type": "nothing"}]}, "unknown type"),
        ({"type": "record"}, "no Avro schema"),
    ],
)
def test_avro_schemas_by_which_a_client_could_harm_the_broker_are_refused(
    tmp_path: Path, schema: object, reason: str
) -> None:
    """With the first, 5,000 bytes would end the process; with the others, ten bytes would keep it busy for ever."""
    with pytest.raises(SchemaUnusable, match=reason):
        of_avro(tmp_path, schema)


def test_protobuf_messages_fit_with_the_fields_of_their_type_only(tmp_path: Path) -> None:
    (tmp_path / "shop.desc").write_bytes(descriptor_set())
    problem_of = finder(tmp_path, "shop.desc", message_type="shop.Order")
    assert problem_of(b"\x08\x07\x12\x03\x0a\x01x") == ""
    assert problem_of(b"\x08") != ""
    assert problem_of(b"\x20\x01") == "shop.Order has no field 4"
    assert problem_of(b"\x12\x02\x10\x01") == "shop.Order has no field 2 in line"
    assert problem_of(b"\x1a\x02\x10\x01") == "shop.Order has no field 2 in more"
    long = b"\x1a\x00" * 600  # more lines
    assert finder(tmp_path, "shop.desc", message_type="shop.Order", bytes_max=2000)(long) == ""
    text = finder(tmp_path, "shop.desc", message_type="shop.Order", bytes_max=2000)(long + b"\x20\x01")
    assert text == "it has fields that shop.Order does not have"
    lenient = finder(tmp_path, "shop.desc", message_type="shop.Order", unknown=True)
    assert lenient(b"\x20\x01") == ""


@pytest.mark.parametrize("levels", [1, 62, 63, 90])
def test_unknown_fields_are_found_however_deep_they_are(levels: int, tmp_path: Path) -> None:
    """The library that could discard them stops at 62 levels."""
    (tmp_path / "shop.desc").write_bytes(descriptor_set())
    problem_of = finder(tmp_path, "shop.desc", message_type="shop.Node", bytes_max=10_000)
    for innermost, problem in ((b"", ""), (b"\x48\x01", "field 9"), (b"\x4a\xd0\x0f" + b"x" * 2000, "field 9")):
        payload = innermost
        for _ in range(levels):
            payload = b"\x0a" + _varint(len(payload)) + payload
        assert problem in problem_of(payload)
        assert bool(problem_of(payload)) == bool(problem)


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + _varint(number >> 7)


def test_unusable_files_are_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "shop.desc").write_bytes(descriptor_set())
    (tmp_path / "broken.desc").write_bytes(b"\xff")
    (tmp_path / "broken.json").write_text('{"type": 7}')
    (tmp_path / "order.xsd").write_text("<schema/>")
    for name, message_type, reason in (
        ("absent.json", "", "No such file"),
        ("broken.json", "", "is no usable JSON Schema"),
        ("broken.json", "Order", "a JSON Schema has no message_type"),
        ("order.xsd", "", "has none of the endings"),
        ("broken.desc", "x.Y", "is no descriptor set"),
        ("shop.desc", "", "message_type is required"),
        ("shop.desc", "shop.Nothing", "no usable message 'shop.Nothing'"),
    ):
        with pytest.raises(SchemaUnusable, match=reason):
            finder(tmp_path, name, message_type=message_type)


def test_a_payload_beyond_the_limit_fits_nothing(tmp_path: Path) -> None:
    (tmp_path / "any.json").write_text("true")
    problem_of = finder(tmp_path, "any.json", bytes_max=10)
    assert problem_of(b'"12345678"') == ""
    assert "schemas.payload_bytes_max" in problem_of(b'"123456789"')
