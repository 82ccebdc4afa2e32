"""Payloads of every format: what becomes of them, and what is said of those that become nothing."""

import io
import json
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP_FILE
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.pipeline.decode.avro import AvroDecoder
from sluicegate.pipeline.decode.decoder import Decoder, SchemaError, Undecodable
from sluicegate.pipeline.decode.protobuf import ProtobufDecoder
from sluicegate.pipeline.decode.text import CsvDecoder, JsonDecoder

READING = pa.struct(
    [
        pa.field("device", pa.string()),
        pa.field("t", pa.float64()),
        pa.field("n", pa.int32()),
        pa.field("ok", pa.bool_()),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("day", pa.date32()),
    ]
)
NESTED = pa.struct(
    [
        pa.field("tags", pa.map_(pa.string(), pa.int64())),
        pa.field("path", pa.list_(pa.struct([pa.field("x", pa.float32())]))),
    ]
)
AVRO_READING = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "device", "type": "string"},
        {"name": "t", "type": ["null", "double"]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["INDOOR", "OUTDOOR"]}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "more", "type": {"type": "map", "values": {"type": "array", "items": "int"}}},
    ],
}


def descriptor_set() -> bytes:
    """A file with `acme.Reading`, as protoc writes it with --include_imports."""
    kind = FieldDescriptorProto
    file = FileDescriptorProto(
        name="reading.proto", package="acme", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    state = file.enum_type.add(name="State")
    state.value.add(name="OFF", number=0)
    state.value.add(name="ON", number=1)
    reading = file.message_type.add(name="Reading")
    fields: list[tuple[str, int, int, str]] = [
        ("device", kind.TYPE_STRING, kind.LABEL_OPTIONAL, ""),
        ("t", kind.TYPE_DOUBLE, kind.LABEL_OPTIONAL, ""),
        ("serial", kind.TYPE_UINT64, kind.LABEL_OPTIONAL, ""),
        ("raw", kind.TYPE_BYTES, kind.LABEL_REPEATED, ""),
        ("state", kind.TYPE_ENUM, kind.LABEL_OPTIONAL, ".acme.State"),
        ("at", kind.TYPE_MESSAGE, kind.LABEL_OPTIONAL, ".google.protobuf.Timestamp"),
        ("tags", kind.TYPE_MESSAGE, kind.LABEL_REPEATED, ".acme.Reading.TagsEntry"),
    ]
    for number, (name, type_number, label, type_name) in enumerate(fields, start=1):
        reading.field.add(name=name, number=number, type=type_number, label=label, type_name=type_name or None)
    entry = DescriptorProto(name="TagsEntry")
    entry.field.add(name="key", number=1, type=kind.TYPE_STRING, label=kind.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=kind.TYPE_INT32, label=kind.LABEL_OPTIONAL)
    entry.options.map_entry = True
    reading.nested_type.append(entry)
    timestamp = FileDescriptorProto()
    TIMESTAMP_FILE.CopyToProto(timestamp)
    return FileDescriptorSet(file=[timestamp, file]).SerializeToString()


def protobuf_payload(**fields: Any) -> bytes:
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(descriptor_set()).file:
        pool.Add(file)
    made: Any = GetMessageClass(pool.FindMessageTypeByName("acme.Reading"))(**fields)
    return bytes(made.SerializeToString())


def avro_payload(record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO_READING), record)
    return out.getvalue()


def only(decoder: Decoder, payload: bytes) -> Any:
    """The record as a table has it, from where a task would find the decoder: in a pickle."""
    values, reasons = pickle.loads(pickle.dumps(decoder)).decode_all([payload])
    assert reasons == [None]
    return values.to_pylist()[0]


def test_json_becomes_columns_and_what_is_left_out_is_null() -> None:
    payload = b'{"device": "d-1", "t": 3, "n": 4.0, "ok": true, "at": "2026-03-04T05:06:07Z", "colour": 1}'
    assert only(JsonDecoder(READING), payload) == {
        "device": "d-1", "t": 3.0, "n": 4, "ok": True, "at": datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC), "day": None,
    }  # fmt: skip
    nested = b'{"tags": {"a": 1}, "path": [{"x": 0.5}, null, {}]}'
    assert only(JsonDecoder(NESTED), nested) == {"tags": [("a", 1)], "path": [{"x": 0.5}, None, {"x": None}]}


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (b"", "zero-length"),
        (b'{"t": 1} x', "unexpected content after document: line 1 column 10"),
        (b'{"device": "\xff"}', "UTF-8"),
        (b"[1]", "an object is wanted, not list"),
        (b'{"t": "warm"}', "t is 'warm', and a number is wanted"),
        (b'{"t": true}', "t is True, and a number is wanted"),
        (b'{"n": 1.5}', "n is 1.5, and a whole number of 32 bits is wanted"),
        (b'{"n": 2147483648}', "n is 2147483648, and a whole number of 32 bits"),
        (b'{"ok": 1}', "ok is 1, and true or false is wanted"),
        (b'{"device": 5}', "device is 5, and a text is wanted"),
        (b'{"at": 1700000000}', "at is 1700000000, and a time such as"),
        (b'{"at": "9999-12-31T23:59:59-01:00"}', "at is '9999-12-31T23:59:59-01:00', and a time such as"),
        (b'{"at": "0001-01-01T00:00:00+01:00"}', "at is '0001-01-01T00:00:00+01:00', and a time such as"),
        (b'{"day": "yesterday"}', "day is 'yesterday', and a day such as 2026-03-04"),
        (b'{"device": {"' + b"x" * 500 + b'": 1}}', "..., and a text is wanted"),
    ],
)
def test_errors_in_json_are_reported_with_their_place(payload: bytes, said: str) -> None:
    with pytest.raises(Undecodable) as caught:
        JsonDecoder(READING).decode(payload)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "payload", [b"-9223372036854775809", b"-9223372036854775900", b"9223372036854775807.0", b"9007199254740993e3"]
)
def test_a_whole_number_that_the_parser_rounded_is_set_aside_and_no_other_number_kept(payload: bytes) -> None:
    with pytest.raises(Undecodable, match="a whole number of 64 bits is wanted"):
        JsonDecoder(pa.struct([("n", pa.int64())])).decode(b'{"n": ' + payload + b"}")


