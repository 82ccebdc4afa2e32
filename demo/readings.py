"""The readings of the demo's devices: the weather tables in the package `vega_datasets`.

Hourly temperatures of Seattle and San Francisco in 2010, in Fahrenheit, and Seattle's weather for each day of 2012 to
2015, in metric units. It needs no network.
"""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, final

from vega_datasets import local_data

FAHRENHEIT: Final = "F"
_DAILY: Final = {"precipitation": "mm", "temp_max": "C", "temp_min": "C", "wind": "m/s"}


@final
@dataclass(frozen=True)
class Reading:
    """One value of one sensor."""

    sensor: str  # place/what, such as `seattle/wind`: also its partition key
    number: int  # from 0, in order of time
    at: datetime
    value: float
    unit: str

    @property
    def identity(self) -> bytes:
        """The value that identifies the reading everywhere."""
        return f"{self.sensor}#{self.number}".encode()

    @property
    def payload(self) -> bytes:
        """The reading as its sensor sends it."""
        return json.dumps({"at": self.at.isoformat(), "value": self.value, "unit": self.unit}).encode()


def readings(most: int | None = None) -> Mapping[str, Sequence[Reading]]:
    """Return the readings of each sensor in order of time; with `most`, the first of them."""
    tables = {
        "seattle/temperature": _column(local_data.seattle_temps.filepath, "temp", FAHRENHEIT),
        "san-francisco/temperature": _column(local_data.sf_temps.filepath, "temp", FAHRENHEIT),
        **{
            f"seattle/{name}": _column(local_data.seattle_weather.filepath, name, unit) for name, unit in _DAILY.items()
        },
    }
    return {
        sensor: [Reading(sensor, number, at, value, unit) for number, (at, value, unit) in enumerate(rows[:most])]
        for sensor, rows in tables.items()
    }


def _column(file: str, name: str, unit: str) -> list[tuple[datetime, float, str]]:
    with Path(file).open(newline="") as table:
        # Times are written as 2010/01/01, 2010/01/01 00:00 or 2010/01/01 00:00:00.
        rows = [
            (datetime.fromisoformat(row["date"].replace("/", "-")), float(row[name]), unit)
            for row in csv.DictReader(table)
        ]
    return sorted(rows)
