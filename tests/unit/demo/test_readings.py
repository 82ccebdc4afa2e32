"""What the demo's devices send: real data, each reading known by a name of its own."""

import json

from demo.readings import readings


def test_every_sensor_sends_its_readings_in_order_of_time() -> None:
    found = readings()
    assert sorted(found) == [
        "san-francisco/temperature",
        "seattle/precipitation",
        "seattle/temp_max",
        "seattle/temp_min",
        "seattle/temperature",
        "seattle/wind",
    ]
    for rows in found.values():
        assert [each.at for each in rows] == sorted(each.at for each in rows)
    identities = [each.identity for rows in found.values() for each in rows]
    assert len(identities) == len(set(identities)) == 2 * 8_759 + 4 * 1_461


def test_fewer_readings_are_the_first_ones() -> None:
    few = readings(2)["seattle/temperature"]
    assert [each.identity for each in few] == [b"seattle/temperature#0", b"seattle/temperature#1"]
    assert json.loads(few[0].payload) == {"at": "2010-01-01T00:00:00", "value": 39.4, "unit": "F"}
