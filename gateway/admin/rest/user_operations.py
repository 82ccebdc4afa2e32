"""The operations on users: accounts of clients. None of them shows anything of a password."""

from typing import Final

from sluicegate.gateway.admin.operation import BAD_BODY, REFUSED, Answer, Operation

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
