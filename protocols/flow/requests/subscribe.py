"""Carry out SUBSCRIBE and UNSUBSCRIBE, and respond once they are in force.

Flow: subscriptions.
"""

from sluicegate.actors.messages.router import AddSubscription, AwaitNeighbors, GroupJoined, JoinGroup, SubscriptionAdded
from sluicegate.messaging.clients.rights import ClientDenied
from sluicegate.messaging.message.batch import AT_MOST_ONCE
from sluicegate.messaging.routing.deliver_to_one import PriorityInvalid, priorities_of
from sluicegate.messaging.routing.destinations import Subscriber, Subscription
from sluicegate.messaging.selectors.lexer import SelectorError
from sluicegate.messaging.topics.syntax import TopicError, parse_shared, parse_subscription, syntax_of
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frame import SESSION, SUBSCRIBE
from sluicegate.protocols.flow.codec.frames.subscription import Subscribe, Subscribed
from sluicegate.protocols.flow.datapath.subscribing import MadeSubscription, end_of
from sluicegate.protocols.flow.peer import FlowPeer


def take_subscribe(peer: FlowPeer, request: Subscribe) -> None:
    """Carry out a request; nothing more is read from the client until it is answered."""
    peer.subscriptions.unanswered_count += 1
    peer.read_control.busy(True)
    peer.carry_out(_carry_out(peer, request))


async def _carry_out(peer: FlowPeer, request: Subscribe) -> None:
    code, text = codes.REQUEST_INVALID, ""
    subscribing = peer.subscriptions
    try:
        if request.kind == SUBSCRIBE:
            await _subscribe(peer, request)
        else:
            await _unsubscribe(peer, request.topic_filter)
    except (TopicError, SelectorError, PriorityInvalid) as error:
        text = str(error)
    except ClientDenied as denied:
        code, text = codes.PERMISSION_DENIED, denied.text
    finally:
        subscribing.unanswered_count -= 1
        if subscribing.unanswered_count == 0:
            peer.read_control.busy(False)
    if text:
        peer.refuse_request(SESSION, request.request_id, code, text, None)
    else:
        peer.send(Subscribed(request.kind, request.request_id).encode())


async def _subscribe(peer: FlowPeer, request: Subscribe) -> None:
    services, rights, by_text = peer.services, peer.identity.rights, peer.subscriptions.by_text
    text = request.topic_filter
    selector = services.selectors.compile(request.selector) if request.selector.strip() else None
    priorities = priorities_of(list(request.priorities))
    is_new = text not in by_text
    count = len(by_text) - (not is_new)
    shared = parse_shared(text)
    if shared is not None:
        if selector is not None or priorities:
            allowed = "a filter of the client's own"
            raise TopicError("a selector or priority of a group", text=text, level=None, allowed=allowed)
        rights.check_share(shared.share_name)
        rights.check_subscription(shared.filter, count, is_new=is_new, share_name=shared.share_name)
        subscriber = _subscriber(peer)
        by_text[text] = MadeSubscription(shared, Subscription(subscriber, AT_MOST_ONCE))
        join = JoinGroup(subscriber, shared.share_name, shared.filter, AT_MOST_ONCE, durable=False)
        joined: GroupJoined = await services.router.ask(join)
        if joined.travels:
            await services.router.ask(AwaitNeighbors())
        return
    topic_filter = parse_subscription(text, syntax_of(text))
    selects = "" if selector is None else selector.text
    rights.check_subscription(topic_filter, count, is_new=is_new, selector=selects)
    subscriber = _subscriber(peer)
    by_text[text] = MadeSubscription(topic_filter, Subscription(subscriber, AT_MOST_ONCE, selector, priorities))
    added: SubscriptionAdded = await services.router.ask(
        AddSubscription(
            subscriber,
            topic_filter,
            AT_MOST_ONCE,
            retained_if_new=False,
            retained_if_known=False,
            selector=selector,
            priorities=priorities,
        )
    )
    if added.travels:
        await services.router.ask(AwaitNeighbors())


async def _unsubscribe(peer: FlowPeer, text: str) -> None:
    made = peer.subscriptions.by_text.pop(text, None)
    if made is not None:
        await peer.services.router.ask(end_of(made.filter, made.subscription.subscriber))


def _subscriber(peer: FlowPeer) -> Subscriber:
    return peer.subscriptions.subscriber(peer.client, peer.identity.rights.profile.dto_local_priority)
