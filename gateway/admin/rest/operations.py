"""The table of all operations of the admin API."""

from typing import Final

from sluicegate.gateway.admin.rest.clients import CLIENTS
from sluicegate.gateway.admin.rest.messages import MESSAGES
from sluicegate.gateway.admin.rest.node import NODE
from sluicegate.gateway.admin.rest.provisioned import PROVISIONED
from sluicegate.gateway.admin.rest.queues import QUEUES

OPERATIONS: Final = tuple(each for part in (NODE, QUEUES, MESSAGES, CLIENTS, PROVISIONED) for each in part.all)