def test_a_number_that_is_too_large_for_its_column_is_set_aside_and_not_infinite() -> None:
    small, large = pa.struct([("n", pa.float32())]), pa.struct([("n", pa.float64())])
    assert only(JsonDecoder(small), b'{"n": -3.4e38}') == {"n": pytest.approx(-3.4e38)}
    for decoder, payload, bits in (
        (JsonDecoder(small), b'{"n": 3.5e38}', 32),
        (CsvDecoder(small, ","), b"-1e39", 32),
        (CsvDecoder(large, ","), b"1e309", 64),
    ):
        with pytest.raises(Undecodable, match=f"a number of {bits} bits is wanted"):
            decoder.decode(payload)


def test_the_place_of_a_nested_value_is_its_path() -> None:
    with pytest.raises(Undecodable, match=r"path\[1\]\.x is 'far'"):
        JsonDecoder(NESTED).decode(b'{"path": [{"x": 1}, {"x": "far"}]}')


def test_a_line_of_csv_becomes_columns() -> None:
    payload = b'"d ""1""",-1.5e3,7,TRUE,2026-03-04T05:06:07+01:00,2026-03-04\r\n'
    assert only(CsvDecoder(READING, ","), payload) == {
        "device": 'd "1"', "t": -1500.0, "n": 7, "ok": True, "at": datetime(2026, 3, 4, 4, 6, 7, tzinfo=UTC),
        "day": date(2026, 3, 4),
    }  # fmt: skip
    assert only(CsvDecoder(READING, ";"), b";;;;;") == dict.fromkeys(field.name for field in READING)


def test_a_cell_of_csv_may_be_as_large_as_a_payload() -> None:
    text = "x" * 1_000_000
    assert only(CsvDecoder(READING, ","), f"{text},,,,,".encode())["device"] == text


def test_a_cell_that_is_almost_a_number_is_looked_through_once() -> None:
    """Trying each way to cut a run of digits in two would keep the task for hours."""
    cell = "1" * 100_000
    with pytest.raises(Undecodable, match="a number is wanted"):
        CsvDecoder(READING, ",").decode(f",{cell}x,,,,".encode())


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (b"a,1,2", "3 cells, and 6 columns"),
        (b"", "0 cells, and 6 columns"),
        (b"a,1,2,true,,\nb,1,2,true,,", "new-line character"),
        (b"a,1,2_0,true,,", "n is '2_0', and a whole number is wanted"),
        (b"a,nan,2,true,,", "t is 'nan', and a number is wanted"),
        (b"a,1,2,yes,,", "ok is 'yes', and true or false is wanted"),
        (b'"a,1,2,true,,', "unexpected end of data"),
    ],
)
def test_errors_in_csv_are_reported(payload: bytes, said: str) -> None:
    with pytest.raises(Undecodable, match=said):
        CsvDecoder(READING, ",").decode(payload)


def test_an_avro_record_becomes_columns() -> None:
    """Avro 1.12, logical types: those that Spark has are kept, a uuid stays a text."""
    sent = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
    record = {
        "device": "d-1", "t": None, "kind": "OUTDOOR", "at": sent, "price": Decimal("12.50"), "id": "no uuid",
        "more": {"a": [1, 2]},
    }  # fmt: skip
    plain = json.loads(json.dumps(AVRO_READING).replace('"logicalType": "uuid"', '"doc": "x"'))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(plain), record)
    assert only(AvroDecoder(json.dumps(AVRO_READING)), out.getvalue()) == {**record, "more": [("a", [1, 2])]}


