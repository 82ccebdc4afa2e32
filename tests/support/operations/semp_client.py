"""A plain client of SEMP, which checks the envelope of every response."""

from typing import Any

from support.operations.running_admin import RunningAdmin

BASE = "/SEMP/v2"


def semp(admin: RunningAdmin, method: str, path: str, body: object = None, *, status: int = 200) -> dict[str, Any]:
    """Return the answer to a request at a path below `/SEMP/v2`, which has this status."""
    answer = admin.ask(method, BASE + path, body)
    assert answer.status == status, answer.body
    found = answer.json()
    meta: Any = found["meta"]
    assert meta["responseCode"] == status
    assert meta["request"] == {"method": method, "uri": admin.url + BASE + path}
    assert ("error" in meta) == (status != 200)
    return found


def refused(
    admin: RunningAdmin, method: str, path: str, body: object = None, *, status: int = 400
) -> tuple[int, str, str]:
    """Return code, status and description of the error that a request is answered with."""
    error: Any = semp(admin, method, path, body, status=status)["meta"]["error"]
    return error["code"], error["status"], error["description"]
