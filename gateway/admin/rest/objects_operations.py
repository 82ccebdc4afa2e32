"""The operations on client profiles and ACL profiles: what clients of their users may do."""

from typing import Final

from sluicegate.gateway.admin.operation import (
    BAD_BODY,
    INVALID_PARAMETER,
    REFUSED,
    Answer,
    Operation,
    Parameter,
    TextParameter,
)
from sluicegate.gateway.views.figures import QUEUES_DEFAULT, QUEUES_MAX


def _operations(kind: str, schema: str, words: str) -> tuple[Operation, ...]:
    path = f"/{kind.replace('_', '-')}s"
    absent = Answer(404, f"No {words} has that name", "Problem")
    view = f"{schema}View"
    return (
        Operation(
            f"create_{kind}",
            "POST",
            path,
            f"Make a {words} for users that are made here",
            (
                Answer(201, "Made; `Location` has its path", view),
                Answer(409, "There is one of that name already, or as many as there may be", "Problem"),
                *BAD_BODY,
            ),
            body=schema,
        ),
        Operation(
            f"show_{kind}", "GET", f"{path}/{{name}}", f"One {words}", (Answer(200, "The profile", view), absent)
        ),
        Operation(
            f"update_{kind}",
            "PATCH",
            f"{path}/{{name}}",
            f"Change a {words} that was made here, for connected clients as well; lists are replaced as a whole",
            (Answer(200, "As it is now", view), absent, REFUSED, *BAD_BODY),
            body=f"{schema}Changes",
        ),
        Operation(
            f"delete_{kind}",
            "DELETE",
            f"{path}/{{name}}",
            f"Delete a {words} that was made here, and that no user has",
            (Answer(204, "Deleted"), absent, REFUSED),
        ),
    )


PROFILE_OPERATIONS: Final = (
    Operation(
        "list_profiles",
        "GET",
        "/profiles",
        "Client profiles and ACL profiles: what users may do, and where each comes from",
        (Answer(200, "By name", "ProfilesView"),),
    ),
    *_operations("client_profile", "ClientProfile", "client profile"),
    *_operations("acl_profile", "AclProfile", "ACL profile"),
)


# The operations on queue templates: attributes for queues that are yet to be made.


NO_TEMPLATE: Final = Answer(404, "No queue template has that name", "Problem")

TEMPLATE_OPERATIONS: Final = (
    Operation(
        "list_templates",
        "GET",
        "/queue-templates",
        "Every queue template",
        (Answer(200, "By name", "QueueTemplates"),),
    ),
    Operation(
        "create_template",
        "POST",
        "/queue-templates",
        "Create a queue template; queues whose name fits get its attributes where their maker sets none",
        (
            Answer(201, "Created", "QueueTemplate"),
            Answer(409, "It exists already, or the node refuses", "Problem"),
            *BAD_BODY,
        ),
        body="QueueTemplate",
    ),
    Operation(
        "show_template",
        "GET",
        "/queue-templates/{name}",
        "One queue template",
        (Answer(200, "The template", "QueueTemplate"), NO_TEMPLATE),
    ),
    Operation(
        "update_template",
        "PATCH",
        "/queue-templates/{name}",
        "Change some fields; null takes an attribute out. Queues made from it stay as they are",
        (Answer(200, "As it is now", "QueueTemplate"), NO_TEMPLATE, REFUSED, *BAD_BODY),
        body="QueueTemplateChanges",
    ),
    Operation(
        "delete_template",
        "DELETE",
        "/queue-templates/{name}",
        "Delete a queue template; queues made from it stay as they are",
        (Answer(204, "It is gone"), NO_TEMPLATE, REFUSED),
    ),
)


# The operations on users: accounts of clients. None of them shows anything of a password.


NO_USER: Final = Answer(404, "No user has that name", "Problem")

USER_OPERATIONS: Final = (
    Operation(
        "users",
        "GET",
        "/users",
        "Users: the accounts of clients, where they come from, and how many connections each has",
        (Answer(200, "By name", "UsersView"),),
    ),
    Operation(
        "create_user",
        "POST",
        "/users",
        "Make a user; of the password is kept what proves it",
        (
            Answer(201, "Made; `Location` has its path", "UserView"),
            Answer(409, "There is one of that name already, or as many as there may be", "Problem"),
            *BAD_BODY,
        ),
        body="User",
    ),
    Operation(
        "show_user",
        "GET",
        "/users/{name}",
        "One user",
        (Answer(200, "The user", "UserView"), NO_USER),
    ),
    Operation(
        "update_user",
        "PATCH",
        "/users/{name}",
        "Change a user that was made here; clients of one that is no longer enabled are sent away",
        (Answer(200, "As it is now", "UserView"), NO_USER, REFUSED, *BAD_BODY),
        body="UserChanges",
    ),
    Operation(
        "delete_user",
        "DELETE",
        "/users/{name}",
        "Delete a user that was made here; its clients are sent away, their sessions and queues stay",
        (Answer(204, "Deleted"), NO_USER, REFUSED),
    ),
)


# The operations that displays ask again and again.


QUEUE_NAME_PARAMETER: Final = TextParameter("name", "* is any characters, ? one", 250)
QUEUES_NUMBERS: Final = (
    Parameter("named", "1: without the queues of sessions and shared subscriptions", 0, 1, 0),
    Parameter("after", "queues to pass over", 0, 2**31 - 1, 0),
    Parameter("limit", "most queues to return", 1, QUEUES_MAX, QUEUES_DEFAULT),
)

FIGURES_OPERATIONS: Final = (
    Operation(
        "node_figures",
        "GET",
        "/figures",
        "Totals of the node, by protocol; two answers and the time between them make rates",
        (Answer(200, "Now", "NodeFigures"),),
    ),
    Operation(
        "queues_figures",
        "GET",
        "/figures/queues",
        "A line of numbers for each queue: what waits, what is held, and totals",
        (Answer(200, "A page of queues, by name", "QueuesFigures"), INVALID_PARAMETER),
        parameters=(QUEUE_NAME_PARAMETER, *QUEUES_NUMBERS),
    ),
)


# The operations on REST delivery points.


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
