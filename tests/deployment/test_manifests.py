"""The manifests are valid for Kubernetes, and agree with each other, with the image and with the gateway."""

import functools
from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import pytest
import yaml
from helm_python.errors import HelmError

from sluicegate.gateway.config.load import load
from sluicegate.gateway.config.model import Config
from support.network.certificates import make_certificates
from support.operations.manifests import (
    BROKERS,
    EVERYTHING,
    K8S,
    NETWORK,
    OF_A_NETWORK,
    OF_REPLICAS,
    OVERLAYS,
    REPLICAS,
    Manifest,
    chart,
    configuration,
    container,
    files,
    one,
    overlay,
    production_with_everything,
    settings_of,
)

VERSIONS: Final = ("1.29", kubernetes_validate.latest_version().rpartition(".")[0])
OF_OPERATORS: Final = {"ServiceMonitor", "PrometheusRule", "ScaledObject"}  # their schemas are not Kubernetes' own
CHARTS: Final[dict[str, dict[str, Any] | None]] = {
    "chart": None,
    "chart with everything": EVERYTHING,
    NETWORK[1]: OF_A_NETWORK,
    REPLICAS[1]: OF_REPLICAS,
}
WITH_COMPONENTS: Final = "production with everything"
WITH_ADMIN: Final = ("chart with everything", WITH_COMPONENTS)
SETS: Final = (*OVERLAYS, WITH_COMPONENTS, *CHARTS)


@functools.cache  # several tests look at each, and none changes anything in it
def rendered(name: str) -> list[Manifest]:
    if name == WITH_COMPONENTS:
        return production_with_everything()
    return chart(CHARTS[name]) if name in CHARTS else overlay(name)


def opened(config: Config) -> set[int]:
    """The ports that a configuration opens for others than its own machine."""
    ports = {each.port for each in config.listeners.enabled().values() if each.host != "127.0.0.1"}
    ports |= {each.port for each in (config.admin, config.admin.tls) if each.enabled and each.host != "127.0.0.1"}
    return ports | ({config.health.port} if config.health.enabled else set())


def loaded(manifests: list[Manifest], folder: Path) -> Config:
    """Load the configuration as the gateway would, with secrets in a folder in the place of mounted ones."""
    secrets = folder / "sluicegate"
    for name in ("users", "tls"):
        (secrets / name).mkdir(parents=True)
    for user in ("app", "ops", "network"):
        (secrets / "users" / user).write_text("a password")
    certificates = make_certificates(folder)
    (secrets / "tls" / "tls.crt").write_bytes(certificates.server.read_bytes())
    (secrets / "tls" / "tls.key").write_bytes(certificates.server_key.read_bytes())
    file = folder / "gateway.yaml"
    file.write_text(yaml.safe_dump(configuration(manifests)).replace("/etc/sluicegate", str(secrets)))
    return load(file, settings=settings_of(manifests, BROKERS[0]))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", SETS)
def test_every_object_is_valid(name: str, version: str) -> None:
    """Against the schemas that Kubernetes publishes, unknown fields forbidden."""
    manifests = rendered(name)
    assert {"StatefulSet", "Service", "ConfigMap", "ServiceAccount"} <= {each["kind"] for each in manifests}
    for manifest in manifests:
        if manifest["kind"] not in OF_OPERATORS:
            kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("example", ["order-workers", "restore"])
def test_examples_are_valid(example: str, version: str) -> None:
    (manifest,) = files(f"examples/{example}.yaml")
    kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("name", SETS)
def test_the_configuration_is_one_that_the_gateway_takes(name: str, tmp_path: Path) -> None:
    """And opens the ports that the container has, no fewer and no more; the admin port to others with accounts only."""
    manifests = rendered(name)
    config = loaded(manifests, tmp_path)
    assert {each["containerPort"] for each in container(manifests)["ports"]} >= opened(config)
    if name != "chart with everything":
        assert {each["containerPort"] for each in container(manifests)["ports"]} == opened(config)
    assert config.admin.tls.enabled == bool(config.admin.users) == (name in WITH_ADMIN)
    assert config.spool.sync


