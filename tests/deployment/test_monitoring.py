"""The dashboard and the alert rules use metrics and labels that a running gateway exposes."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import promql_parser
import pytest

from sluicegate.gateway.observability.metrics.table import METRIC_BY_NAME
from sluicegate.gateway.security.credentials import SOON_S, SOON_SHARE
from sluicegate.messaging.message.outcomes import DISCARD_REJECTED, TO_DMQ_FAILED
from sluicegate.protocols.security.backends.guarded_backend import ALLOWED, DENIED, FAILED, NOT_ASKED, REMEMBERED
from support.http.plain import HTTP, plain_client
from support.operations.manifests import K8S, files
from support.processes.gateway import GatewayProcess

NAME: Final = re.compile(r"\b((?:sluicegate|process)_[a-z_]+)\s*(?:\{([^}]*)\})?")
INCREASE: Final = re.compile(r"increase\((\w+)(?:\{([^}]*)\})?\[")
LABEL: Final = re.compile(r"([a-z_]+)\s*[=!]~?")
BY: Final = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")
OF_SCRAPES: Final = {"instance", "job", "namespace", "pod"}  # labels that Prometheus adds
# They come into being with what they count: a denial, a dead message, a commit that fails.
COUNTED_LATER: Final = {name for name, metric in METRIC_BY_NAME.items() if metric.type == "counter" and metric.labels}
# These with what they are about: a broker among several, a cursor, a delivery point, a rule, a certificate.
THERE_LATER: Final = {
    "sluicegate_backup_last_done_timestamp_seconds",
    "sluicegate_bridge_up",
    "sluicegate_broker_up",
    "sluicegate_certificate_not_before_timestamp_seconds",
    "sluicegate_certificate_not_after_timestamp_seconds",
    "sluicegate_cursor_exceeded",
    "sluicegate_cursor_lag_messages",
    "sluicegate_operator_token_keys_age_seconds",
    "sluicegate_payload_rules_stale",
    "sluicegate_replica_append_seconds_total",
    "sluicegate_replica_append_waits_seconds",
    "sluicegate_replica_appends_total",
    "sluicegate_replica_caught_up",
    "sluicegate_replica_lag_bytes",
    "sluicegate_replica_log_bytes",
    "sluicegate_replica_log_bytes_max",
    "sluicegate_replica_owner",
    "sluicegate_replica_snapshot_behind_bytes",
    "sluicegate_replicas",
    "sluicegate_replicas_present",
    "sluicegate_replication_lag_seconds",
    "sluicegate_rest_consumer_up",
    "sluicegate_rest_delivery_point_up",
    "sluicegate_token_keys_age_seconds",
}


def dashboard() -> dict[str, Any]:
    found = json.loads((K8S / "monitoring" / "dashboard.json").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def expressions() -> list[str]:
    rules = files("monitoring/prometheusrule.yaml")[0]["spec"]["groups"][0]["rules"]
    panels = [target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", [])]
    queries = [each["query"]["query"] for each in dashboard()["templating"]["list"] if each["type"] == "query"]
    keda = files("examples/keda-scaledobject.yaml")[0]["spec"]["triggers"][0]["metadata"]["query"]
    return [*[rule["expr"] for rule in rules], *panels, *queries, keda]


@pytest.fixture(scope="module")
def exposition(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What a gateway shows on the port for probes."""
    folder = tmp_path_factory.mktemp("gateway")
    settings: dict[str, object] = {
        "health.enabled": True,
        "tracing.enabled": True,
        "queues.declared": "[{name: orders, partition_count: 2, access_type: non-exclusive}]",
    }
    gateway = GatewayProcess(folder, settings)
    with gateway:
        yield HTTP.get(f"{gateway.health_url}/metrics", timeout=30).text


