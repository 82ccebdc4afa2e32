"""Accounts of the admin port, one for each way to have access levels."""

import base64
from typing import Final

from sluicegate.gateway.config.sections.admin import Admin
from support.operations.running_admin import Answer, RunningAdmin

LEVELS: Final = {
    "reader": ("read-only", "none", {}),
    "writer": ("read-write", "none", {}),
    "root": ("admin", "none", {}),
    "nobody": ("none", "none", {}),
    "tenant": ("none", "none", {"default": "read-write"}),
    "guest": ("none", "read-only", {"default": "none"}),
}


def configured(**more: object) -> Admin:
    """Return accounts, one for each way to have levels; the password is the name and -word."""
    users = [
        {
            "name": name,
            "password": f"{name}-word",
            "global_access_level": levels[0],
            "msg_vpn_access_level": levels[1],
            "msg_vpn_access_level_exceptions": levels[2],
        }
        for name, levels in LEVELS.items()
    ]
    return Admin.model_validate({"users": users, **more})


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


def ask(admin: RunningAdmin, name: str, method: str, path: str, body: object = None) -> Answer:
    """Send a request as one of the accounts."""
    return admin.ask(method, path, body, basic(name, f"{name}-word"))
