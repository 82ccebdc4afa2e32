"""Files of the jobs that look at archives and windows: what they may say, and how a mistake is told."""

from pathlib import Path

import pytest

from sluicegate.pipeline.configuration import ConfigError, JobFile, load
from sluicegate.pipeline.jobs.aggregate.job import AggregateJob
from sluicegate.pipeline.jobs.audit.job import AuditJob
from sluicegate.pipeline.jobs.replay import ReplayJob
from sluicegate.pipeline.jobs.skew.job import SkewJob

AUDIT = """
[audit]
report = "/r.html"
identity = "message_id"
[audit.ingress]
path = "/in"
[audit.egress]
path = "/out"
where = "queue = 'done'"
"""
SKEW = """
[skew]
report = "/r.html"
consumers = 8
[skew.archive]
path = "/in"
"""
REPLAY = """
[replay]
id = "one"
[replay.archive]
path = "/in"
[replay.target]
url = "flow://gateway"
queue = "again"
"""
AGGREGATE = """
checkpoint = "/c"
[source]
url = "flow://gateway"
queue = "readings"
[aggregate]
path = "/hourly"
[aggregate.windows]
event_time = "timestamp"
watermark = "10 minutes"
window = "1 hour"
by = { device = "partition_key" }
measures = { readings = "count(*)" }
[aggregate.target]
url = "flow://gateway"
topic = "agg"
"""
WHOLE: dict[type[JobFile], str] = {AuditJob: AUDIT, SkewJob: SKEW, ReplayJob: REPLAY, AggregateJob: AGGREGATE}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "job.toml"


@pytest.mark.parametrize("kind", WHOLE)
def test_a_whole_file_is_taken(file: Path, kind: type[JobFile]) -> None:
    file.write_text(WHOLE[kind])
    load(file, kind)


@pytest.mark.parametrize(
    ("kind", "before", "after", "said"),
    [
        (AuditJob, 'identity = "message_id"', "", "audit.identity: Field required"),
        (AuditJob, 'path = "/out"', "", "audit.egress.path: Field required"),
        (AuditJob, "[audit]", "[audit]\nsamples = 1001", "audit.samples: Input should be less than or equal to 1000"),
        (SkewJob, "consumers = 8", "consumers = 65", "skew.consumers: Input should be less than or equal to 64"),
        (SkewJob, "[skew]", "[skew]\nalert_above = 0.5", "skew.alert_above: Input should be greater than or equal"),
        (ReplayJob, 'id = "one"', 'id = "a b"', "replay.id: String should match pattern"),
        (ReplayJob, 'queue = "again"', 'txn = "mine"', "replay.target: txn is made by the job, and is not to be given"),
        (ReplayJob, 'queue = "again"', 'topic = "t"\nqueue = "q"', "topic and queue exclude each other"),
        (AggregateJob, 'topic = "agg"', "", "aggregate.target: where to? Give queue or topic"),
        (AggregateJob, 'window = "1 hour"', "", "window or session_gap has to be given, and one of them"),
        (AggregateJob, 'window = "1 hour"', 'session_gap = "1 hour"\nslide = "1 minute"', "slide is for window"),
        (AggregateJob, "readings =", "device =", "each of by and measures needs a name of its own"),
        (AggregateJob, "readings =", "batch =", "other than window_start, window_end, event_time, dt, batch"),
        (AggregateJob, 'path = "/hourly"', 'report = "/r.html"', "report shows what is at path, which is missing"),
    ],
)
def test_a_configuration_error_names_file_and_key(
    file: Path, kind: type[JobFile], before: str, after: str, said: str
) -> None:
    file.write_text(WHOLE[kind].replace(before, after))
    with pytest.raises(ConfigError) as caught:
        load(file, kind)
    assert f"{file}: " in str(caught.value)
    assert said in str(caught.value)
