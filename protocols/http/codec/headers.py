"""The header Authorization of HTTP. Who it stands for is decided by `protocols.security.authentication`."""

import base64
import binascii
from typing import Final

CHALLENGES: Final = b'Basic realm="sluicegate", charset="UTF-8", Bearer realm="sluicegate"'


def basic_credentials(value: str) -> tuple[str, bytes]:
    """Return user name and password of a Basic header (RFC 7617). Raises ValueError."""
    try:
        name, colon, password = base64.b64decode(value, validate=True).partition(b":")
        if colon:
            return name.decode("utf-8"), password
    except (binascii.Error, ValueError):
        pass
    raise ValueError("Authorization: Basic is not the base64 of name:password in UTF-8")
