"""The objects of a broker with replicas on Kubernetes, of Kustomize and of the chart."""

import pytest
from helm_python.errors import HelmError

from support.operations.manifests import BROKERS, REPLICAS, chart, one, replicas, settings_of


@pytest.mark.parametrize("name", REPLICAS)
def test_each_pod_is_a_replica_of_its_own_name_and_no_two_are_on_one_machine(name: str) -> None:
    manifests = replicas(name)
    stateful = one(manifests, "StatefulSet")["spec"]
    assert (stateful["replicas"], stateful["podManagementPolicy"]) == (len(BROKERS), "Parallel")
    set_there = dict(each.split("=", 1) for each in settings_of(manifests, "sluicegate-1"))
    assert set_there["cluster.replica"] == "sluicegate-1"
    assert set_there["cluster.replicas"] == f"[{', '.join(BROKERS)}]"
    (rule,) = stateful["template"]["spec"]["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    labels = stateful["template"]["metadata"]["labels"]
    assert rule["topologyKey"] == "kubernetes.io/hostname"
    assert rule["labelSelector"]["matchLabels"].items() <= labels.items()
    for budget in [each["spec"] for each in manifests if each["kind"] == "PodDisruptionBudget"]:
        assert budget["minAvailable"] == len(BROKERS) - 1


@pytest.mark.parametrize("name", REPLICAS)
def test_clients_are_led_to_the_pod_that_says_that_it_owns_the_broker(name: str) -> None:
    manifests = replicas(name)
    stateful = one(manifests, "StatefulSet")["spec"]
    label = dict(each.split("=", 1) for each in settings_of(manifests, "sluicegate-0"))["cluster.pod_label"]
    services = [each for each in manifests if each["kind"] == "Service"]
    of_clients = [each["spec"]["selector"] for each in services if each["spec"].get("clusterIP") != "None"]
    assert len(of_clients) == 4
    assert all(selector[label] == "true" for selector in of_clients)
    (headless,) = [each["spec"]["selector"] for each in services if each["spec"].get("clusterIP") == "None"]
    assert label not in headless
    probe = stateful["template"]["spec"]["containers"][0]["readinessProbe"]
    assert probe["httpGet"]["path"] == "/health/ready"


@pytest.mark.parametrize("name", REPLICAS)
def test_a_pod_may_change_the_labels_of_the_replicas_and_nothing_else(name: str) -> None:
    manifests = replicas(name)
    pod = one(manifests, "StatefulSet")["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"]
    role, binding = one(manifests, "Role"), one(manifests, "RoleBinding")
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "resourceNames": list(BROKERS), "verbs": ["patch"]}
    ]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [each["name"] for each in binding["subjects"]] == [pod["serviceAccountName"]]


@pytest.mark.parametrize("name", REPLICAS)
def test_a_pod_may_reach_the_nats_servers_and_the_api_server(name: str) -> None:
    for policy in [each["spec"] for each in replicas(name) if each["kind"] == "NetworkPolicy"]:
        ports = [port["port"] for rule in policy["egress"] for port in rule["ports"]]
        assert ports == [53, 53, 4222, 443, 6443]


def test_a_chart_of_replicas_without_servers_or_of_several_brokers_is_refused() -> None:
    with pytest.raises(HelmError, match=r"config\.cluster\.servers"):
        chart({"replicas": 3})
    with pytest.raises(HelmError, match="one of them is 1"):
        chart({"replicas": 3, "brokers": 3, "config": {"cluster": {"servers": ["nats://nats"]}, "links": {"a": {}}}})


def test_replicas_of_a_release_have_the_names_of_its_pods() -> None:
    manifests = chart({"replicas": 2, "config": {"cluster": {"servers": ["nats://nats"]}}}, release="orders")
    set_there = dict(each.split("=", 1) for each in settings_of(manifests, "orders-sluicegate-0"))
    assert set_there["cluster.replicas"] == "[orders-sluicegate-0, orders-sluicegate-1]"
