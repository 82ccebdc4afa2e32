"""What the test's side says of a broker to start. It imports nothing of the broker."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOrder:
    """A broker to start."""

    settings: tuple[str, ...]  # PATH=VALUE, the folder of the data and all ports among them
    config_file: Path | None
    ahead_ms: int  # by so much its clock is put forward
