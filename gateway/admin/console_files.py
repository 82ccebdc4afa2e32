"""The static files of the web console: read once, and served with a policy that allows no others.

The files are in `gateway/admin/console`.
"""

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

MEDIA_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
PAGE: Final = "index.html"
# No inline script or style, nothing from another host, no framing, no form submission.
SECURITY: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class ConsoleFile:
    """One file with its media type and ETag, which is a hash of the bytes for revalidation by browsers."""

    body: bytes
    media_type: str
    tag: str


def console_routes() -> list[Route]:
    """Return the routes of the console: `/console` redirects to `/console/`, and the files are below it."""
    found = _read(files("sluicegate.gateway.admin.console"), "")

    async def console(request: Request) -> Response:
        return RedirectResponse("console/", status_code=308)

    async def console_file(request: Request) -> Response:
        file = found.get(request.path_params["path"] or PAGE)
        if file is None:
            raise HTTPException(404)
        headers = {**SECURITY, "ETag": file.tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == file.tag:
            return Response(status_code=304, headers=headers)
        return Response(file.body, headers=headers, media_type=file.media_type)

    return [Route("/console", console), Route("/console/{path:path}", console_file)]


def _read(folder: Traversable, prefix: str) -> dict[str, ConsoleFile]:
    """Return the files of a folder and those below it, by their paths."""
    found: dict[str, ConsoleFile] = {}
    for entry in folder.iterdir():
        suffix = entry.name[entry.name.rfind(".") :]
        if entry.is_dir() and not entry.name.startswith("__"):
            found |= _read(entry, f"{prefix}{entry.name}/")
        elif suffix in MEDIA_TYPES:
            body = entry.read_bytes()
            tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
            found[f"{prefix}{entry.name}"] = ConsoleFile(body, MEDIA_TYPES[suffix], tag)
    return found
