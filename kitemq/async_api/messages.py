"""Messages: sending and pulling them without a connection, finding them, request and reply."""

from collections.abc import AsyncIterator, Mapping, Sequence
from uuid import uuid4

from kitemq.async_api.connection import AsyncApi
from kitemq.errors import KiteError
from kitemq.message import Message, new_message
from kitemq.model.messages import (
    KeyedMessages,
    MessageList,
    MessageView,
    Order,
    PullPage,
    SearchPage,
    SearchResult,
    Stored,
)
from kitemq.model.produce import NewBatch, NewMessage, ProduceResult
from kitemq.model.requests import ReplyState, RequestAnswer, RequestTotals, StoredReply
from kitemq.model.topics import Durability
from kitemq.requests import (
    TIMEOUT_S,
    Reply,
    failure_of,
    new_reply,
    new_request,
    reply_of,
)
from kitemq.rest import PAGE, Json, segment

KEY_PAGE = 64
SEARCH_WAIT_S = 10.0  # the longest that the server looks before it answers


class AsyncMessagesApi(AsyncApi):
    """`client.messages`: send, pull, find and search messages, ask and answer over a topic."""

    async def send(
        self,
        topic: str,
        messages: Sequence[Message | NewMessage],
        *,
        durability: Durability | str | None = None,
    ) -> ProduceResult:
        """Store messages together, at most 4,096, or none of them.

        `kitemq.model.produce.NewMessage` has fields that `Message` lacks: a queue, an id.
        """
        new = [new_message(each) if isinstance(each, Message) else each for each in messages]
        body = NewBatch(new, Durability(durability) if durability else None)
        return await self._rest.fetch(ProduceResult, "POST", f"{_path(topic)}/messages", body=body)

    async def pull(
        self,
        topic: str,
        queue: int,
        offset: int,
        *,
        limit: int = 32,
        filter: str = "*",
        wait_s: float = 0.0,
        group: str = "",
    ) -> PullPage:
        """Messages of a queue from `offset`, at most `limit` (160); pull on from `next_offset`.

        Waits up to `wait_s` (30) for one. On behalf of a `group` it needs the right to consume.
        """
        params = {
            "queue": queue,
            "offset": offset,
            "limit": limit,
            "filter": filter,
            "wait_ms": round(wait_s * 1000),
            "group": group,
        }
        path = f"{_path(topic)}/messages"
        return await self._rest.fetch(PullPage, "GET", path, params=params, wait_s=wait_s)

    async def get(self, topic: str, queue: int, offset: int | str) -> Stored:
        """The message at an offset of a queue; NotFound."""
        return await self._rest.fetch(Stored, "GET", f"{_path(topic)}/messages/{queue}/{offset}")

    # -- finding --------------------------------------------------------------------------------

    async def find(self, message_id: str) -> list[MessageView]:
        """The messages with a message id or offset id."""
        path = f"/messages/{segment(message_id)}"
        return (await self._rest.fetch(MessageList, "GET", path)).items

    async def find_by_key(
        self, topic: str, key: str, *, limit: int = 32, begin_ms: int = 0, end_ms: int = 0
    ) -> list[MessageView]:
        """At most `limit` messages of a topic that carry `key`, newest first.

        Stored from `begin_ms` to before `end_ms` (ms since 1970 UTC; 0: no end).
        """
        if limit < 1:
            return []
        path = f"{_path(topic)}/messages/by-key"
        params: Json = {"key": key, "begin_ms": begin_ms, "end_ms": end_ms}
        pages = self._rest.pages(KeyedMessages, path, count_max=limit, page_size=KEY_PAGE, **params)
        return [message async for message in pages]

    async def find_anything(self, text: str) -> SearchResult:
        """Messages with this id or key in any topic, and topics and groups of such names."""
        params = {"q": text}
        return await self._rest.fetch(
            SearchResult, "GET", "/search", params=params, wait_s=SEARCH_WAIT_S
        )

    async def search(
        self,
        topic: str,
        *,
        begin_ms: int = 0,
        end_ms: int = 0,
        filter: str = "*",
        contains: str = "",
        order: Order = "oldest",
        limit: int = 0,
    ) -> AsyncIterator[Stored]:
        """Messages of a topic, the oldest or the newest first, at most `limit` (0: all of them).

        Stored from `begin_ms` to before `end_ms` (ms since 1970 UTC; 0: no end), that match the
        filter and whose body contains a text.
        """
        cursor: str | None = ""
        remaining = limit
        while cursor is not None:
            page = await self.search_page(
                topic,
                begin_ms=begin_ms,
                end_ms=end_ms,
                filter=filter,
                contains=contains,
                order=order,
                limit=min(PAGE, remaining) if limit else PAGE,
                cursor=cursor,
            )
            for item in page.items:
                yield item
            remaining -= len(page.items)
            cursor = page.next_cursor if not limit or remaining > 0 else None

    async def search_page(
        self,
        topic: str,
        *,
        begin_ms: int = 0,
        end_ms: int = 0,
        filter: str = "*",
        contains: str = "",
        order: Order = "oldest",
        limit: int = 32,
        cursor: str = "",
        budget_s: float = 2.0,
    ) -> SearchPage:
        """One page: `items`, and with `scanned`, `total` and `matched` how far the search is.

        It ends when it is full or after `budget_s` (10 s at most), then `next_cursor` goes on.
        """
        params = {
            "begin_ms": begin_ms,
            "end_ms": end_ms,
            "filter": filter,
            "contains": contains,
            "order": order,
            "limit": limit,
            "cursor": cursor,
            "budget_ms": round(budget_s * 1000),
        }
        path = f"{_path(topic)}/search"
        return await self._rest.fetch(SearchPage, "GET", path, params=params, wait_s=SEARCH_WAIT_S)

    # -- request and reply ----------------------------------------------------------------------

    async def request(
        self,
        topic: str,
        message: Message | bytes | str,
        *,
        timeout_s: float = TIMEOUT_S,
        correlation_id: str = "",
    ) -> Reply:
        """Send a message and wait up to `timeout_s` (30) for the reply to it.

        Raises NoReply after that; its `correlation_id` finds a reply that comes later.
        """
        correlation_id = correlation_id or uuid4().hex
        body = new_request(message, timeout_s, correlation_id)
        path = f"{_path(topic)}/request"
        try:
            answer = await self._rest.fetch(
                RequestAnswer, "POST", path, body=body, wait_s=timeout_s
            )
        except KiteError as error:
            raise failure_of(error, correlation_id) from None
        return reply_of(answer)

    async def reply(
        self,
        body: bytes | str,
        *,
        correlation_id: str = "",
        receipt: str = "",
        tag: str = "",
        properties: Mapping[str, str] | None = None,
    ) -> str:
        """Answer a request, named by its correlation id or by the receipt of its delivery.

        Returns "delivered"; "late" if the requester no longer waits, when the reply is stored;
        "already" if the request was answered before.
        """
        new = new_reply(
            body, correlation_id=correlation_id, receipt=receipt, tag=tag, properties=properties
        )
        return (await self._rest.fetch(ReplyState, "POST", "/replies", body=new)).result

    async def find_reply(self, correlation_id: str) -> Reply:
        """The reply to a request, late or not, while it is kept; NotFound where there is none."""
        path = f"/replies/{segment(correlation_id)}"
        reply = await self._rest.fetch(StoredReply, "GET", path, params={"encoding": "base64"})
        return reply_of(reply, late=reply.late)

    async def request_totals(self) -> RequestTotals:
        """Requests since the start of the server: how many wait, and how the others ended."""
        return await self._rest.fetch(RequestTotals, "GET", "/requests")


def _path(topic: str) -> str:
    return f"/topics/{segment(topic)}"
