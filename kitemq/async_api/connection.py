"""Calls of the REST API over HTTP, and their answers as structs of `kitemq.model`."""

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
import msgspec

from kitemq.address import server_url, tls_context, token_headers
from kitemq.errors import ProtocolViolation, TimedOut, Unreachable
from kitemq.model.conversion import encoded, from_json
from kitemq.rest import API, PAGE, TIMEOUT_S, WAIT_EXTRA_S, ListPage, problem_of, unreachable

T = TypeVar("T")


class AsyncRestConnection:
    """An HTTP connection to one server; close it after use (or `async with`)."""

    def __init__(self, server: str = "", *, timeout_s: float = TIMEOUT_S, ca: str = "") -> None:
        """`ca` is a PEM file of the authorities to trust, else KITEMQ_CA, else the system's."""
        self.url = server_url(server)
        self._timeout_s = timeout_s
        self._http = httpx.AsyncClient(
            base_url=self.url + API,
            headers=token_headers(),
            timeout=timeout_s,
            trust_env=False,
            limits=httpx.Limits(max_connections=None),  # a long poll holds one
            # Loading certificates takes longer than a request: only where they are looked at.
            verify=tls_context(self.url, ca) or False,
        )

    async def close(self) -> None:
        """Close the connection."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def fetch(
        self,
        kind: type[T],
        method: str,
        path: str,
        *,
        body: msgspec.Struct | None = None,
        wait_s: float = 0.0,
        **sent: Any,
    ) -> T:
        """The answer as a `kind`; `body` is sent as JSON. ProtocolViolation for another shape."""
        answer = await self._request(method, path, body=body, wait_s=wait_s, **sent)
        try:
            return from_json(answer.content, kind)
        except msgspec.DecodeError as error:
            raise ProtocolViolation(
                f"{answer.url} answered with no {kind.__name__}: {error}",
                remedy="is this a KiteMQ server of this version?",
            ) from None

    async def pages(
        self,
        kind: type[ListPage[T]],
        path: str,
        *,
        count_max: int = 0,
        page_size: int = PAGE,
        after: str = "cursor",
        **params: Any,
    ) -> AsyncIterator[T]:
        """The items of a list, page by page, at most `count_max` (0: all of them).

        `after` is the name of the parameter that takes a page's `next_cursor`.
        """
        cursor: str | None = ""
        remaining = count_max
        while cursor is not None:
            size = min(page_size, remaining) if count_max else page_size
            query = {**params, "limit": size, after: cursor}
            page = await self.fetch(kind, "GET", path, params=query)
            for item in page.items:
                yield item
            remaining -= len(page.items)
            cursor = page.next_cursor if not count_max or remaining > 0 else None

    async def call(
        self, method: str, path: str, *, body: msgspec.Struct | None = None, **sent: Any
    ) -> None:
        """Call an operation whose answer is empty."""
        await self._request(method, path, body=body, **sent)

    async def content(self, method: str, path: str, **sent: Any) -> bytes:
        """The bytes of the answer."""
        return (await self._request(method, path, **sent)).content

    async def _request(
        self,
        method: str,
        path: str,
        *,
        wait_s: float = 0.0,
        body: msgspec.Struct | None = None,
        **sent: Any,
    ) -> httpx.Response:
        if body is not None:
            sent["content"] = msgspec.json.encode(body, enc_hook=encoded)
            sent["headers"] = {"content-type": "application/json"}
        timeout_s = self._timeout_s + (wait_s + WAIT_EXTRA_S if wait_s else 0.0)
        try:
            answer = await self._http.request(method, path, timeout=timeout_s, **sent)
        except httpx.ConnectError as error:
            raise unreachable(self.url, error) from None
        except httpx.TimeoutException:
            raise TimedOut(f"{self.url} did not answer within {timeout_s:g} s") from None
        except httpx.HTTPError as error:
            raise Unreachable(f"{self.url}: {error}") from None
        if not answer.is_success:
            raise problem_of(answer)
        return answer


class AsyncApi:
    """The operations of one resource."""

    def __init__(self, rest: AsyncRestConnection) -> None:
        self._rest = rest
