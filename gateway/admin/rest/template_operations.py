"""The operations on queue templates: attributes for queues that are yet to be made."""

from typing import Final

from sluicegate.gateway.admin.operation import BAD_BODY, REFUSED, Answer, Operation

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
