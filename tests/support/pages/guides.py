"""What of a page a test cannot do, and what it checks of it instead."""

import ast
import json
import re
import shlex
import tomllib
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

import typer.main
from argon2 import PasswordHasher
from google.protobuf import descriptor_pb2

from sluicegate.gateway.cli import app
from sluicegate.gateway.config.load import load
from sluicegate.pipeline.cli import JOBS
from sluicegate.pipeline.run.attempt import Trigger
from sluicegate.pipeline.run.job import Invocation
from support.network.certificates import make_certificates
from support.pages.listings import Read

# Commands that no test types, by how they begin. Those of `sluicegate` are parsed.
NOT_TYPED: Final = {
    "pip install": "it takes a release; tests/deployment/test_distributions.py installs one",
    "systemctl": "it takes systemd as process 1; tests/deployment/test_systemd_unit.py checks the unit",
    "rabbitmqctl": "it takes a RabbitMQ; tests/foreign_brokers/test_move_from_rabbitmq.py has one",
    "sluicegate cluster": "it takes the NATS servers of several machines; tests/replication and tests/rounds have them",
    "sluicegate pipeline": "it takes Spark and a queue of its own; tests/spark runs every job",
    "sluicegate replication": "it takes NATS servers at two sites; tests/replication has them",
}
SHELL: Final = frozenset({"&", "|", ">", ";", "<"})  # behind the words of a command
CONFIRMED: Final = tuple(  # at a terminal
    f"sluicegate {each}" for each in ("vpn delete", "queue purge", "queue delete ", "queue delete-messages ")
)
FILES: Final = re.compile(r"/(?:etc|run)/[\w./-]+")
ARCHIVE: Final = """\
checkpoint = "/var/lib/sluicegate-jobs/orders"
source = {url = "flow://gateway", queue = "orders", cursor = "archive"}
archive = {path = "/srv/archive"}
"""
CUT_HASH: Final = "$argon2id$v=19$..."  # pages show how a hash begins
HASH: Final = PasswordHasher().hash("secret-of-a-page")


class UnknownCommand(Exception):
    """A page has a command that there is not."""


def typed(commands: str) -> str:
    """Return the commands that can be typed, and parse those of the others that are ours."""
    lines = []
    for line in joined(commands):
        if line.startswith(tuple(NOT_TYPED)):
            parse(line)
        else:
            lines.append(re.sub(r"( +# .*)?$", " --yes", line, count=1) if line.startswith(CONFIRMED) else line)
    return "".join(f"{line}\n" for line in lines)


def joined(commands: str) -> list[str]:
    """Return lines of commands, those that are continued in one piece."""
    return re.sub(r"\\\n\s*", " ", commands).splitlines()


def parse(line: str) -> None:
    """Parse a command of `sluicegate` without running it. Raises UnknownCommand, or Click's errors for arguments."""
    pieces = shlex.shlex(line, posix=True, punctuation_chars=True)
    pieces.whitespace_split = True
    words = list(takewhile(lambda word: word not in SHELL, pieces))
    if words[:1] != ["sluicegate"]:
        return
    command: Any = typer.main.get_command(app)
    context = command.make_context(words[0], words[1:])
    words = [*context._protected_args, *context.args] if hasattr(context, "_protected_args") else context.args
    while hasattr(command, "get_command"):
        name, *words = words
        found = command.get_command(context, name)
        if found is None:
            raise UnknownCommand(f"{name} in {line}")
        command = found
    command.make_context(name, words)


def check(read: Read, folder: Path) -> None:
    """Check what a reader only looks at. Raises what the loader of its language raises."""
    match read.language:
        case "python":
            program = (
                f"async def page():\n{_indented(read.text)}"
                if re.search(r"^(async|.*\bawait )", read.text)
                else read.text
            )
            ast.parse(program)
        case "json":
            for line in read.text.splitlines():
                json.loads(line)
        case "toml":
            check_job(read.text, folder)
        case _:
            check_configuration(read.text, folder)


def check_job(text: str, folder: Path) -> None:
    """Load the file of a Spark job, or a table that files of several jobs may have."""
    tables = tomllib.loads(text)
    job = next((each for each in JOBS if each in tables), None)
    folder.mkdir(exist_ok=True)
    file = folder / "job.toml"
    file.write_text(text if job else f"{ARCHIVE}{text}")
    asked = Invocation(file=file, master=None, checkpoint=None, trigger=Trigger(every_ms=None))
    JOBS[job or "archive"].read(asked)


def check_configuration(text: str, folder: Path) -> None:
    """Load a part of a configuration, with files in the places of those that it names."""
    folder.mkdir(exist_ok=True)
    certificates = make_certificates(folder)
    contents = {"server.pem": certificates.server.read_text(), "server.key": certificates.server_key.read_text()}
    for named in FILES.findall(text):
        place = folder / named.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if f"folder: {named}\n" in text:
            write_schemas(place, re.findall(r"schema_file: (\S+)", text), re.findall(r"message_type: (\S+)", text))
        else:
            other = certificates.authority.read_text() if place.suffix == ".pem" else "secret-of-a-page\n"
            place.write_text(contents.get(place.name, other))
    file = folder / "page.yaml"
    file.write_text(FILES.sub(lambda named: f"{folder}{named[0]}", text.replace(CUT_HASH, HASH)))
    needs_a_name = re.search(r"^(links|bridges):", text, re.MULTILINE) and not re.search(
        r"^(node|cluster):", text, re.M
    )
    load(file, settings=["node.name=page"] if needs_a_name else [])


def write_schemas(folder: Path, names: list[str], types: list[str]) -> None:
    """Write schemas of payloads: JSON Schema, and one of Protobuf that has the types."""
    folder.mkdir()
    described = descriptor_pb2.FileDescriptorSet()
    for each in types:
        package, _, name = each.rpartition(".")
        described.file.add(name="page.proto", package=package).message_type.add(name=name)
    for each in names:
        content = described.SerializeToString() if each.endswith(".desc") else b'{"type": "object"}'
        (folder / each).write_bytes(content)


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())