@pytest.mark.parametrize(
    ("payload", "said"),
    [(b"", "EOFError"), (b"\x02a", "EOFError"), (b"Obj\x01abc", "Avro: ")],
)
def test_bytes_that_are_no_avro_record_are_undecodable(payload: bytes, said: str) -> None:
    with pytest.raises(Undecodable, match=said):
        AvroDecoder(json.dumps(AVRO_READING)).decode(payload)


def test_bytes_behind_an_avro_record_make_it_undecodable() -> None:
    schema = json.dumps({"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]})
    with pytest.raises(Undecodable, match="1 bytes are left behind the record"):
        AvroDecoder(schema).decode(b"\x02\x02")


def test_a_protobuf_message_becomes_columns() -> None:
    decoder = ProtobufDecoder(descriptor_set(), "acme.Reading")
    sent = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
    payload = protobuf_payload(
        device="d-1", t=21.5, serial=(1 << 64) - 1, raw=[b"\x00"], state=1, at={"seconds": int(sent.timestamp())},
        tags={"a": 1},
    )  # fmt: skip
    assert only(decoder, payload) == {
        "device": "d-1", "t": 21.5, "serial": Decimal((1 << 64) - 1), "raw": [b"\x00"], "state": "ON", "at": sent,
        "tags": [("a", 1)],
    }  # fmt: skip
    assert only(decoder, b"") == {
        "device": "", "t": 0.0, "serial": Decimal(0), "raw": [], "state": "OFF", "at": None, "tags": []
    }  # fmt: skip
    with pytest.raises(Undecodable, match="Protobuf: "):
        decoder.decode(b"\xff\xff\xff")


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("no json", "Expecting value"),
        ('"string"', "is no record"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["int", "string"]}]}', "is no column"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "R"]}]}', "holds itself"),
        ('{"type": "record", "name": "R", "fields": []}', "no fields"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "txt"}]}', "no type txt"),
        ('{"type": "record", "name": "R", "fields": [{"type": "int"}]}', "'name'"),
    ],
)
def test_an_avro_schema_without_columns_is_refused(schema: str, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        AvroDecoder(schema)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ProtobufDecoder(descriptor_set(), "acme.Writing"), "has no message acme.Writing"),
        (lambda: ProtobufDecoder(b"\xff", "acme.Reading"), "is none, or lacks what it imports"),
        (lambda: JsonDecoder(pa.struct([pa.field("b", pa.binary())])), "the type binary is not for texts"),
        (lambda: CsvDecoder(NESTED, ","), "tags, path: a cell of CSV holds no array, map or struct"),
    ],
)
def test_a_schema_that_does_not_do_is_refused(make: Any, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        make()


DECODERS = [
    JsonDecoder(READING),
    JsonDecoder(NESTED),
    CsvDecoder(READING, ","),
    AvroDecoder(json.dumps(AVRO_READING)),
    ProtobufDecoder(descriptor_set(), "acme.Reading"),
]
EXAMPLES = [
    b'{"device": "d", "t": 1, "at": "2026-03-04T05:06:07Z", "tags": {"a": 1}, "path": [{"x": 1}]}',
    b"d,1,2,true,2026-03-04T05:06:07Z,2026-03-04",
    avro_payload(
        {
            "device": "d",
            "t": 1.0,
            "kind": "INDOOR",
            "at": datetime(2026, 3, 4, tzinfo=UTC),
            "price": Decimal("1.00"),
            "id": "8c7d6f4e-0000-4000-8000-000000000000",
            "more": {"a": [1]},
        }
    ),
    protobuf_payload(device="d", t=1.0, raw=[b"x"], tags={"a": 1}, at={"seconds": 1}),
]
cut_and_changed = st.builds(
    lambda example, at, drawn, keep: example[:at] + drawn + example[at + keep :],
    st.sampled_from(EXAMPLES),
    st.integers(0, 60),
    st.binary(max_size=12),
    st.integers(0, 12),
)


@given(payloads=st.lists(st.one_of(st.binary(max_size=60), cut_and_changed, st.none()), max_size=4))
def test_every_payload_has_a_record_or_a_reason(payloads: list[bytes | None]) -> None:
    """Goal: no payload is dropped, and none ends the job. Method: any bytes, and broken records, to each decoder."""
    for decoder in DECODERS:
        values, reasons = decoder.decode_all(payloads)
        assert len(values) == len(reasons) == len(payloads)
        assert values.is_null().to_pylist() == [reason is not None for reason in reasons]


texts = st.text(max_size=20).filter(lambda text: "\x00" not in text)
readings = st.fixed_dictionaries(
    {
        "device": st.none() | texts,
        "t": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "n": st.none() | st.integers(-(1 << 31), (1 << 31) - 1),
        "ok": st.none() | st.booleans(),
        "at": st.none() | st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),
        "day": st.none() | st.dates(),
    }
)


@given(readings)
def test_written_json_is_read_back(reading: dict[str, Any]) -> None:
    told = {name: value.isoformat() if isinstance(value, date) else value for name, value in reading.items()}
    assert only(JsonDecoder(READING), json.dumps(told).encode()) == reading
