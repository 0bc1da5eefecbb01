"""Shared parts of REST calls: limits, pages of a list, answers that are errors."""

from typing import Any, Protocol, TypeVar
from urllib.parse import quote

import httpx

from kitemq.errors import KiteError, ProtocolViolation, Unreachable, rejected

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


def segment(name: str) -> str:
    """A name as one segment of a path."""
    return quote(name, safe="")


def problem_of(answer: httpx.Response) -> KiteError:
    """The error that a problem document tells of; ProtocolViolation where there is none."""
    try:
        document: Json = answer.json()
    except ValueError:
        return ProtocolViolation(
            f"{answer.url} answered {answer.status_code} with something that is no JSON",
            remedy="is this a KiteMQ server?",
        )
    faults = document.get("errors") or [{}]
    return rejected(
        document.get("code", f"http_{answer.status_code}"),
        document.get("detail", answer.reason_phrase),
        field=faults[0].get("field", ""),
        remedy=faults[0].get("remedy", ""),
        retry_after_s=float(document.get("retry_after_s") or 0.0),
    )


def unreachable(url: str, error: Exception) -> Unreachable:
    """The error where no connection could be made."""
    return Unreachable(
        f"no KiteMQ at {url}: {error}",
        remedy="start it with `kitemq serve`, or give --server or KITEMQ_SERVER",
    )