def test_every_metric_that_is_asked_for_is_shown(exposition: str) -> None:
    shown = set(re.findall(r"^([a-z_]+)(?:\{| )", exposition, re.MULTILINE))
    asked = {name for text in expressions() for name, _ in NAME.findall(text)}
    assert len(asked) > 20
    assert asked - shown <= COUNTED_LATER | THERE_LATER
    assert METRIC_BY_NAME.keys() >= THERE_LATER


def test_every_expression_is_one_of_prometheus() -> None:
    """Its language as Prometheus' own parser reads it; Grafana puts a duration in the place of its variable."""
    for text in expressions():
        if not text.startswith("label_values("):  # Grafana's own
            promql_parser.parse(text.replace("$__rate_interval", "5m"))


def test_the_first_of_what_is_alerted_of_counts(exposition: str) -> None:
    """Prometheus sees nothing increase before it has seen a series: it is there with zero, or its beginning is told."""
    for rule in files("monitoring/prometheusrule.yaml")[0]["spec"]["groups"][0]["rules"]:
        for name, selector in INCREASE.findall(rule["expr"]):
            is_told = f"({name} unless {name} offset " in re.sub(r"\{[^}]*\}", "", rule["expr"])
            zeros = [line for line in exposition.splitlines() if line.startswith(f"{name}{{") and line.endswith(" 0.0")]
            assert is_told or any(selector in line for line in zeros), rule["alert"]


def test_every_label_that_is_asked_for_is_the_metrics_own() -> None:
    for text in expressions():
        known = set(OF_SCRAPES)
        for name, selector in NAME.findall(text):
            metric = METRIC_BY_NAME.get(name) or METRIC_BY_NAME.get(name.removesuffix("_bucket"))
            labels = {*metric.labels, "le"} if metric is not None else set()
            assert set(LABEL.findall(selector)) <= labels | OF_SCRAPES, (name, text)
            known |= labels
        for group in BY.findall(text):
            assert {each.strip() for each in group.split(",")} <= known, text


def test_expiring_certificates_are_alerted_when_the_log_warns_of_them() -> None:
    """Else an alert for a certificate that lives for a week never ends."""
    rules = files("monitoring/prometheusrule.yaml")[0]["spec"]["groups"][0]["rules"]
    (text,) = [rule["expr"] for rule in rules if rule["alert"] == "SluicegateCertificateExpiring"]
    numbers = re.search(r"clamp_max\(([0-9.]+) \*.*, ([0-9]+) \* 24 \* 3600\)", text)
    assert numbers is not None
    assert (float(numbers[1]), int(numbers[2]) * 86_400) == (SOON_SHARE, SOON_S)


def test_a_gateway_that_shows_nothing_any_more_is_alerted_of() -> None:
    """What compares its metrics with something compares nothing then."""
    rules = files("monitoring/prometheusrule.yaml")[0]["spec"]["groups"][0]["rules"]
    (rule,) = [each for each in rules if "absent(sluicegate_ready)" in each["expr"]]
    assert (rule["labels"]["severity"], "up{" in rule["expr"]) == ("critical", True)


def test_messages_refused_by_a_dead_message_queue_are_alerted() -> None:
    """docs/concepts/redelivery.md, dead messages: it is dropped. Without such a queue, or not eligible, rightly so."""
    rules = files("monitoring/prometheusrule.yaml")[0]["spec"]["groups"][0]["rules"]
    (text,) = [rule["expr"] for rule in rules if rule["alert"] == "SluicegateDeadMessagesLost"]
    patterns = set(re.findall(r'sluicegate_queue_messages_discarded_total\{reason=~"([^"]+)"\}', text))
    for pattern in patterns:
        assert re.fullmatch(pattern, DISCARD_REJECTED + TO_DMQ_FAILED)
        assert not re.fullmatch(pattern, DISCARD_REJECTED)
    assert len(patterns) == 1


