"""Rules for payloads: which schema the messages of a topic have to fit. The files are in one folder for the node."""

from pathlib import Path, PurePosixPath
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from sluicegate.gateway.config.sections.section import NamedSection, Section
from sluicegate.gateway.config.sections.security.authentication import unique_names
from sluicegate.gateway.config.sections.values import KIB, MIB, Size
from sluicegate.messaging.topics.syntax import Syntax, TopicFilter, parse_filter

RULES_MAX: Final = 1000  # of one message VPN; all are checked when a new topic is used
TOPICS_MAX: Final = 100  # of one rule


class Schemas(Section):
    """Where schemas of payloads are, and how large a payload may be that is checked."""

    folder: Path | None = Field(
        default=None, description="folder with the schema files that `payload_rules` name; read again when one changes"
    )
    payload_bytes_max: Size = Field(
        default=64 * KIB,
        ge=1,
        le=64 * MIB,
        description="largest payload that fits any rule: checking a larger one would hold up other clients",
    )


class PayloadRule(NamedSection):
    """Topics, the schema that payloads published to them have to fit, and what becomes of others."""

    name: str = Field(min_length=1, max_length=64, pattern="^[A-Za-z0-9._-]+$")
    topics: Annotated[tuple[str, ...], Field(min_length=1, max_length=TOPICS_MAX)]
    syntax: Literal["smf", "mqtt"] = Field(default="smf", description="syntax of the wildcards in `topics`")
    schema_file: str = Field(
        min_length=1,
        max_length=255,
        description="file in `schemas.folder`: .json is JSON Schema, .avsc Avro, .desc, .binpb and .pb Protobuf",
    )
    message_type: str = Field(
        default="", max_length=255, description="Protobuf: full name of the message; Avro: of a type in the file"
    )
    allow_unknown_fields: bool = Field(
        default=False, description="Protobuf: fields that the message type does not have are no reason to refuse"
    )
    action: Literal["refuse", "mark", "count"] = Field(
        default="refuse", description="what becomes of a message that does not fit: see the page on payload rules"
    )

    @model_validator(mode="after")
    def _check_rule(self) -> Self:
        self.filters()
        parts = PurePosixPath(self.schema_file).parts
        if self.schema_file.startswith("/") or ".." in parts:
            raise ValueError("schema_file is a name, or a path below schemas.folder")
        return self

    def filters(self) -> list[TopicFilter]:
        """Return the topics. Raises TopicError."""
        return [parse_filter(topic, Syntax(self.syntax)) for topic in self.topics]


def unique_rules(rules: tuple[PayloadRule, ...]) -> tuple[PayloadRule, ...]:
    """Return the rules. Raises ValueError if two have one name."""
    unique_names("payload_rules", [rule.name for rule in rules])
    return rules
