"""The router: what a request does, by its method and path, and whether its client has to be authenticated first.

A POST of a message is published at once if nothing has to be waited for; any other request has a task.
"""

from typing import Final

from sluicegate.protocols.http.client import HttpClient, HttpServices
from sluicegate.protocols.http.codec.paths import QUEUE_PREFIX, destination_of_path
from sluicegate.protocols.http.codec.requests import Request
from sluicegate.protocols.http.codec.responses import METHOD_NOT_ALLOWED, NO_CONTENT, HttpProblem
from sluicegate.protocols.http.consuming.delivery_forms import FLOW_PREFIX
from sluicegate.protocols.http.requests.consume import end_flow, read_flow, read_queue, settle
from sluicegate.protocols.http.requests.publish import is_batch, post, post_and_wait, post_batch, relay, wants_reply
from sluicegate.protocols.http.requests.relayed import home_of_request, relay_to_broker

QUEUE_PATH: Final = QUEUE_PREFIX.encode()
FLOW_PATH: Final = FLOW_PREFIX.encode()
FLOW_METHODS: Final = b"DELETE, GET, OPTIONS, POST"
QUEUE_METHODS: Final = b"GET, OPTIONS, POST"
TOPIC_METHODS: Final = b"OPTIONS, POST"


def serve_at_once(client: HttpClient, request: Request) -> bool:
    """Publish the message of a request if nothing has to be waited for; return whether it did. Raises HttpProblem."""
    here = client.services_of(request)
    if (
        request.method != "POST"
        or not request.is_whole
        or request.raw_path.startswith(FLOW_PATH)
        or here.is_gateway
        or client.read_control.stopped
        or wants_reply(request)
        or is_batch(request)
        or not client.is_known(request, here)
    ):
        return False
    post(client, request, destination_of_path(request.raw_path))
    return True


async def serve(client: HttpClient, request: Request) -> None:
    """Carry out any request. Raises HttpProblem and ClientLeft."""
    here = client.services_of(request)
    if here.is_gateway:
        await _relay(client, request, here)
        return
    method = request.method
    is_flow = request.raw_path.startswith(FLOW_PATH)
    is_queue = request.raw_path.startswith(QUEUE_PATH)
    methods = FLOW_METHODS if is_flow else QUEUE_METHODS if is_queue else TOPIC_METHODS
    if method == "OPTIONS":
        headers = client.cross_origin.preflight(request, methods)
        request.answer(NO_CONTENT, headers=[(b"allow", methods), *headers])
        return
    if method.encode("latin-1", "replace") not in methods.split(b", "):
        detail = f"{method:.20} is not allowed here; allowed: {methods.decode()}"
        raise HttpProblem(METHOD_NOT_ALLOWED, detail, headers=[(b"allow", methods)])
    if method == "POST":
        await client.wait_for_destinations()
    principal = await client.principal(request, here)
    home = home_of_request(client, request, is_flow=is_flow)
    if home:
        await relay_to_broker(client, request, principal, home)
    elif is_flow:
        if method == "GET":
            await read_flow(client, request, principal)
        elif method == "POST":
            await settle(client, request, principal)
        else:
            await end_flow(client, request, principal)
    elif method == "GET":
        await read_queue(client, request, principal)
    else:
        destination = destination_of_path(request.raw_path)
        await client.whole(request, client.services.limits.body_bytes_max)
        if wants_reply(request):
            await post_and_wait(client, request, destination)
        elif is_batch(request):
            await post_batch(client, request, destination)
        else:
            post(client, request, destination)


async def _relay(client: HttpClient, request: Request, here: HttpServices) -> None:
    """Answer a request in gateway mode; only a browser's preflight is not relayed."""
    asked = request.header("access-control-request-method")
    if request.method == "OPTIONS" and asked:
        headers = client.cross_origin.preflight(request, asked.encode("latin-1", "replace"))
        request.answer(NO_CONTENT, headers=headers)
        return
    await client.wait_for_destinations()
    await client.principal(request, here)
    await relay(client, request)