def test_the_chart_opens_the_admin_port_to_accounts_only() -> None:
    with pytest.raises(HelmError, match=r"config\.admin\.users"):
        chart({"adminService": {"enabled": True}, "config": {"admin": {"host": "0.0.0.0"}}})


@pytest.mark.parametrize("name", SETS)
def test_services_probes_and_policies_name_ports_that_there_are(name: str) -> None:
    manifests = rendered(name)
    gateway = container(manifests)
    names = {each["name"] for each in gateway["ports"]}
    targets = {port["targetPort"] for each in manifests if each["kind"] == "Service" for port in each["spec"]["ports"]}
    assert targets == names
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert gateway[probe]["httpGet"]["port"] == "health"
    for policy in [each for each in manifests if each["kind"] == "NetworkPolicy"]:
        allowed = {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}
        assert allowed == names


@pytest.mark.parametrize("name", SETS)
def test_the_pod_has_no_rights_that_it_does_not_need(name: str) -> None:
    """The profile `restricted` of the pod security standards, and a root file system that cannot be written."""
    manifests = rendered(name)
    pod = one(manifests, "StatefulSet")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == 10001
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is (name in REPLICAS)  # to label the pod of the owner
    gateway = container(manifests)["securityContext"]
    assert gateway == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.parametrize("name", SETS)
def test_selectors_find_the_pod(name: str) -> None:
    manifests = rendered(name)
    labels = set(one(manifests, "StatefulSet")["spec"]["template"]["metadata"]["labels"].items())
    for manifest in manifests:
        spec = manifest.get("spec", {})
        if manifest["kind"] == "Service":
            given_at_run_time = {("sluicegate.active", "true")} if name in REPLICAS else set()
            assert spec["selector"].items() <= labels | given_at_run_time
        elif manifest["kind"] == "StatefulSet" or manifest["kind"] == "PodDisruptionBudget":
            assert spec["selector"]["matchLabels"].items() <= labels
        elif manifest["kind"] == "NetworkPolicy":
            assert spec["podSelector"]["matchLabels"].items() <= labels


@pytest.mark.parametrize("name", SETS)
def test_the_spool_fits_into_its_volume(name: str, tmp_path: Path) -> None:
    """And messages in memory into the memory limit, beside the process itself."""
    manifests = rendered(name)
    config = loaded(manifests, tmp_path)
    claims = {each["metadata"]["name"]: each for each in one(manifests, "StatefulSet")["spec"]["volumeClaimTemplates"]}
    for claim in (claims["data"], claims["backups"]):
        assert config.spool.map_bytes_max < _bytes(claim["spec"]["resources"]["requests"]["storage"])
    limit = _bytes(container(manifests)["resources"]["limits"]["memory"])
    assert config.spool.memory_bytes_max + 256 * 1024**2 < limit


@pytest.mark.parametrize("name", SETS)
def test_the_gateway_writes_to_its_volumes_only(name: str, tmp_path: Path) -> None:
    """Everything else is read-only; backups do not lie with what they are of."""
    manifests = rendered(name)
    config = loaded(manifests, tmp_path)
    mounts = {each["name"]: Path(each["mountPath"]) for each in container(manifests)["volumeMounts"]}
    assert (mounts["data"], mounts["backups"]) == (config.data.path, config.backup.path)


def test_a_restore_finds_the_volumes_and_folders_of_the_gateway() -> None:
    """Claims of a StatefulSet are named after it, and the Job mounts them where the gateway does."""
    gateway = one(files("base/statefulset.yaml"), "StatefulSet")
    (job,) = files("examples/restore.yaml")
    pod = job["spec"]["template"]["spec"]
    claims = {each["name"]: each["persistentVolumeClaim"]["claimName"] for each in pod["volumes"]}
    assert claims == {each: f"{each}-{gateway['metadata']['name']}-0" for each in ("data", "backups")}
    (restore,) = pod["containers"]
    assert all(mount in container([gateway])["volumeMounts"] for mount in restore["volumeMounts"])
    assert pod["securityContext"] == gateway["spec"]["template"]["spec"]["securityContext"]
    assert restore["securityContext"] == container([gateway])["securityContext"]


