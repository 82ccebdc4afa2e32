"""The properties that a message has when it goes to a foreign MQTT broker."""

import pytest

from sluicegate.protocols.bridges.remotes.mqtt.messages import decoded_headers, encoded_properties
from sluicegate.protocols.mqtt.codec.properties import user_property

DELAYED = user_property("sluicegate-delivery-delay-ms", "5000") + user_property("unit", "K")


@pytest.mark.parametrize(("later_ms", "names"), [(0, ["sluicegate-delivery-delay-ms", "unit"]), (5_000, ["unit"])])
def test_a_delay_that_is_over_does_not_go_on(monkeypatch: pytest.MonkeyPatch, later_ms: int, names: list[str]) -> None:
    """Another Sluicegate would delay the message a second time."""
    clock = [1_000_000]
    monkeypatch.setattr("sluicegate.protocols.bridges.remotes.mqtt.messages.wall_ms", lambda: clock[0])
    headers = decoded_headers(DELAYED)
    assert headers is not None
    clock[0] += later_ms
    sent = decoded_headers(encoded_properties(headers, ""))
    assert sent is not None
    assert [name for name, _ in sent.user_properties or []] == names
