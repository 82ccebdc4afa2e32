"""The operations on REST delivery points."""

from typing import Final

from sluicegate.gateway.admin.operation import BAD_BODY, REFUSED, Answer, Operation

NO_POINT: Final = Answer(404, "No REST delivery point has that name", "Problem")

REST_OPERATIONS: Final = (
    Operation(
        "rest_delivery_points",
        "GET",
        "/rest-delivery-points",
        "REST delivery points: which are up, what holds them up, and what became of messages",
        (Answer(200, "By name", "RestDeliveryPointsView"),),
    ),
    Operation(
        "create_rest_delivery_point",
        "POST",
        "/rest-delivery-points",
        "Make a REST delivery point, and start it",
        (
            Answer(201, "Made; `Location` has its path", "RestDeliveryPointView"),
            Answer(409, "There is one of that name already, or a file that it names cannot be used", "Problem"),
            *BAD_BODY,
        ),
        body="RestDeliveryPoint",
    ),
    Operation(
        "show_rest_delivery_point",
        "GET",
        "/rest-delivery-points/{name}",
        "One REST delivery point: its definition, its state, and what became of messages",
        (Answer(200, "The delivery point", "RestDeliveryPointView"), NO_POINT),
    ),
    Operation(
        "update_rest_delivery_point",
        "PATCH",
        "/rest-delivery-points/{name}",
        "Change a REST delivery point that was made here; lists are replaced as a whole, and it begins anew",
        (Answer(200, "As it is now", "RestDeliveryPointView"), NO_POINT, REFUSED, *BAD_BODY),
        body="RestDeliveryPointChanges",
    ),
    Operation(
        "delete_rest_delivery_point",
        "DELETE",
        "/rest-delivery-points/{name}",
        "Delete a REST delivery point that was made here; what it held goes back to its queues",
        (Answer(204, "Deleted"), NO_POINT, REFUSED),
    ),
)
