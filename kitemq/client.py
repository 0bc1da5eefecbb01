"""The REST interface for Python: administration, pull, and consuming without a connection.

Answers are the JSON documents of `docs/rest.md`, as dicts; offsets in them are texts.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from kitemq.address import server_url, tls_context, token_headers
from kitemq.controlling import Controlling
from kitemq.errors import KiteError, ProtocolViolation, TimedOut, Unreachable, rejected
from kitemq.membership import Membership
from kitemq.replays import Replaying
from kitemq.reports import Reporting
from kitemq.requests import Requesting
from kitemq.resets import Resetting
from kitemq.retention import Keeping
from kitemq.scheduled import Scheduling
from kitemq.searching import Searching
from kitemq.statistics import Counting
from kitemq.traces import Tracing

API = "/api/v1"
TIMEOUT_S = 10.0
WAIT_EXTRA_S = 10.0  # beyond a long poll, before its answer counts as lost
PAGE = 200
KEY_PAGE = 64

Json = dict[str, Any]


class Client(
    Scheduling,
    Replaying,
    Keeping,
    Tracing,
    Membership,
    Counting,
    Reporting,
    Requesting,
    Resetting,
    Searching,
    Controlling,
):
    """Talks REST to one server; thread-safe, close it after use (or `with`).

    Every method raises Invalid, NotFound, Refused or Busy as the server says, Unreachable where
    there is no server, and TimedOut where no answer came within `timeout_s` (plus any wait asked
    for).
    """

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

    # -- topics ---------------------------------------------------------------------------------

    def topics(self, *, q: str = "", type: str = "", system: bool = False) -> Iterator[Json]:
        """Every topic by name, page by page; `q` is a part of the name."""
        given = {"q": q, "system": "true" if system else "false"}
        return self._pages("/topics", {**given, **({"type": type} if type else {})})

    def topic(self, name: str) -> Json:
        """One topic with its queues."""
        return self._call("GET", f"/topics/{_part(name)}")

    def create_topic(self, name: str, **settings: Any) -> Json:
        """Create a topic; settings: type, read_queues, write_queues, permission, promise,
        retention_ms.
        """
        return self._call("POST", "/topics", json={"name": name, **settings})

    def change_topic(self, name: str, **settings: Any) -> Json:
        """Change what is given."""
        return self._call("PATCH", f"/topics/{_part(name)}", json=settings)

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its messages."""
        self._call("DELETE", f"/topics/{_part(name)}")

    def import_topics(self, content: str, *, format: str = "", dry_run: bool = False) -> Json:
        """Create and change topics by a file's text; its `rows` say what became of each.

        CSV with a head, or JSON; with `dry_run` nothing changes.
        """
        document = {"content": content, "format": format, "dry_run": dry_run}
        return self._call("POST", "/topics/import", json=document)

    # -- groups ---------------------------------------------------------------------------------

    def groups(self, *, q: str = "") -> Iterator[Json]:
        """Every consumer group by name, page by page."""
        return self._pages("/groups", {"q": q})

    def group(self, name: str) -> Json:
        return self._call("GET", f"/groups/{_part(name)}")

    def create_group(self, name: str, **settings: Any) -> Json:
        """Create a group; settings: retry_max, start, start_at_ms, consume_enabled, dead_letters,
        mode, retry_policy, strategy, rooms, ordered.
        """
        return self._call("POST", "/groups", json={"name": name, **settings})

    def change_group(self, name: str, **settings: Any) -> Json:
        """Change what is given."""
        return self._call("PATCH", f"/groups/{_part(name)}", json=settings)

    def delete_group(self, name: str) -> None:
        """Delete a group with its progress."""
        self._call("DELETE", f"/groups/{_part(name)}")

    def lag(self, group: str) -> Json:
        """What a group has still to do, queue by queue."""
        return self._call("GET", f"/groups/{_part(group)}/lag")

    def offsets(self, group: str, topic: str, *, client: str = "") -> Json:
        """A group's committed offsets in a topic; those of `client` where it broadcasts."""
        params = {"topic": topic, "client": client}
        return self._call("GET", f"/groups/{_part(group)}/offsets", params=params)

    def commit_offset(
        self, group: str, topic: str, queue: int, offset: int, *, client: str = ""
    ) -> None:
        """Set where a group goes on in a queue, backwards too; `client` where it broadcasts."""
        document = {"topic": topic, "queue": queue, "offset": str(offset), "client": client}
        self._call("PUT", f"/groups/{_part(group)}/offsets", json=document)

    # -- messages -------------------------------------------------------------------------------

    def send(self, topic: str, messages: Sequence[Mapping[str, Any]], *, promise: str = "") -> Json:
        """Store messages (documents as in docs/rest.md) together, or none of them."""
        document: Json = {"messages": list(messages)}
        if promise:
            document["promise"] = promise
        return self._call("POST", f"/topics/{_part(topic)}/messages", json=document)

    def pull(
        self,
        topic: str,
        queue: int,
        offset: int,
        *,
        limit: int = 32,
        filter: str = "*",
        wait_s: float = 0.0,
        group: str = "",
    ) -> Json:
        """Messages of a queue from `offset`, at most `limit` (160); waits up to 30 s for one."""
        params = {
            "queue": queue,
            "offset": offset,
            "limit": limit,
            "filter": filter,
            "wait_ms": round(wait_s * 1000),
            "group": group,
        }
        return self._call("GET", f"/topics/{_part(topic)}/messages", params=params, wait_s=wait_s)

    def find(self, message_id: str) -> list[Json]:
        """The messages with a message id or offset id."""
        found: list[Json] = self._call("GET", f"/messages/{_part(message_id)}")["items"]
        return found

    def find_by_key(
        self, topic: str, key: str, *, limit: int = 32, begin_ms: int = 0, end_ms: int = 0
    ) -> list[Json]:
        """At most `limit` messages of a topic that carry `key`, newest first.

        Stored from `begin_ms` to before `end_ms` (ms since 1970 UTC; 0: no end).
        """
        path = f"/topics/{_part(topic)}/messages/by-key"
        found: list[Json] = []
        cursor: str | None = ""
        while cursor is not None and len(found) < limit:
            count = min(KEY_PAGE, limit - len(found))
            params: Json = {"key": key, "limit": count, "begin_ms": begin_ms, "end_ms": end_ms}
            page = self._call("GET", path, params=params | {"cursor": cursor})
            found += page["items"]
            cursor = page["next_cursor"]
        return found

    # -- transactions ---------------------------------------------------------------------------

    def transactions(self, *, group: str = "", given_up: bool = False) -> Iterator[Json]:
        """Undecided transactions, oldest first: those checked, or those that were `given_up`."""
        after: str | None = ""
        kind = "true" if given_up else "false"
        while after is not None:
            params = {"group": group, "given_up": kind, "limit": PAGE, "after": after}
            page = self._call("GET", "/transactions", params=params)
            yield from page["items"]
            after = page["next"]

    def transaction(self, transaction_id: str, *, group: str = "") -> Json:
        """Where a transaction stands, decided or not."""
        params = {"group": group}
        return self._call("GET", f"/transactions/{_part(transaction_id)}", params=params)

    def decide_transaction(
        self, transaction_id: str, decision: str, *, group: str = "", by: str = "producer"
    ) -> Json:
        """Decision is commit, rollback, unknown or resume; `by` operator is audited."""
        params = {"group": group} if decision == "resume" else {"group": group, "by": by}
        path = f"/transactions/{_part(transaction_id)}/{_part(decision)}"
        return self._call("POST", path, params=params)

    def transaction_checks(self, group: str, *, max: int = 32) -> list[Json]:
        """Take checks that nobody else was asked for; answer with `decide_transaction`."""
        document = {"group": group, "max": max}
        found: list[Json] = self._call("POST", "/transactions/checks", json=document)["checks"]
        return found

    # -- consuming without a connection ---------------------------------------------------------

    def receive(
        self,
        group: str,
        topics: str | Mapping[str, str],
        *,
        max: int = 1,
        invisible_s: float = 60.0,
        wait_s: float = 0.0,
        client: str = "",
    ) -> list[Json]:
        """Hand out up to `max` messages (256); waits up to 30 s for the first."""
        document = {
            "topics": {topics: "*"} if isinstance(topics, str) else dict(topics),
            "max": max,
            "invisible_ms": round(invisible_s * 1000),
            "wait_ms": round(wait_s * 1000),
            "client": client,
        }
        path = f"/groups/{_part(group)}/receive"
        found: list[Json] = self._call("POST", path, json=document, wait_s=wait_s)["deliveries"]
        return found

    def ack(self, group: str, receipts: Sequence[str]) -> list[Json]:
        """These are done; what became of each receipt."""
        return self._settle(group, "ack", {"receipts": list(receipts)})

    def nack(
        self, group: str, receipts: Sequence[str], *, error: str = "", delay_s: float | None = None
    ) -> list[Json]:
        """These failed and shall come again."""
        delay = {} if delay_s is None else {"delay_ms": round(delay_s * 1000)}
        nacks = [{"receipt": receipt, "error": error, **delay} for receipt in receipts]
        return self._settle(group, "nack", {"nacks": nacks})

    def extend(self, group: str, receipts: Sequence[str], invisible_s: float) -> list[Json]:
        """Keep these invisible for so long from now."""
        document = {"receipts": list(receipts), "invisible_ms": round(invisible_s * 1000)}
        return self._settle(group, "extend", document)

    def release(self, group: str, receipts: Sequence[str]) -> list[Json]:
        """Put these back untouched."""
        return self._settle(group, "release", {"receipts": list(receipts)})

    # -- helpers --------------------------------------------------------------------------------

    def _settle(self, group: str, verb: str, document: Json) -> list[Json]:
        results: list[Json] = self._call("POST", f"/groups/{_part(group)}/{verb}", json=document)[
            "results"
        ]
        return results

    def _pages(self, path: str, params: Json) -> Iterator[Json]:
        cursor: str | None = ""
        while cursor is not None:
            page = self._call("GET", path, params={**params, "limit": PAGE, "cursor": cursor})
            yield from page["items"]
            cursor = page["next_cursor"]

    def _call(self, method: str, path: str, *, wait_s: float = 0.0, **given: Any) -> Json:
        return answer_of(self._asked(method, path, wait_s=wait_s, **given))

    def _answer(self, method: str, path: str, **given: Any) -> httpx.Response:
        answer = self._asked(method, path, **given)
        if not answer.is_success:
            answer_of(answer)  # which raises
        return answer

    def _asked(
        self, method: str, path: str, *, wait_s: float = 0.0, **given: Any
    ) -> httpx.Response:
        timeout_s = self._timeout_s + (wait_s + WAIT_EXTRA_S if wait_s else 0.0)
        try:
            return self._http.request(method, path, timeout=timeout_s, **given)
        except httpx.ConnectError as error:
            raise _unreachable(self.url, error) from None
        except httpx.TimeoutException:
            raise TimedOut(f"{self.url} did not answer within {timeout_s:g} s") from None
        except httpx.HTTPError as error:
            raise Unreachable(f"{self.url}: {error}") from None


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


def _part(name: str) -> str:
    return quote(name, safe="")
