"""What a job tells the gateway of its batches, over a real admin port with accounts."""

import logging
from pathlib import Path
from uuid import UUID

import orjson
import pytest
from pyspark.sql.streaming.listener import QueryProgressEvent, StreamingQueryProgress

from pyspark_sluicegate.reading.offsets import Offset
from sluicegate.gateway.config.sections.admin import Admin
from sluicegate.messaging.queues.definition import definition_from_dict
from sluicegate.pipeline.run.figures import BatchFigures
from support.operations.memory_node import MemoryNode, cursor_view_of
from support.operations.running_admin import running_admin

PASSWORD = "correct-horse"
ACCOUNTS = Admin.model_validate(
    {"users": [{"name": "jobs", "password": PASSWORD, "msg_vpn_access_level_exceptions": {"default": "read-write"}}]}
)


def batch_of(queue: str, cursor: str) -> QueryProgressEvent:
    """Return what Spark says of a batch that read there."""
    offset = Offset(queue=queue, cursor=cursor, mode="tap", incarnation=1, epoch=1, next={0: 5})
    sink = {"description": "", "numOutputRows": 4}
    source: dict[str, object] = {
        **{"description": "", "startOffset": None, "endOffset": orjson.dumps(offset.to_json()).decode()},
        **{"latestOffset": None, "numInputRows": 4, "inputRowsPerSecond": 1.0, "processedRowsPerSecond": 1.0},
        "metrics": {},
    }
    said: dict[str, object] = {
        **{"id": str(UUID(int=1)), "runId": str(UUID(int=2)), "name": "job", "timestamp": "", "batchId": 3},
        **{"batchDuration": 7, "durationMs": {"triggerExecution": 7}, "eventTime": {}, "stateOperators": []},
        **{"sources": [source], "sink": sink, "numInputRows": 4, "observedMetrics": {}},
        **{"inputRowsPerSecond": 1.0, "processedRowsPerSecond": 1.0},
    }
    return QueryProgressEvent(StreamingQueryProgress.fromJson(said))


@pytest.mark.parametrize(
    ("user", "secret", "vpn", "counted"),
    [
        ("jobs", PASSWORD, "", 1),
        ("jobs", PASSWORD, "default", 1),
        ("jobs", PASSWORD, "another", 0),
        ("jobs", "guess", "", 0),
        ("", "a.b.c", "", 0),
        ("", "a.b\nc", "", 0),
        ("", "a.b\u2019c", "", 0),
    ],
)
def test_a_job_tells_of_its_batches_as_its_account(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, user: str, secret: str, vpn: str, counted: int
) -> None:
    """In its message VPN. A batch of which the gateway does not hear is logged, and no reason for the job to end."""
    node = MemoryNode(cursors=[cursor_view_of("c")], definitions={"q": definition_from_dict({"name": "q"})})
    file = tmp_path / "secret"
    file.write_text(secret)
    with running_admin(node, admin=ACCOUNTS) as admin, caplog.at_level(logging.WARNING, "pipeline"):
        figures = BatchFigures("job", admin.url, vpn=vpn, username=user, credential_ref=f"file:{file}")
        figures.onQueryProgress(batch_of("q", "c"))
    assert len(node.batches) == counted
    assert ("was not told of batch" in caplog.text) == (not counted)
    assert secret not in caplog.text


def test_an_address_that_is_not_http_does_not_end_the_job(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "pipeline"):
        BatchFigures("job", "http://127.0.0.1:port").onQueryProgress(batch_of("q", "c"))
    assert "was not told of batch" in caplog.text
