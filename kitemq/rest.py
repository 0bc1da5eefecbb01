"""Calls of the REST API over HTTP, and their answers as structs of `kitemq.model`."""

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from kitemq.address import server_url, tls_context, token_headers
from kitemq.errors import KiteError, ProtocolViolation, TimedOut, Unreachable, rejected
from kitemq.model.conversion import encoded, from_json

API = "/api/v1"
TIMEOUT_S = 10.0
WAIT_EXTRA_S = 10.0  # beyond a long poll, before its answer counts as lost
PAGE = 200

Json = dict[str, Any]
T = TypeVar("T")


class ListPage(Protocol[T]):
    """A page of a list, and the cursor of the next one."""

    @property
    def items(self) -> list[T]: ...

    @property
    def next_cursor(self) -> str | None: ...


class RestConnection:
    """An HTTP connection to one server; thread-safe, close it after use (or `with`)."""

    def __init__(self, server: str = "", *, timeout_s: float = TIMEOUT_S, ca: str = "") -> None:
        """`ca` is a PEM file of the authorities to trust, else KITEMQ_CA, else the system's."""
        self.url = server_url(server)
        self._timeout_s = timeout_s
        self._http = httpx.Client(
            base_url=self.url + API,
            headers=token_headers(),
            timeout=timeout_s,
            trust_env=False,
            # Loading certificates takes longer than a request: only where they are looked at.
            verify=tls_context(self.url, ca) or False,
        )

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

    def _typed(
        self,
        kind: type[T],
        method: str,
        path: str,
        *,
        body: msgspec.Struct | None = None,
        **sent: Any,
    ) -> T:
        """The answer as a `kind`; `body` is sent as JSON. ProtocolViolation for another shape."""
        answer = self._answer(method, path, body=body, **sent)
        try:
            return from_json(answer.content, kind)
        except msgspec.DecodeError as error:
            raise ProtocolViolation(
                f"{answer.url} answered with no {kind.__name__}: {error}",
                remedy="is this a KiteMQ server of this version?",
            ) from None

    def _listed(
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
        left = count_max
        while cursor is not None:
            size = min(page_size, left) if count_max else page_size
            page = self._typed(kind, "GET", path, params={**params, "limit": size, after: cursor})
            yield from page.items
            left -= len(page.items)
            cursor = page.next_cursor if not count_max or left > 0 else None

    def _call(self, method: str, path: str, *, wait_s: float = 0.0, **given: Any) -> Json:
        return answer_of(self._asked(method, path, wait_s=wait_s, **given))

    def _answer(self, method: str, path: str, **given: Any) -> httpx.Response:
        answer = self._asked(method, path, **given)
        if not answer.is_success:
            answer_of(answer)  # which raises
        return answer

    def _asked(
        self,
        method: str,
        path: str,
        *,
        wait_s: float = 0.0,
        body: msgspec.Struct | None = None,
        **given: Any,
    ) -> httpx.Response:
        if body is not None:
            given["content"] = msgspec.json.encode(body, enc_hook=encoded)
            given["headers"] = {"content-type": "application/json"}
        timeout_s = self._timeout_s + (wait_s + WAIT_EXTRA_S if wait_s else 0.0)
        try:
            return self._http.request(method, path, timeout=timeout_s, **given)
        except httpx.ConnectError as error:
            raise _unreachable(self.url, error) from None
        except httpx.TimeoutException:
            raise TimedOut(f"{self.url} did not answer within {timeout_s:g} s") from None
        except httpx.HTTPError as error:
            raise Unreachable(f"{self.url}: {error}") from None


def segment(name: str) -> str:
    """A name as one segment of a path."""
    return quote(name, safe="")


def answer_of(answer: httpx.Response) -> Json:
    """The document of an answer; raises the error that a problem document tells of."""
    if answer.status_code == httpx.codes.NO_CONTENT:
        return {}
    try:
        document: Json = answer.json()
    except ValueError:
        raise ProtocolViolation(
            f"{answer.url} answered {answer.status_code} with something that is no JSON",
            remedy="is this a KiteMQ server?",
        ) from None
    if answer.is_success:
        return document
    raise _problem(answer, document)


def _problem(answer: httpx.Response, document: Json) -> KiteError:
    faults = document.get("errors") or [{}]
    return rejected(
        document.get("code", f"http_{answer.status_code}"),
        document.get("detail", answer.reason_phrase),
        field=faults[0].get("field", ""),
        remedy=faults[0].get("remedy", ""),
        retry_after_s=float(document.get("retry_after_s") or 0.0),
    )


def _unreachable(url: str, error: Exception) -> Unreachable:
    return Unreachable(
        f"no KiteMQ at {url}: {error}",
        remedy="start it with `kitemq serve`, or give --server or KITEMQ_SERVER",
    )
