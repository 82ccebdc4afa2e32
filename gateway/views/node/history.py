"""The figures of the last hour, as the console draws them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

SPAN_S_DEFAULT: Final = 300
SPAN_S_MAX: Final = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryView:
    """The figures of one object by time: values of steps of one length, oldest first.

    Rates (`messages_in`, `bytes_out`, `commits` and such) are per second. `delivery_ms`, `confirmation_ms` and
    `commit_ms` are means of a step of 2 seconds, of a longer one the highest of these. `messages_out` of a message VPN,
    queue or partition has messages that left it, consumed or not.
    """

    step_ms: int
    times_ms: Sequence[int]  # the ends of the steps, by the wall clock
    values: Mapping[str, Sequence[float | None]]  # by figure; None: nothing was measured in the step


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryQuery:
    """Which steps to return: those of the last `span_s` seconds that end after `after_ms`.

    Up to 300 seconds have steps of 2 seconds, more have steps of 10 seconds.
    """

    span_s: int = SPAN_S_DEFAULT
    after_ms: int = 0  # by the wall clock