def test_a_server_that_decides_about_logins_and_does_not_answer_is_alerted() -> None:
    """Also while it is no longer asked because it has failed. A wrong password is no failure of it."""
    (text,) = [text for text in expressions() if "sluicegate_external_logins_total" in text]
    (pattern,) = re.findall(r'outcome=~"([^"]+)"', text)
    outcomes = (ALLOWED, DENIED, REMEMBERED, FAILED, NOT_ASKED)
    assert [each for each in outcomes if re.fullmatch(pattern, each)] == [FAILED, NOT_ASKED]


def test_payload_rules_with_an_earlier_schema_are_alerted() -> None:
    assert "sluicegate_payload_rules_stale > 0" in expressions()


def test_a_filling_spool_is_alerted_before_publishers_are_refused() -> None:
    """A quota of three quarters of the map, as the defaults are, is full while the map is not yet four fifths."""
    rules = files("monitoring/prometheusrule.yaml")[0]["spec"]["groups"][0]["rules"]
    (text,) = [rule["expr"] for rule in rules if rule["alert"] == "SluicegateSpoolNearlyFull"]
    parts = {tuple(part.split(" / ")) for part in text.removesuffix(" > 0.8").split(" > 0.8 or ")}
    assert parts == {
        ("sluicegate_spool_used_bytes", "sluicegate_spool_limit_bytes"),
        ("sluicegate_spool_messages_bytes", "sluicegate_spool_messages_limit_bytes"),
    }


def test_a_queue_whose_consumers_reject_does_not_stand() -> None:
    """A rejected message is not settled: it is dead or, where the queue has no dead message queue, discarded."""
    rules = files("monitoring/prometheusrule.yaml")[0]["spec"]["groups"][0]["rules"]
    (text,) = [rule["expr"] for rule in rules if rule["alert"] == "SluicegateQueueStalled"]
    waiting, *moving = text.split(" unless on (queue, vpn, instance) ")
    assert "sluicegate_queue_messages_unacked" in waiting
    assert [NAME.findall(each)[0] for each in moving] == [
        ("sluicegate_queue_messages_settled_total", ""),
        ("sluicegate_queue_messages_to_dmq_total", 'reason="rejected"'),
        ("sluicegate_queue_messages_discarded_total", 'reason=~"rejected.*"'),
    ]


def test_a_disk_is_alerted_of_where_it_ends_before_the_map_does() -> None:
    """A small map on a small disk may be all that there is: less than 1 GiB alone says nothing."""
    rules = files("monitoring/prometheusrule.yaml")[0]["spec"]["groups"][0]["rules"]
    (text,) = [rule["expr"] for rule in rules if rule["alert"] == "SluicegateDiskNearlyFull"]
    room, growth = text.split(" < ")
    assert room == "sluicegate_spool_disk_room_bytes"
    assert growth == "clamp_max(sluicegate_spool_limit_bytes - sluicegate_spool_used_bytes, 1024 * 1024 * 1024)"


def test_every_alert_says_what_happened_and_how_bad_it_is() -> None:
    for rule in files("monitoring/prometheusrule.yaml")[0]["spec"]["groups"][0]["rules"]:
        assert rule["alert"].startswith("Sluicegate")
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}


def test_panels_of_the_dashboard_lie_side_by_side() -> None:
    """No two have one place, and each has a number of its own."""
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_the_port_for_probes_has_nothing_else(exposition: str, tmp_path: Path) -> None:
    """docs/operate/settings.md, health."""
    assert exposition
    gateway = GatewayProcess(tmp_path, {"health.enabled": True})
    with gateway, plain_client(gateway.health_url, timeout=30) as client:
        assert client.get("/health/live").status_code == 200
        assert client.get("/health/ready").status_code == 200
        for path in ("/", "/queues", "/actors", "/events", "/docs", "/openapi.json"):
            assert client.get(path).status_code == 404
        assert client.post("/queues", json={"name": "q"}).status_code == 404
        assert client.post("/health/live").status_code == 405
