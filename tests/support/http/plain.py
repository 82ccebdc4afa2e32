"""HTTP without TLS, from tests to servers that they have started: no certificates to check, and no proxies.

httpx alone reads the authorities of the machine for every client, and for every request without a client: 50 ms of a
processor, more than most responses take.
"""

from typing import Any, Final

import httpx

ANSWER_S: Final = 60  # unless a test says otherwise: httpx waits 5, which a busy machine takes now and then


def plain_client(url: str = "", **options: Any) -> httpx.Client:
    """Return a client for one server."""
    return httpx.Client(base_url=url, verify=False, trust_env=False, **{"timeout": ANSWER_S, **options})


def plain_async_client(url: str = "", **options: Any) -> httpx.AsyncClient:
    """Return a client for one server, for coroutines."""
    return httpx.AsyncClient(base_url=url, verify=False, trust_env=False, **{"timeout": ANSWER_S, **options})


# For single requests, each with a connection of its own: what answers may have been killed and started since the last.
HTTP: Final = plain_client(limits=httpx.Limits(max_keepalive_connections=0))
