"""The bytes of both sides of a connection in order, for tests of referees."""

from collections.abc import Iterable
from typing import NamedTuple

from support.referees.violations import Referee


class Step(NamedTuple):
    """Bytes of one side."""

    is_gateway: bool
    data: bytes


def gateway(*said: bytes) -> list[Step]:
    return [Step(True, each) for each in said]


def client(*said: bytes) -> list[Step]:
    return [Step(False, each) for each in said]


def hears(referee: Referee, steps: Iterable[Step]) -> None:
    """Pass bytes to a referee. Raises what it raises."""
    for is_gateway, data in steps:
        (referee.gateway_says if is_gateway else referee.client_says)(data)
