"""The manifests of Spark jobs: valid for Kubernetes, and with files that the program accepts."""

from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import pytest
import yaml
from typer.testing import CliRunner

from sluicegate.pipeline.cli import JOBS, app
from sluicegate.pipeline.configuration import ArchiveJob, load
from support.operations.manifests import Manifest, files, one

VERSIONS: Final = ("1.29", kubernetes_validate.latest_version().rpartition(".")[0])
PLAIN: Final = files("spark/jobs.yaml", "spark/cronjob.yaml", "spark/rbac.yaml")
ON_A_CLUSTER: Final = one(files("spark/sparkapplication.yaml"), "SparkApplication")["spec"]
CONTAINERFILE: Final = Path(__file__).resolve().parent.parent.parent / "deploy" / "k8s" / "spark" / "Containerfile"


def pod_of_the_cronjob() -> Manifest:
    pod = one(PLAIN, "CronJob")["spec"]["jobTemplate"]["spec"]["template"]
    assert isinstance(pod, dict)
    return pod


def pod_on_a_cluster(role: str) -> Manifest:
    """The pod that the operator makes of a part of its object, as far as that says what is in it."""
    part: dict[str, Any] = ON_A_CLUSTER[role]
    container = {
        "name": "spark",
        "image": ON_A_CLUSTER["image"],
        "securityContext": part["securityContext"],
        "volumeMounts": part["volumeMounts"],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": role, "labels": part["labels"]},
        "spec": {
            "securityContext": part["podSecurityContext"],
            "containers": [container],
            "volumes": ON_A_CLUSTER["volumes"],
        },
    }


PODS: Final = {
    "cronjob": {"apiVersion": "v1", "kind": "Pod", **pod_of_the_cronjob()},
    "driver": pod_on_a_cluster("driver"),
    "executor": pod_on_a_cluster("executor"),
}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_is_valid(version: str) -> None:
    """Against the schemas that Kubernetes publishes, unknown fields forbidden; of the operator's object its pods."""
    for manifest in [*PLAIN, pod_on_a_cluster("driver"), pod_on_a_cluster("executor")]:
        kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("name", PODS)
def test_pods_may_reach_the_gateway_and_have_no_rights_that_they_do_not_need(name: str) -> None:
    pod = PODS[name]
    assert pod["metadata"]["labels"]["sluicegate.client"] == "true"
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    (container,) = pod["spec"]["containers"]
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_the_driver_may_make_its_executors() -> None:
    account = one(PLAIN, "ServiceAccount")["metadata"]["name"]
    assert ON_A_CLUSTER["driver"]["serviceAccount"] == account
    binding = one(PLAIN, "RoleBinding")
    assert [each["name"] for each in binding["subjects"]] == [account]
    assert binding["roleRef"]["name"] == one(PLAIN, "Role")["metadata"]["name"]


@pytest.mark.parametrize("name", PODS)
def test_a_job_finds_its_file_its_password_and_its_folders_in_the_pod(name: str, tmp_path: Path) -> None:
    pod = PODS[name]["spec"]
    mounts = {each["name"]: each["mountPath"] for each in pod["containers"][0]["volumeMounts"]}
    assert set(mounts) == {each["name"] for each in pod["volumes"]}
    texts = one(PLAIN, "ConfigMap")["data"]
    arguments = [*pod["containers"][0].get("args", ON_A_CLUSTER["arguments"])]
    folder, _, file = arguments[arguments.index("--config") + 1].rpartition("/")
    assert folder == mounts["jobs"]
    (tmp_path / file).write_text(texts[file])
    job = load(tmp_path / file, ArchiveJob)
    assert job.session.master is None, "the manifests say where Spark runs"
    assert job.source_options["credentialRef"].startswith(f"file:{mounts['users']}/")
    for place in (job.checkpoint, job.archive.path):
        assert place.startswith(mounts["data"] + "/")


def test_the_commands_are_those_of_the_program(tmp_path: Path) -> None:
    """With a file that is not there, which is as far as a command comes without a gateway."""
    (container,) = pod_of_the_cronjob()["spec"]["containers"]
    assert container["command"][:2] == ["sluicegate", "pipeline"]
    for arguments in (container["command"][2:] + container["args"], ON_A_CLUSTER["arguments"]):
        assert arguments[1] in JOBS
        said = CliRunner().invoke(app, arguments)
        assert "No such file or directory" in said.output, said.output


def test_image_and_cluster_are_of_one_release_of_spark() -> None:
    version, recipe = ON_A_CLUSTER["sparkVersion"], CONTAINERFILE.read_text(encoding="utf-8")
    assert f"ARG SPARK_VERSION={version}\n" in recipe
    assert '"/source[jobs]"' in recipe, "what jobs import, but for Spark: tests/house/test_dependencies.py"
    assert ON_A_CLUSTER["image"] == pod_of_the_cronjob()["spec"]["containers"][0]["image"]
    assert ON_A_CLUSTER["mainApplicationFile"] == "local:///opt/pipeline/__main__.py"
    assert "/site-packages/sluicegate/pipeline /opt/pipeline\n" in recipe


def test_a_cluster_has_as_many_cores_as_the_example_queue_has_partitions() -> None:
    """docs/data/spark.md: more have nothing to do."""
    gateway = yaml.safe_load((CONTAINERFILE.parent.parent / "overlays/production/gateway.yaml").read_text())
    (orders,) = [each for each in gateway["queues"]["declared"] if each["name"] == "orders"]
    executor = ON_A_CLUSTER["executor"]
    assert executor["instances"] * executor["cores"] == orders["partition_count"]
