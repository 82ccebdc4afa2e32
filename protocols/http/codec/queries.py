"""The query of a URL: names that are known here, each once, with values that are checked."""

from typing import final
from urllib.parse import parse_qsl

from sluicegate.protocols.http.codec.problems import BAD_REQUEST, HttpProblem

FIELDS_MAX = 20


@final
class Query:
    """The query of one request."""

    def __init__(self, raw: bytes) -> None:
        """Read it. Raises HttpProblem for what is no query, or has a name twice."""
        self._values: dict[str, str] = {}
        try:
            pairs = parse_qsl(
                raw.decode("ascii"),
                keep_blank_values=True,
                strict_parsing=bool(raw),
                errors="strict",
                max_num_fields=FIELDS_MAX,
            )
        except ValueError as error:  # UnicodeDecodeError is one
            raise HttpProblem(BAD_REQUEST, f"the query {raw!r:.200} cannot be read: {error}") from None
        for name, value in pairs:
            if name in self._values:
                raise HttpProblem(BAD_REQUEST, f"?{name:.80}: given more than once")
            self._values[name] = value

    def allow(self, names: tuple[str, ...]) -> None:
        """Raise HttpProblem when there is any other name."""
        for name in self._values:
            if name not in names:
                raise HttpProblem(BAD_REQUEST, f"?{name:.80}: allowed here are {', '.join(names)}")

    def text(self, name: str) -> str:
        """Return what is said under a name; empty when nothing is."""
        return self._values.get(name, "")

    def number(self, name: str, default: int, low: int, high: int) -> int:
        """Return a whole number. Raises HttpProblem."""
        value = self._values.get(name)
        if value is None:
            return default
        if not value.isascii() or not value.isdigit() or len(value) > 20 or not low <= int(value) <= high:
            raise HttpProblem(BAD_REQUEST, f"?{name}: {value!r:.80} is no whole number from {low} to {high}")
        return int(value)

    def flag(self, name: str) -> bool:
        """Return whether a flag is `true`; without it it is not. Raises HttpProblem."""
        value = self._values.get(name, "false").lower()
        if value not in ("true", "false"):
            raise HttpProblem(BAD_REQUEST, f"?{name}: {value!r:.80} is neither true nor false")
        return value == "true"
