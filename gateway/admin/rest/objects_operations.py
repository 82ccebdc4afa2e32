"""The operations on client profiles and ACL profiles: what clients of their users may do."""

from typing import Final

from sluicegate.gateway.admin.operation import BAD_BODY, REFUSED, Answer, Operation


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
