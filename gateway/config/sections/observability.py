"""The sections of message traces for OpenTelemetry, events, metrics and logs."""

import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from sluicegate.gateway.config.sections.section import Section
from sluicegate.messaging.topics.syntax import Syntax, parse_filter
from sluicegate.storage.environment.file_kinds import is_folder

_URL = re.compile(r"^https?://[^\s/?#@]+(/[^\s?#]*)?$")


def _filter(text: str) -> str:
    parse_filter(text, Syntax.SMF)
    return text


def _url(text: str) -> str:
    if _URL.match(text) is None:
        raise ValueError(f"{text!r} is not allowed; allowed: http://HOST:PORT/PATH or https://..., without a user")
    return text


# What matches topics, or names of queues, in SMF syntax.
SmfFilter = Annotated[str, AfterValidator(_filter)]


class Tracing(Section):
    """Traces of messages. The names of samplers are OpenTelemetry's."""

    enabled: bool = Field(default=False, description="record spans of traced messages")
    endpoint: Annotated[str, AfterValidator(_url)] = Field(
        default="http://127.0.0.1:4318/v1/traces", description="URL of the collector: OTLP over HTTP"
    )
    service_name: str = Field(
        default="sluicegate", min_length=1, max_length=255, description="name of the gateway in traces"
    )
    sampler: Literal["parentbased_traceidratio", "traceidratio"] = Field(
        default="parentbased_traceidratio",
        description="parentbased: the program that started the trace decides; otherwise the ratio decides for all",
    )
    sampling_ratio: float = Field(
        default=1.0, ge=0.0, le=1.0, description="share of the traces that is sampled, by trace id"
    )
    begin_traces: bool = Field(
        default=False,
        description="start a trace for sampling_ratio of the messages without context; these get a traceparent",
    )
    topics: tuple[SmfFilter, ...] = Field(default=(), description="topics whose messages are traced; empty: all")
    queues: tuple[SmfFilter, ...] = Field(default=(), description="queues whose deliveries are traced; empty: all")
    buffer_records_max: int = Field(
        default=20_000, ge=100, le=1_000_000, description="records that may wait to be sent; further ones are dropped"
    )
    export_interval_ms: int = Field(default=1000, ge=50, le=60_000, description="milliseconds between two exports")
    export_timeout_s: int = Field(default=10, ge=1, le=60, description="seconds for a request to the endpoint")

    @model_validator(mode="after")
    def _check_relation(self) -> Self:
        if self.begin_traces and self.sampling_ratio == 0.0:
            raise ValueError("begin_traces with a sampling_ratio of 0 begins none")
        return self


class Events(Section):
    """Which events go on the message bus, and under which topics. All of them are logged and counted."""

    publish_system: bool = Field(default=True, description="publish events of the node on the message bus")
    publish_vpn: bool = Field(default=True, description="publish events of queues and quotas on the message bus")
    publish_client: bool = Field(
        default=False, description="publish events of clients on the message bus: connect, bind, disconnect, unbind"
    )
    smf_topics: bool = Field(default=True, description="publish under #LOG/..., which queues can collect")
    mqtt_topics: bool = Field(
        default=True, description="publish under $SYS/LOG/..., which MQTT clients can subscribe to"
    )


class Metrics(Section):
    """What is exposed at /metrics."""

    queue_label_max: int = Field(
        default=1000, ge=0, le=100_000, description="queues with series of their own; the others are summed as `other`"
    )


class Log(Section):
    """What is written to standard error, and what to the audit log."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"
    audit_file: Path | None = Field(default=None, description="file for the audit log, one JSON object per line")

    @field_validator("audit_file")
    @classmethod
    def _check_folder(cls, file: Path | None) -> Path | None:
        if file is None:
            return None
        try:
            has_parent, is_taken = is_folder(file.parent), is_folder(file)
        except OSError as problem:  # no permission for a folder above it
            raise ValueError(f"{str(file)!r}: {problem.strerror}") from None
        if not has_parent:
            raise ValueError(f"there is no folder {str(file.parent)!r}")
        if is_taken:
            raise ValueError(f"{str(file)!r} is a folder; allowed: a file, which is made if there is none")
        return file