def _bytes(quantity: str) -> int:
    number, unit = quantity[:-2], quantity[-2:]
    return int(number) * {"Mi": 1024**2, "Gi": 1024**3}[unit]


def test_the_chart_and_the_base_run_the_same_container() -> None:
    """Two ways to install one thing."""
    (plain,) = [each for each in files("base/statefulset.yaml") if each["kind"] == "StatefulSet"]
    ours, charts = container([plain]), container(chart())
    for manifest in (ours, charts):
        manifest["ports"] = sorted(manifest["ports"], key=lambda port: port["name"])
        manifest.pop("imagePullPolicy", None)
    assert charts == ours
    (plain_configuration,) = files("base/gateway.yaml")
    plain_configuration["health"]["port"] = 5550  # the default, which the chart's service has to know
    assert configuration(chart()) == plain_configuration


def test_the_values_of_the_guide_are_ones_that_chart_and_gateway_take(tmp_path: Path) -> None:
    """README.md, Helm: the ports of the pod are those that the gateway opens."""
    guide = (K8S / "README.md").read_text(encoding="utf-8")
    (values,) = [each.partition("```")[0] for each in guide.split("```yaml\n# my-values.yaml")[1:]]
    manifests = chart(yaml.safe_load("#" + values))
    config = loaded(manifests, tmp_path)
    assert {each["containerPort"] for each in container(manifests)["ports"]} == opened(config)


def test_a_release_of_another_name_has_objects_of_its_own() -> None:
    names = {each["metadata"]["name"] for each in chart(release="blue")}
    assert names == {f"blue-{each['metadata']['name']}" for each in chart()}


@pytest.mark.parametrize(
    "wrong", [{"storrage": {}}, {"protocols": {"mqtt": {"port": 0}}}, {"terminationGracePeriodSeconds": 1}]
)
def test_the_chart_refuses_values_that_it_does_not_know(wrong: dict[str, Any]) -> None:
    with pytest.raises(HelmError):
        chart(wrong)


def test_the_image_is_run_as_it_was_built() -> None:
    """The same user, and arguments that go to the same entry point."""
    lines = (K8S / "image" / "Containerfile").read_text(encoding="utf-8").splitlines()
    said = {line.split()[0]: line.partition(" ")[2] for line in lines if line and not line.startswith("#")}
    (plain,) = [each for each in files("base/statefulset.yaml") if each["kind"] == "StatefulSet"]
    assert said["USER"] == "10001:10001"
    assert yaml.safe_load(said["ENTRYPOINT"]) == ["sluicegate"]
    assert yaml.safe_load(said["CMD"]) == container([plain])["args"]
    folders = [each["mountPath"] for each in container([plain])["volumeMounts"] if each["name"] in ("data", "backups")]
    assert said["VOLUME"].split() == folders
    made = lines.index(f"RUN install -d -m 0750 -o 10001 -g 10001 {' '.join(folders)}")
    assert made < lines.index("USER 10001:10001")  # who cannot make them
    exposed = {int(port) for port in said["EXPOSE"].split()}
    assert exposed == {each["containerPort"] for each in container([plain])["ports"]}
    assert sum(line.startswith("FROM ") for line in lines) == 2


def test_there_are_no_more_consumers_than_partitions() -> None:
    """Those beyond would hold none, and cost their resources."""
    (scaled,) = files("examples/keda-scaledobject.yaml")
    (config,) = files("overlays/production/gateway.yaml")
    (orders,) = config["queues"]["declared"]
    assert scaled["spec"]["maxReplicaCount"] == orders["partition_count"]
    assert scaled["spec"]["scaleTargetRef"]["name"] == files("examples/order-workers.yaml")[0]["metadata"]["name"]
