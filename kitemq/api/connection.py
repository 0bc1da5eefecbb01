# Made from kitemq/async_api/connection.py by `python -m tools.synchronous`: change that file.
"""Calls of the REST API over HTTP, and their answers as structs of `kitemq.model`."""

import time
from collections.abc import Iterator
from time import monotonic
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
import msgspec

from kitemq.address import server_urls, tls_contexts, token_headers
from kitemq.errors import KiteError, ProtocolViolation, TimedOut, Unreachable
from kitemq.model.conversion import encoded, from_json
from kitemq.protocol.frames import STANDBY_HEADER
from kitemq.rest import API, PAGE, TIMEOUT_S, WAIT_EXTRA_S, Json, ListPage, problem_of, unreachable

LOOK_S = 0.1
HANDING_OVER, STANDBY = "handing_over", "standby"  # codes

T = TypeVar("T")


class RestConnection:
    """An HTTP connection to one server; close it after use (or `with`).

    Of several addresses it uses the one that leads; where none does, a standby answers reads. What
    nobody has taken as no one leads, or the leader hands over, is sent again for `timeout_s`.
    """

    def __init__(self, server: str = "", *, timeout_s: float = TIMEOUT_S, ca: str = "") -> None:
        """`ca` is a PEM file of the authorities to trust, else KITEMQ_CA, else the system's."""
        self._urls = server_urls(server)
        self._timeout_s = timeout_s
        self._http = httpx.Client(
            headers=token_headers(),
            timeout=timeout_s,
            trust_env=False,
            limits=httpx.Limits(max_connections=None),  # a long poll holds one
            # Loading certificates takes longer than a request: only where they are looked at.
            verify=tls_contexts(self._urls, ca) or False,
        )

    @property
    def url(self) -> str:
        """The address that is used, or tried next."""
        return self._urls[0]

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def fetch(
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
        answer = self._request(method, path, body=body, wait_s=wait_s, **sent)
        try:
            return from_json(answer.content, kind)
        except msgspec.DecodeError as error:
            raise ProtocolViolation(
                f"{answer.url} answered with no {kind.__name__}: {error}",
                remedy="is this a KiteMQ server of this version?",
            ) from None

    def pages(
        self,
        kind: type[ListPage[T]],
        path: str,
        *,
        count_max: int = 0,
        page_size: int = PAGE,
        after: str = "cursor",
        **params: Any,
    ) -> Iterator[T]:
        """The items of a list, page by page, at most `count_max` (0: all of them).

        `after` is the name of the parameter that takes a page's `next_cursor`.
        """
        cursor: str | None = ""
        remaining = count_max
        while cursor is not None:
            size = min(page_size, remaining) if count_max else page_size
            query = {**params, "limit": size, after: cursor}
            page = self.fetch(kind, "GET", path, params=query)
            yield from page.items
            remaining -= len(page.items)
            cursor = page.next_cursor if not count_max or remaining > 0 else None

    def call(
        self, method: str, path: str, *, body: msgspec.Struct | None = None, **sent: Any
    ) -> None:
        """Call an operation whose answer is empty."""
        self._request(method, path, body=body, **sent)

    def content(self, method: str, path: str, **sent: Any) -> bytes:
        """The bytes of the answer."""
        return (self._request(method, path, **sent)).content

    def _request(
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
        sent["timeout"] = self._timeout_s + (wait_s + WAIT_EXTRA_S if wait_s else 0.0)
        until_s = monotonic() + self._timeout_s if len(self._urls) > 1 else 0.0
        while True:
            answer = self._ask(method, API + path, sent)
            if isinstance(answer, httpx.Response) and answer.is_success:
                return answer
            error = answer if isinstance(answer, KiteError) else problem_of(answer)
            if error.code == HANDING_OVER and not until_s:
                until_s = monotonic() + self._timeout_s
            is_passing = error is answer or error.code in (HANDING_OVER, STANDBY)
            if not is_passing or monotonic() >= until_s:
                raise error
            time.sleep(LOOK_S)

    def _ask(self, method: str, path: str, sent: Json) -> httpx.Response | KiteError:
        """The answer of the leader, else a standby's; else why nobody has got the request.

        Raises TimedOut and Unreachable where somebody may have.
        """
        standby: httpx.Response | None = None
        failure: KiteError | None = None
        for _ in range(len(self._urls)):
            url = self.url
            try:
                answer = self._http.request(method, url + path, **sent)
            except httpx.ConnectError as error:
                failure = unreachable(url, error)
            except httpx.TimeoutException as error:
                failure = TimedOut(f"{url} did not answer within {sent['timeout']:g} s")
                if not isinstance(error, httpx.ConnectTimeout):  # it may have done it
                    raise failure from None
            except httpx.HTTPError as error:
                raise Unreachable(f"{url}: {error}") from None
            else:
                if STANDBY_HEADER not in answer.headers:
                    return answer
                standby = answer
            self._urls.append(self._urls.pop(0))
        if standby is not None:
            return standby
        assert failure is not None, "there is an address"
        return failure


class Api:
    """The operations of one resource."""

    def __init__(self, rest: RestConnection) -> None:
        self._rest = rest
