"""Rules for the head of a request beyond the grammar, which is the parser's: RFC 9112's for a server."""

import re
from typing import Final

from sluicegate.protocols.http.codec.problems import BAD_REQUEST, NOT_IMPLEMENTED, VERSION_NOT_SUPPORTED, HttpProblem
from sluicegate.protocols.http.codec.requests import Request

VERSIONS: Final = ("1.0", "1.1")  # the parser takes others for one of them
# RFC 3986 3.2.2 and 3.2.3: a name, an address of IPv4, or one of another family in brackets; and a port.
_HOST: Final = re.compile(
    r"(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2})*(?::[0-9]*)?|\[[0-9A-Za-z:.%~_-]+\](?::[0-9]*)?"
)


def problem_of(request: Request, target: bytes, version: str) -> HttpProblem | None:
    """Return what a request is refused with for its head alone, None if it is not.

    One Host, or none in 1.0, of a valid form (RFC 9112 3.2); no transfer coding but chunked, which would have to be
    undone (6.1); a target without a fragment, which nobody sends (3.2); a version that this is (RFC 9110 15.6.6).
    """
    if version not in VERSIONS:
        return HttpProblem(VERSION_NOT_SUPPORTED, f"HTTP/{version} is not supported; use HTTP/1.1")
    hosts = request.values("host")
    if len(hosts) > 1 or (version != "1.0" and not hosts):
        return HttpProblem(BAD_REQUEST, f"{len(hosts)} Host headers; allowed: one")
    if hosts and _HOST.fullmatch(hosts[0]) is None:
        return HttpProblem(BAD_REQUEST, f"Host: {hosts[0]!r:.80} is not a name or address of a host")
    if b"#" in target:
        return HttpProblem(BAD_REQUEST, "the target of the request has a fragment")
    codings = request.values("transfer-encoding")
    if codings and [each.lower() for each in codings] != ["chunked"]:
        detail = f"Transfer-Encoding: {', '.join(codings)!r:.80} is not undone here; allowed: chunked"
        return HttpProblem(NOT_IMPLEMENTED, detail)
    return None
