"""The objects of a network of brokers on Kubernetes, of Kustomize and of the chart."""

from typing import Any

import pytest
from helm_python.errors import HelmError

from support.operations.manifests import BROKERS, NETWORK, chart, network, one


@pytest.mark.parametrize("name", NETWORK)
def test_pods_find_each_other_before_they_are_ready_and_may_connect(name: str) -> None:
    manifests = network(name)
    stateful = one(manifests, "StatefulSet")
    (headless,) = [each for each in manifests if each["kind"] == "Service" and each["spec"].get("clusterIP") == "None"]
    assert stateful["spec"]["serviceName"] == headless["metadata"]["name"]
    assert headless["spec"]["publishNotReadyAddresses"]
    assert (stateful["spec"]["replicas"], stateful["spec"]["podManagementPolicy"]) == (len(BROKERS), "Parallel")
    labels = stateful["spec"]["template"]["metadata"]["labels"].items()
    for policy in [each["spec"] for each in manifests if each["kind"] == "NetworkPolicy"]:
        for rules, side in ((policy["ingress"], "from"), (policy["egress"], "to")):
            [ports] = [rule["ports"] for rule in rules if _is_for(rule.get(side, []), labels)]
            assert ports == [{"port": "flow"}]
        assert {"port": 53, "protocol": "UDP"} in policy["egress"][0]["ports"]
    for budget in [each["spec"] for each in manifests if each["kind"] == "PodDisruptionBudget"]:
        assert budget["minAvailable"] == len(BROKERS) - 1


def test_a_chart_of_several_brokers_without_links_is_refused() -> None:
    with pytest.raises(HelmError, match=r"config\.links"):
        chart({"brokers": 2})


def _is_for(peers: list[dict[str, Any]], labels: Any) -> bool:
    """Return whether a rule is for the brokers themselves."""
    return any(
        "namespaceSelector" not in peer and peer["podSelector"]["matchLabels"].items() <= labels for peer in peers
    )
