"""What the admin port tells those who use it of themselves."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountView:
    """Whose request it was. Levels are none, read-only, read-write and admin."""

    name: str  # empty: the gateway has no accounts for operators, and whoever reaches it may do everything
    global_access_level: str  # in the node
    msg_vpn_access_level: str  # in the message VPN that was asked about
