"""The deployed objects: Kustomize's overlays and Helm's chart, rendered."""

import os
import shutil
import subprocess
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from helm_python.chart import Chart

K8S: Final = Path(__file__).resolve().parents[3] / "deploy" / "k8s"
CHART: Final = K8S / "chart" / "sluicegate"
OVERLAYS: Final = ("base", "overlays/development", "overlays/production", "overlays/network", "overlays/replicas")
COMPONENTS: Final = ("outside", "admin-port", "tracing")
RENDER_S: Final = 60
# As README.md has it, for operators within the cluster.
ADMIN: Final[dict[str, Any]] = {
    "tls": {
        "enabled": True,
        "host": "0.0.0.0",
        "certificate": "/etc/sluicegate/tls/tls.crt",
        "key": "/etc/sluicegate/tls/tls.key",
    },
    "users": [{"name": "ops", "password_file": "/etc/sluicegate/users/ops", "global_access_level": "admin"}],
}
EVERYTHING: Final[dict[str, Any]] = {
    "tlsSecret": "sluicegate-tls",
    "storage": {"size": "50Gi", "className": "fast"},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True},
    "dashboard": {"enabled": True},
    "backups": {"size": "80Gi", "className": "slow"},
    "env": [{"name": "OTEL_EXPORTER_OTLP_COMPRESSION", "value": "gzip"}],
    "podAnnotations": {"example.org/team": "messaging"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "image": {"tag": "1.2.3", "pullSecrets": [{"name": "registry"}]},
    "protocols": {"mqtt": {"port": 1883, "serviceType": "LoadBalancer", "annotations": {"example.org/lb": "internal"}}},
    "adminService": {"enabled": True, "annotations": {"example.org/for": "operators"}},
    "config": {"admin": ADMIN},
    "networkPolicy": {
        "from": [{"ipBlock": {"cidr": "192.168.0.0/16"}}],
        "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
    },
}

REPLICAS: Final = ("overlays/replicas", "chart of replicas")
OF_REPLICAS: Final[dict[str, Any]] = {"replicas": 3, "config": {"cluster": {"servers": ["nats://nats:4222"]}}}

NETWORK: Final = ("overlays/network", "chart of a network")
BROKERS: Final = ("sluicegate-0", "sluicegate-1", "sluicegate-2")
OF_A_NETWORK: Final[dict[str, Any]] = {  # as README.md has it
    "brokers": len(BROKERS),
    "config": {
        "links": {
            name: {
                "url": f"flow://{name}.sluicegate:55555",
                "username": "network",
                "password_file": "/etc/sluicegate/users/network",
            }
            for name in BROKERS
        },
        "authentication": {
            "users": [
                {"name": "app", "password_file": "/etc/sluicegate/users/app"},
                {"name": "network", "password_file": "/etc/sluicegate/users/network", "client_profile": "network"},
            ],
            "client_profiles": [{"name": "network", "allow_bridge_connections_enabled": True}],
        },
    },
}

Manifest = dict[str, Any]


def overlay(name: str) -> list[Manifest]:
    """Return the objects of a Kustomize folder, below deploy/k8s or anywhere.

    Skips the test where there is no kubectl that knows Kustomize 5.
    """
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed; the chart is checked all the same")
    version = subprocess.run([kubectl, "version", "--client"], capture_output=True, text=True, timeout=RENDER_S)
    if "Kustomize Version: v5" not in version.stdout:
        pytest.skip("kubectl has no Kustomize 5; the chart is checked all the same")
    done = subprocess.run([kubectl, "kustomize", str(K8S / name)], capture_output=True, text=True, timeout=RENDER_S)
    assert done.returncode == 0, done.stderr
    assert "deprecated" not in done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def production_with_everything() -> list[Manifest]:
    """Return the objects of the production overlay with every component, and the admin port open."""
    with tempfile.TemporaryDirectory() as folder:
        gateway = yaml.safe_load((K8S / "overlays" / "production" / "gateway.yaml").read_text(encoding="utf-8"))
        Path(folder, "gateway.yaml").write_text(yaml.safe_dump(gateway | {"admin": ADMIN}))
        parts = {
            "resources": [os.path.relpath(K8S / "overlays" / "production", folder)],
            "components": [os.path.relpath(K8S / "components" / name, folder) for name in COMPONENTS],
            "configMapGenerator": [{"name": "sluicegate-config", "behavior": "replace", "files": ["gateway.yaml"]}],
            "namespace": "messaging",
        }
        Path(folder, "kustomization.yaml").write_text(yaml.safe_dump(parts))
        return overlay(folder)


def chart(values: dict[str, Any] | None = None, release: str = "sluicegate") -> list[Manifest]:
    """Return the objects of the chart as Helm renders it."""
    rendered = Chart.load(CHART).render(values, name=release, namespace="messaging")
    files = [text for path, text in sorted(rendered.items()) if path.endswith(".yaml")]
    return [each for text in files for each in yaml.safe_load_all(text) if each]


def files(*names: str) -> list[Manifest]:
    """Return the objects in plain files below deploy/k8s."""
    return [each for name in names for each in yaml.safe_load_all((K8S / name).read_text(encoding="utf-8")) if each]


def network(name: str) -> list[Manifest]:
    """Return the objects of a network of brokers, one of NETWORK."""
    return overlay(name) if name in OVERLAYS else chart(OF_A_NETWORK)


def replicas(name: str) -> list[Manifest]:
    """Return the objects of a broker with replicas, one of REPLICAS."""
    return overlay(name) if name in OVERLAYS else chart(OF_REPLICAS)


def one(manifests: list[Manifest], kind: str) -> Manifest:
    """Return the only object of a kind."""
    (found,) = [each for each in manifests if each["kind"] == kind]
    return found


def container(manifests: list[Manifest]) -> Manifest:
    """Return the gateway's container."""
    (found,) = one(manifests, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def settings_of(manifests: list[Manifest], pod: str) -> list[str]:
    """Return what the arguments of the container set, in a pod of this name."""
    given = container(manifests)["args"]
    found = [value for option, value in pairwise(given) if option == "--set"]
    names = [each["name"] for each in container(manifests).get("env", []) if "fieldRef" in each.get("valueFrom", {})]
    assert names in ([], ["POD_NAME"])
    return [each.replace("$(POD_NAME)", pod) if names else each for each in found]


def configuration(manifests: list[Manifest]) -> Manifest:
    """Return the gateway's configuration in its ConfigMap."""
    maps = [each["data"] for each in manifests if each["kind"] == "ConfigMap"]
    (text,) = [data["gateway.yaml"] for data in maps if "gateway.yaml" in data]
    found = yaml.safe_load(text)
    assert isinstance(found, dict)
    return found
