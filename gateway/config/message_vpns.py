"""What belongs to one message VPN: its quotas, accounts, queues, virtual destinations and delivery points."""

from typing import Literal

from pydantic import Field

from gateway.config.authentication import Authentication
from gateway.config.rest_delivery_points import RestDeliveryPoint
from gateway.config.section import Section
from gateway.config.sections import Pair, Queues
from gateway.config.sizes import TIB, Size
from gateway.config.virtual_destinations import VirtualDestinationsSection


class Vpn(Section):
    """Quotas and choices of a message VPN. At the top they are those of the VPN `default`."""

    usage_bytes_max: Size = Field(
        default=64 * TIB, ge=0, le=64 * TIB, description="quota of its queues together; the node's quota counts too"
    )
    usage_threshold: Pair = Field(default="80/60%", description="event for its usage; values are MB")
    reject_msg_to_sender_on_no_subscription_match: bool = Field(
        default=False, description="refuse guaranteed messages that nobody subscribes to, instead of dropping them"
    )
    service_rest_mode: Literal["messaging", "gateway"] = Field(
        default="messaging", description="gateway: every HTTP request is relayed, and its reply is the response"
    )


class MessageVpn(Vpn):
    """A message VPN as a whole."""

    authentication: Authentication = Authentication()
    queues: Queues = Queues()
    virtual_destinations: VirtualDestinationsSection = VirtualDestinationsSection()
    rest_delivery_points: tuple[RestDeliveryPoint, ...] = ()
