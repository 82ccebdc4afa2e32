"""compose.yaml: what it starts fits together, and fits the gateway and the image. No container engine is needed."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from sluicegate.gateway.config.load import load
from sluicegate.gateway.config.model import Config
from support.processes.gateway import GatewayProcess

COMPOSE: Final = Path(__file__).resolve().parents[2] / "deploy" / "compose"
CONTAINERFILE: Final = COMPOSE.parent / "k8s" / "image" / "Containerfile"
RULES: Final = COMPOSE.parent / "k8s" / "monitoring" / "prometheusrule.yaml"
FILE: Final[dict[str, Any]] = yaml.safe_load((COMPOSE / "compose.yaml").read_text())
SERVICES: Final[dict[str, Any]] = FILE["services"]
GRAFANA_PORT: Final = "3000"


def environment(service: str) -> dict[str, str]:
    """Return the variables of a service, where the machine's environment has none."""
    return {
        name: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value) for name, value in SERVICES[service]["environment"].items()
    }


def config() -> Config:
    """Return the broker's configuration, checked as the gateway checks it."""
    return load(COMPOSE / "gateway.yaml", environment=environment("sluicegate"), settings=[])


def mounts(service: str) -> dict[str, str]:
    """Return what a service has mounted, by its place in the container."""
    parts = [each.split(":") for each in SERVICES[service]["volumes"]]
    return {place: source for source, place, *_ in parts}


def listening() -> dict[str, str]:
    """Return the ports on which clients and operators reach each service within its container."""
    wanted = config()
    opened = [*(each.port for each in wanted.listeners.enabled().values()), wanted.admin.port]
    return {"sluicegate": " ".join(map(str, opened)), "prometheus": "9090", "grafana": GRAFANA_PORT}


def test_it_follows_the_schema_of_compose() -> None:
    command = ["check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(COMPOSE / "compose.yaml")]
    checked = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_every_file_that_is_mounted_or_built_from_exists() -> None:
    sources = [source for service in SERVICES for source in mounts(service).values()]
    assert {each for each in sources if "/" not in each} == set(FILE["volumes"])
    assert [each for each in sources if "/" in each and not (COMPOSE / each).is_file()] == []
    build = SERVICES["sluicegate"]["build"]
    assert (COMPOSE / build["context"] / build["dockerfile"]).resolve() == CONTAINERFILE


def test_the_ports_are_those_that_somebody_listens_on_and_open_to_this_machine_only() -> None:
    for service, ports in listening().items():
        published = [each.split(":") for each in SERVICES[service]["ports"]]
        assert {address for address, _, _ in published} == {"127.0.0.1"}
        assert all(outside == inside for _, outside, inside in published)
        assert {inside for _, _, inside in published} == set(ports.split())


def test_whatever_is_published_is_reached_from_outside_the_container() -> None:
    wanted = config()
    assert {*(each.host for each in wanted.listeners.enabled().values()), wanted.admin.host} == {"0.0.0.0"}


def test_the_broker_stores_on_volumes_that_its_user_owns() -> None:
    """The root of the container is read-only; the image gives these folders to its user."""
    wanted = config()
    stored = {str(wanted.data.path), str(wanted.backup.path)}
    assert stored == {place for place, source in mounts("sluicegate").items() if source in FILE["volumes"]}
    text = CONTAINERFILE.read_text()
    assert f"VOLUME {' '.join(sorted(stored))}" in text
    assert SERVICES["sluicegate"]["read_only"]
    (command,) = re.findall(r"^CMD (.*)$", text, re.MULTILINE)
    assert yaml.safe_load(command)[-1] in mounts("sluicegate")


def test_prometheus_reads_the_brokers_metrics_and_the_rules() -> None:
    prometheus = yaml.safe_load((COMPOSE / "prometheus.yaml").read_text())
    (scraped,) = prometheus["scrape_configs"]
    health = config().health
    assert health.enabled
    assert scraped["static_configs"] == [{"targets": [f"sluicegate:{health.port}"]}]
    place = dict(option.split("=") for option in SERVICES["prometheus"]["command"])["--config.file"]
    assert mounts("prometheus")[place] == "./prometheus.yaml"
    for name in prometheus["rule_files"]:
        assert mounts("prometheus")[str(Path(place).parent / name)] == f"./{name}"


def test_the_alerts_are_those_of_kubernetes() -> None:
    """`make compose-alerts` copies them: Prometheus takes no rules out of an object of its operator."""
    (copied,) = yaml.safe_load_all((COMPOSE / "alerts.yaml").read_text())
    assert copied == yaml.safe_load(RULES.read_text())["spec"]
    (scraped,) = yaml.safe_load((COMPOSE / "prometheus.yaml").read_text())["scrape_configs"]
    jobs = re.findall(r'job=~"([^"]+)"', (COMPOSE / "alerts.yaml").read_text())
    assert jobs
    assert all(re.fullmatch(each, scraped["job_name"]) for each in jobs)


def test_grafana_finds_prometheus_and_the_dashboard() -> None:
    (source,) = yaml.safe_load((COMPOSE / "grafana" / "datasources.yaml").read_text())["datasources"]
    assert source["url"] == f"http://prometheus:{listening()['prometheus']}"
    assert source["type"] == "prometheus"
    (provider,) = yaml.safe_load((COMPOSE / "grafana" / "dashboards.yaml").read_text())["providers"]
    mounted = mounts("grafana")
    (dashboard,) = [place for place, source in mounted.items() if source.endswith("/dashboard.json")]
    assert str(Path(dashboard).parent) == provider["options"]["path"]
    assert environment("grafana")["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] == dashboard
    provisioned = {"/etc/grafana/provisioning/datasources", "/etc/grafana/provisioning/dashboards"}
    assert {str(Path(place).parent) for place in mounted} - {str(Path(dashboard).parent)} == provisioned


@pytest.mark.parametrize("is_running", [True, False], ids=["ready", "away"])
def test_the_health_check_says_whether_the_broker_is_ready(is_running: bool, tmp_path: Path) -> None:
    """The command itself, with this Python for that of the image, and the port of a gateway that runs here."""
    gateway = GatewayProcess(tmp_path, {"health.enabled": True})
    with gateway:
        kind, _, *arguments = SERVICES["sluicegate"]["healthcheck"]["test"]
        assert kind == "CMD"
        assert f":{config().health.port}/" in arguments[-1]
        command = [sys.executable, *arguments[:-1]]
        if not is_running:
            gateway.stop()
        program = arguments[-1].replace(str(config().health.port), str(gateway.ports["health"]))
        done = subprocess.run([*command, program], capture_output=True, check=False)
        assert (done.returncode == 0) == is_running
