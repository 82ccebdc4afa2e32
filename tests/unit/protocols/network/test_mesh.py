"""What neighbors say of their neighbors shows which links are missing in the network."""

from sluicegate.protocols.network.exchange.mesh import MISSING_AFTER_MS, VpnMesh
from sluicegate.testing.running.movable_time import MovableClock


class Meshed:
    """The mesh as broker `a` knows it."""

    def __init__(self) -> None:
        self.clock = MovableClock()
        self.mesh = VpnMesh("default", "a", self.clock)
        self.said: dict[str, list[str]] = {}  # to each neighbor, last

    def links(self, *neighbors: str) -> None:
        for name in neighbors:
            self.mesh.joined(name, lambda names, name=name: self.said.__setitem__(name, names))  # type: ignore[misc]

    def time_passes(self) -> list[str]:
        self.clock.forward(MISSING_AFTER_MS / 1000)
        return self.raised()

    def raised(self) -> list[str]:
        return [each.described("default") for each in self.mesh.raised(self.clock.now_ms())]


def test_each_neighbor_is_told_of_all_links_that_are_up() -> None:
    network = Meshed()
    network.links("b", "c")
    network.mesh.joined("old", None)
    assert network.said == {"b": ["b", "c", "old"], "c": ["b", "c", "old"]}
    network.mesh.left("c")
    assert network.said["b"] == ["b", "old"]


def test_a_link_is_missing_when_it_has_not_come_for_a_while() -> None:
    network = Meshed()
    network.links("b")
    network.mesh.told("b", ("a", "c"))
    assert network.raised() == []
    assert network.mesh.missing() == []
    assert network.time_passes() == ["no link to broker c in message VPN default, which is linked to b"]
    assert network.time_passes() == []
    assert [(each.broker, each.linked_neighbors) for each in network.mesh.missing()] == [("c", ["b"])]


def test_a_link_that_comes_in_time_was_never_missing() -> None:
    network = Meshed()
    network.links("b")
    network.mesh.told("b", ("a", "c"))
    network.links("c")
    assert network.time_passes() == []
    assert network.mesh.cleared() == []


def test_a_missing_link_that_comes_is_cleared_once() -> None:
    network = Meshed()
    network.links("b")
    network.mesh.told("b", ("a", "c"))
    network.time_passes()
    network.links("c")
    assert [each.broker for each in network.mesh.cleared()] == ["c"]
    assert network.mesh.cleared() == []
    assert network.mesh.missing() == []


def test_a_link_is_not_missing_when_no_neighbor_is_linked_to_that_broker_any_more() -> None:
    network = Meshed()
    network.links("b", "d")
    network.mesh.told("b", ("a", "c"))
    network.mesh.told("d", ("a", "c"))
    network.time_passes()
    network.mesh.told("b", ("a",))
    assert network.mesh.cleared() == []
    assert network.mesh.missing()[0].linked_neighbors == ["d"]
    network.mesh.left("d")
    assert [each.broker for each in network.mesh.cleared()] == ["c"]


def test_an_event_names_a_few_neighbors() -> None:
    network = Meshed()
    names = [f"b{number}" for number in range(7)]
    network.links(*names)
    for name in names:
        network.mesh.told(name, ("a", "c"))
    assert network.time_passes() == [
        "no link to broker c in message VPN default, which is linked to b0, b1, b2, b3, b4 and 2 more"
    ]
