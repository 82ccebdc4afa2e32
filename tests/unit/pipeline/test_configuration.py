"""Files of Spark jobs: what they may say, and how a mistake is told."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluicegate.pipeline.cli import USAGE, app
from sluicegate.pipeline.configuration import ArchiveJob, ConfigError, load

WHOLE = """
checkpoint = "/c"
[source]
url = "flow://gateway"
queue = "orders"
mode = "consume"
maxRowsPerTrigger = 1000
failOnDataLoss = false
[archive]
path = "/a"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "job.toml"


def test_options_of_the_source_are_given_as_toml_has_them(file: Path) -> None:
    file.write_text(WHOLE)
    job = load(file, ArchiveJob)
    assert job.source_options["maxRowsPerTrigger"] == "1000"
    assert job.source_options["failOnDataLoss"] == "false"
    assert (job.session.master, job.session.memory) == (None, "1g")


def test_the_command_line_goes_before_the_file(file: Path) -> None:
    file.write_text(WHOLE.replace('checkpoint = "/c"', ""))
    job = load(file, ArchiveJob, master="local[1]", checkpoint="/other")
    assert (job.checkpoint, job.session.master, job.session.memory) == ("/other", "local[1]", "1g")


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('path = "/a"', "", "archive.path: Field required"),
        ('checkpoint = "/c"', 'chekpoint = "/c"', "chekpoint: Extra inputs are not permitted"),
        ('mode = "consume"', 'mode = "take"', "source: mode is 'take'; allowed are tap, consume"),
        ('queue = "orders"', "", "source: the option queue is missing"),
        ('mode = "consume"', 'colour = "red"', "source: there is no option colour; there are"),
        ('mode = "consume"', 'columns = "payload,queue"', "source.columns lacks received"),
        ("[archive]", "[session]\nmemory = '1 GB'\n[archive]", "session.memory: String should match"),
        ("[source]", "[source", "(at line 3"),
        (
            "[source]",
            "admin_url = 'http://g:8080'\nadmin_username = 'a'\n[source]",
            "no admin_credential_ref says where",
        ),
        ("[source]", "admin_url = 'http://g:8080'\nadmin_user = 'a'\n[source]", "no admin_credential_ref says where"),
        ("[source]", "admin_credential_ref = 'env:A'\n[source]", "no admin_url says what it is for"),
        ("[source]", "admin_credential_ref = 'secret'\n[source]", "allowed are env:NAME and file:PATH"),
        ('path = "/a"', 'path = "a"\nformat = "delta"', "archive: path is 'a'; a Delta table is a folder"),
        ("[archive]", "[decode]\nformat = 'yaml'\n[archive]", "decode.format: Input should be"),
        (
            "[archive]",
            "[decode]\nformat = 'json'\ncolumns = 't int'\nundecodable = '/a/'\n[archive]",
            "decode.undecodable is '/a/', where the archive is",
        ),
        (
            "[archive]",
            "[decode]\nformat = 'json'\nundecodable = '/u'\n[archive]",
            "decode: the format json needs columns or schema_file, and one of them",
        ),
        (
            "[archive]",
            "[decode]\nformat = 'avro'\nschema_file = '/s'\n[archive]",
            "decode: the format avro needs undecodable",
        ),
        (
            "[archive]",
            "[decode]\nformat = 'avro'\nschema_file = '/s'\nundecodable = '/u'\ndelimiter = ';'\n[archive]",
            "decode: the format avro has no delimiter",
        ),
    ],
)
def test_a_configuration_error_names_file_and_key(file: Path, before: str, after: str, said: str) -> None:
    file.write_text(WHOLE.replace(before, after))
    with pytest.raises(ConfigError) as caught:
        load(file, ArchiveJob)
    assert f"{file}: " in str(caught.value)
    assert said in str(caught.value)


def test_every_error_is_reported_at_once(file: Path) -> None:
    file.write_text('[source]\nurl = "flow://gateway"\n')
    with pytest.raises(ConfigError) as caught:
        load(file, ArchiveJob)
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["arkive", "--config", "x"], "there is no job 'arkive'; there are aggregate, archive, audit, compact"),
        (["archive", "--config", "x", "--once", "--every", "5s"], "--once and --every exclude each other"),
        (
            ["audit", "--config", "x", "--once"],
            "audit works on what is there, and ends: --once",
        ),
        (["archive", "--config", "x", "--every", "5"], "allowed are a whole number and ms, s, m or h"),
        (["archive", "--config", "/nowhere/job.toml"], "/nowhere/job.toml: No such file or directory"),
    ],
)
def test_a_wrong_command_line_ends_before_spark_begins(arguments: list[str], said: str) -> None:
    result = CliRunner(env={"COLUMNS": "300", "NO_COLOR": "1"}).invoke(app, ["run", *arguments])
    assert result.exit_code == USAGE
    assert said in result.stderr
