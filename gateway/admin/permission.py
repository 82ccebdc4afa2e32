"""How far an account may go: asked by each operation, which knows its level and the message VPN that it is about."""

from typing import Final

from starlette.requests import Request

from sluicegate.gateway.admin.problems import NotPermitted
from sluicegate.gateway.config.sections.security.access_levels import AccessLevel, AdminAccount

READ_ONLY_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def permit(request: Request, operation: str, level: AccessLevel, vpn: str | None = None) -> None:
    """Let an operation begin that asks for a level, in the node or in one message VPN. Raises NotPermitted."""
    account: AdminAccount = request.state.account
    request.state.operation = operation
    if vpn is not None:
        request.state.vpn = vpn
    has = account.global_access_level if vpn is None else account.level_in(vpn)
    if has < level:
        where = "" if vpn is None else f" in message VPN {vpn!r}"
        raise beyond(account, level, has, where)


def beyond(account: AdminAccount, level: AccessLevel, has: AccessLevel, where: str = "") -> NotPermitted:
    """Return the refusal of what takes a higher level than an account has there."""
    return NotPermitted(f"this takes the access level {level.word}, and {account.name!r} has {has.word}{where}")
