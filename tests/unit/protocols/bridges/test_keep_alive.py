"""When a foreign broker over MQTT 3.1.1 is pinged, and when it is given up."""

from sluicegate.protocols.bridges.remotes.mqtt.keep_alive import KeepAlive, Look


def look(keep_alive: KeepAlive, now_ms: int, stalled_ms: int = 0, *, is_listening: bool = True) -> Look:
    return keep_alive.look(now_ms, stalled_ms, is_listening=is_listening)


def test_a_silent_broker_is_pinged_once_and_given_up_after_twice_the_time() -> None:
    keep_alive = KeepAlive(10, 0)
    assert look(keep_alive, 9_999) is Look.FINE
    assert look(keep_alive, 10_000) is Look.PING
    assert look(keep_alive, 11_000) is Look.FINE
    assert look(keep_alive, 19_999) is Look.FINE
    assert look(keep_alive, 20_000) is Look.SILENT


def test_a_broker_that_is_sent_to_and_says_nothing_is_pinged_all_the_same() -> None:
    """Messages of QoS 0 have no answer."""
    keep_alive = KeepAlive(10, 0)
    for now_ms in range(0, 10_000, 1_000):
        keep_alive.sent(now_ms)
        assert look(keep_alive, now_ms) is Look.FINE
    keep_alive.sent(10_000)
    assert look(keep_alive, 10_000) is Look.PING
    keep_alive.heard(10_100)
    assert look(keep_alive, 19_999) is Look.FINE


def test_a_broker_that_only_sends_is_pinged_too() -> None:
    """[MQTT 3.1.2-23]: the client is to send something in that time."""
    keep_alive = KeepAlive(10, 0)
    keep_alive.heard(9_999)
    assert look(keep_alive, 10_000) is Look.PING
    assert look(keep_alive, 15_000) is Look.FINE


def test_a_stall_of_this_process_is_no_silence_of_the_broker() -> None:
    keep_alive = KeepAlive(10, 0)
    assert look(keep_alive, 1_000) is Look.FINE
    assert look(keep_alive, 60_000, stalled_ms=58_000) is Look.PING, "it has to hear from us"
    assert look(keep_alive, 61_000) is Look.FINE


def test_a_broker_that_nobody_listens_to_is_not_silent() -> None:
    keep_alive = KeepAlive(10, 0)
    assert look(keep_alive, 10_000, is_listening=False) is Look.PING
    assert look(keep_alive, 20_000, is_listening=False) is Look.PING
    assert look(keep_alive, 25_000) is Look.FINE
