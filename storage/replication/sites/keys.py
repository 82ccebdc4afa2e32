"""The key of a site's state, in the bucket of the site's own NATS servers. Needs nats-py."""

import base64
from typing import Final, NamedTuple, final

from nats.aio.client import Client

from sluicegate.storage.replication.jetstream import stream_name
from sluicegate.storage.replication.ownership.bucket import ANSWER_S, BUCKET, EXPECTED, STREAM
from sluicegate.storage.replication.requests import DELETED, NO_MESSAGE, NO_STREAM, Requests
from sluicegate.storage.replication.sites.states import SiteState, UnreadableState, decode_state, encode_state


class StoredState(NamedTuple):
    """The state of a site, as the leader of its bucket has it."""

    state: SiteState | None  # None: the site has none yet
    revision: int  # of the key; 0 when it was never written
    has_bucket: bool = True  # False: these servers have not even a place for it


@final
class SiteKeys:
    """The state of a site of one broker. Each method raises StreamUnavailable and StreamRefused."""

    def __init__(self, client: Client, broker: str) -> None:
        """Use a connection of `connected`, to the servers of that site."""
        self._requests: Final = Requests(client, STREAM, answer_s=ANSWER_S)
        self._subject: Final = f"$KV.{BUCKET}.{stream_name(broker)}.site"

    async def read(self) -> StoredState:
        """Return the state. Raises UnreadableState."""
        answer = await self._requests.api(f"STREAM.MSG.GET.{STREAM}", {"last_by_subj": self._subject})
        if "error" in answer:
            code = answer["error"].get("err_code")
            if code in (NO_MESSAGE, NO_STREAM):
                return StoredState(None, 0, has_bucket=code == NO_MESSAGE)
            raise self._requests.refusal(answer["error"])
        message = answer["message"]
        if DELETED in base64.b64decode(message.get("hdrs", "")):
            # Who took it for a site that is new would begin with the role of its configuration.
            raise UnreadableState(f"key {self._subject} was deleted: nobody knows which site is active")
        value = base64.b64decode(message.get("data", ""))
        return StoredState(decode_state(value, f"key {self._subject}"), message["seq"])

    async def put(self, state: SiteState, expected: int) -> int | None:
        """Write the state if its revision is the expected one; return the new one, None when it is not.

        A write whose answer was lost is found when it is repeated: then its revision is returned, too.
        """
        revision = await self._requests.write(self._subject, encode_state(state), {EXPECTED: str(expected)})
        if revision is not None:
            return revision
        stored = await self.read()
        return stored.revision if stored.state == state else None
