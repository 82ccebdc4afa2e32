"""Options: every mistake is named, with what is allowed; secrets stay out of them."""

from pathlib import Path

import pytest
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from pyspark_sluicegate.options import OptionError, SinkOptions, SourceOptions
from pyspark_sluicegate.source import SluicegateSource

GIVEN = {"url": "flow://gateway", "queue": "orders"}


def test_names_have_no_case_as_sparks_have_none() -> None:
    options = SourceOptions.of({"URL": "flow://gateway", "Queue": "orders", "MAXROWSPERTRIGGER": "500"})
    assert (options.queue, options.rows_max, options.mode, options.cursor) == ("orders", 500, "tap", "spark")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"url": "flow://gateway"}, "queue is missing"),
        ({"queue": "orders"}, "url is missing"),
        ({**GIVEN, "url": "http://gateway"}, "url: 'http://gateway' is no URL of a gateway: flow://HOST"),
        ({**GIVEN, "quue": "x"}, "no option quue; there are .*queue"),
        ({**GIVEN, "mode": "shared"}, "mode is 'shared'; allowed are tap, consume"),
        ({**GIVEN, "tasks": "-1"}, "tasks is '-1'; allowed are whole numbers from 0"),
        ({**GIVEN, "chunkBytes": "9000000"}, "to 8388608"),
        ({**GIVEN, "failOnDataLoss": "maybe"}, "allowed are true, false"),
        ({**GIVEN, "maxRowsPerTrigger": "1", "maxBytesPerTrigger": "1"}, "exclude each other"),
        ({**GIVEN, "user": "etl"}, "no credentialRef"),
        ({**GIVEN, "user": "etl", "credentialRef": "hunter2"}, "env:NAME and file:PATH"),
    ],
)
def test_invalid_options_are_named(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        SourceOptions.of(given)


def test_a_schema_of_the_user_s_own_is_refused_where_its_columns_are_others() -> None:
    """Tasks would fail with it, in words about arrays."""
    schema = StructType([StructField("partition", IntegerType()), StructField("payload", BinaryType())])
    chosen = SluicegateSource({**GIVEN, "columns": "partition, payload"})
    other = SluicegateSource({**GIVEN, "columns": "payload,partition"})
    assert chosen.reader(schema) is not None
    assert chosen.streamReader(schema) is not None
    for make in (other.reader, other.streamReader):
        with pytest.raises(OptionError, match="names partition,payload, and the columns are payload,partition"):
            make(schema)


def test_secrets_are_looked_up_where_they_are_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("t0ken\n")
    by_file = SourceOptions.of({**GIVEN, "credentialRef": f"file:{file}"}).connect
    assert by_file.client_options().token == "t0ken"
    by_env = SourceOptions.of({**GIVEN, "username": "etl", "credentialRef": "env:ETL_PASSWORD"}).connect
    with pytest.raises(OptionError, match="env:ETL_PASSWORD"):
        by_env.client_options()
    monkeypatch.setenv("ETL_PASSWORD", "pass-word")
    assert by_env.client_options().password == "pass-word"
    assert "pass-word" not in repr(by_env)


def test_the_former_name_of_the_username_is_taken() -> None:
    former = {**GIVEN, "user": "etl", "credentialRef": "env:HOME"}
    assert SourceOptions.of(former).connect.client_options().login_name() == "etl"
    with pytest.raises(OptionError, match="give username only"):
        SourceOptions.of({**former, "username": "etl"})


def test_a_sink_goes_to_one_place_or_to_the_one_that_each_row_names() -> None:
    url = {"url": "flow://gateway"}
    assert SinkOptions.of({**url, "queue": "out"}, ["payload"]).is_to_queue
    assert not SinkOptions.of({**url, "topic": "a/b"}, ["payload"]).is_to_queue
    assert not SinkOptions.of(url, ["topic", "payload"]).is_to_queue
    assert SinkOptions.of(url, ["queue", "payload"]).is_to_queue
    with pytest.raises(OptionError, match="exclude each other"):
        SinkOptions.of({**url, "queue": "out", "topic": "a/b"}, ["payload"])
