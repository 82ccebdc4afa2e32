"""Make a function that checks payloads of a schema file: JSON Schema, Avro or Protobuf, by the ending of its name.

The libraries are those of the extra `schemas`, and are imported when the first rule needs them.
"""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sluicegate.protocols.schemas.errors import SchemaUnusable
from sluicegate.protocols.schemas.references import FolderReferences

FILE_BYTES_MAX: Final = 4 << 20  # of one schema file

JSON: Final = ".json"
AVRO: Final = ".avsc"
PROTOBUF: Final = (".binpb", ".desc", ".pb")  # a FileDescriptorSet, as `protoc` and `buf` write it
ENDINGS: Final = (JSON, AVRO, *PROTOBUF)

_LIBRARIES: Final = {JSON: "jsonschema_rs", AVRO: "fastavro"} | dict.fromkeys(PROTOBUF, "google.protobuf")

ProblemOf = Callable[[bytes], str]  # why a payload does not fit; empty if it does


def problem_finder(
    folder: Path,
    name: str,
    *,
    references: FolderReferences,
    message_type: str,
    allow_unknown_fields: bool,
    payload_bytes_max: int,
) -> ProblemOf:
    """Return a function that says why a payload does not fit the schema in a file of a folder.

    `message_type` names the type in a file that has several: always for Protobuf, perhaps for Avro, never for JSON. A
    payload of more than `payload_bytes_max` bytes does not fit: it would hold up other clients. `references` are those
    of the folder. Raises SchemaUnusable.
    """
    file = folder / name
    needs = _LIBRARIES.get(file.suffix)
    if needs is None:
        raise SchemaUnusable(f"{name!r} has none of the endings {', '.join(ENDINGS)}")
    if not _is_installed(needs):
        raise SchemaUnusable(f"{name!r} needs {needs}; install it with: pip install 'sluicegate[schemas]'")
    content = read_schema(file)
    check: ProblemOf
    if file.suffix == JSON:
        from sluicegate.protocols.schemas.json_schema import json_problem_finder

        if message_type:
            raise SchemaUnusable(f"{name!r}: a JSON Schema has no message_type")
        check = json_problem_finder(content, references, name)
    elif file.suffix == AVRO:
        from sluicegate.protocols.schemas.avro import avro_problem_finder

        check = avro_problem_finder(content, message_type)
    else:
        from sluicegate.protocols.schemas.protobuf import protobuf_problem_finder

        check = protobuf_problem_finder(content, message_type, allow_unknown_fields=allow_unknown_fields)

    def problem_of(payload: bytes) -> str:
        if len(payload) > payload_bytes_max:
            return f"{len(payload)} bytes are more than schemas.payload_bytes_max, {payload_bytes_max}"
        return check(payload)

    return problem_of


def read_schema(file: Path) -> bytes:
    """Return the content of a schema file. Raises SchemaUnusable."""
    try:
        with file.open("rb") as stream:
            content = stream.read(FILE_BYTES_MAX + 1)
    except OSError as problem:
        raise SchemaUnusable(f"{str(file)!r}: {problem.strerror}") from None
    if len(content) > FILE_BYTES_MAX:
        raise SchemaUnusable(f"{str(file)!r} is larger than {FILE_BYTES_MAX} bytes")
    return content


def _is_installed(library: str) -> bool:
    try:
        return importlib.util.find_spec(library) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False
