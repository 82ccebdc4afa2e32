"""What the operation on one's own account does."""

from starlette.requests import Request
from starlette.responses import Response

from sluicegate.gateway.admin.requests import view_answer
from sluicegate.gateway.config.sections.security.access_levels import AdminAccount
from sluicegate.gateway.views.account_views import AccountView


class AccountApi:
    """The operation, by its id of `gateway.admin.rest.operations`."""

    async def show_account(self, request: Request) -> Response:
        """Who sends this request."""
        account: AdminAccount = request.state.account
        view = AccountView(
            name=account.name,
            global_access_level=account.global_access_level.word,
            msg_vpn_access_level=account.level_in(request.state.vpn).word,
        )
        return view_answer(view)
