"""The REST interface for Python: administration, pull, and consuming without a connection.

Answers are structs of `kitemq.model`; what was produced, received or pulled comes as the JSON
documents of `docs/rest.md`, as dicts. Offsets in both are texts.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from kitemq.controlling import Controlling
from kitemq.membership import Membership
from kitemq.model.groups import Group, GroupPage, GroupSettings, NewGroup
from kitemq.model.messages import KeyedMessages, MessageList, Seen
from kitemq.model.progress import Lag, NewOffset, Offsets
from kitemq.model.topics import (
    ImportedTopics,
    NewTopic,
    Topic,
    TopicDetail,
    TopicImportFile,
    TopicPage,
    TopicSettings,
)
from kitemq.model.transactions import (
    POLL_MAX,
    DecidedTransaction,
    NewCheckPoll,
    PendingCheck,
    PendingChecks,
    TransactionInfo,
    UndecidedTransactions,
)
from kitemq.model.values import OffsetInput
from kitemq.replays import Replaying
from kitemq.reports import Reporting
from kitemq.requests import Requesting
from kitemq.resets import Resetting
from kitemq.rest import PAGE, Json, segment
from kitemq.retention import Keeping
from kitemq.scheduled import Scheduling
from kitemq.searching import Searching
from kitemq.statistics import Counting
from kitemq.traces import Tracing

KEY_PAGE = 64


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

    # -- topics ---------------------------------------------------------------------------------

    def topics(self, *, q: str = "", type: str = "", system: bool = False) -> Iterator[Topic]:
        """Every topic by name, page by page; `q` is a part of the name."""
        params: Json = {"q": q, "system": "true" if system else "false"}
        if type:
            params["type"] = type
        return self._listed(TopicPage, "/topics", **params)

    def topic(self, name: str) -> TopicDetail:
        """One topic with its queues."""
        return self._typed(TopicDetail, "GET", f"/topics/{segment(name)}")

    def create_topic(self, name: str, **settings: Any) -> Topic:
        """Create a topic; `settings` are the fields of `kitemq.model.topics.NewTopic`."""
        return self._typed(Topic, "POST", "/topics", body=NewTopic(name=name, **settings))

    def change_topic(self, name: str, **settings: Any) -> Topic:
        """Change what is given; the fields of `kitemq.model.topics.TopicSettings`."""
        path = f"/topics/{segment(name)}"
        return self._typed(Topic, "PATCH", path, body=TopicSettings(**settings))

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its messages."""
        self._call("DELETE", f"/topics/{segment(name)}")

    def import_topics(
        self, content: str, *, format: Literal["", "csv", "json"] = "", dry_run: bool = False
    ) -> ImportedTopics:
        """Create and change topics by a file's text; its `rows` say what became of each.

        CSV with a head, or JSON; with `dry_run` nothing changes.
        """
        body = TopicImportFile(content=content, format=format, dry_run=dry_run)
        return self._typed(ImportedTopics, "POST", "/topics/import", body=body)

    # -- groups ---------------------------------------------------------------------------------

    def groups(self, *, q: str = "") -> Iterator[Group]:
        """Every consumer group by name, page by page."""
        return self._listed(GroupPage, "/groups", q=q)

    def group(self, name: str) -> Group:
        """One group's settings."""
        return self._typed(Group, "GET", f"/groups/{segment(name)}")

    def create_group(self, name: str, **settings: Any) -> Group:
        """Create a group; `settings` are the fields of `kitemq.model.groups.NewGroup`."""
        return self._typed(Group, "POST", "/groups", body=NewGroup(name=name, **settings))

    def change_group(self, name: str, **settings: Any) -> Group:
        """Change what is given; the fields of `kitemq.model.groups.GroupSettings`."""
        path = f"/groups/{segment(name)}"
        return self._typed(Group, "PATCH", path, body=GroupSettings(**settings))

    def delete_group(self, name: str) -> None:
        """Delete a group with its progress."""
        self._call("DELETE", f"/groups/{segment(name)}")

    def lag(self, group: str) -> Lag:
        """What a group has still to do, queue by queue."""
        return self._typed(Lag, "GET", f"/groups/{segment(group)}/lag")

    def offsets(self, group: str, topic: str, *, client: str = "") -> Offsets:
        """A group's committed offsets in a topic; those of `client` where it broadcasts."""
        params = {"topic": topic, "client": client}
        return self._typed(Offsets, "GET", f"/groups/{segment(group)}/offsets", params=params)

    def commit_offset(
        self, group: str, topic: str, queue: int, offset: int, *, client: str = ""
    ) -> None:
        """Set where a group goes on in a queue, backwards too; `client` where it broadcasts."""
        body = NewOffset(topic, queue, OffsetInput(offset), client)
        self._call("PUT", f"/groups/{segment(group)}/offsets", body=body)

    # -- messages -------------------------------------------------------------------------------

    def send(
        self, topic: str, messages: Sequence[Mapping[str, Any]], *, durability: str = ""
    ) -> Json:
        """Store messages (documents as in docs/rest.md) together, or none of them."""
        document: Json = {"messages": list(messages)}
        if durability:
            document["durability"] = durability
        return self._call("POST", f"/topics/{segment(topic)}/messages", json=document)

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
        return self._call("GET", f"/topics/{segment(topic)}/messages", params=params, wait_s=wait_s)

    def find(self, message_id: str) -> list[Seen]:
        """The messages with a message id or offset id."""
        return self._typed(MessageList, "GET", f"/messages/{segment(message_id)}").items

    def find_by_key(
        self, topic: str, key: str, *, limit: int = 32, begin_ms: int = 0, end_ms: int = 0
    ) -> list[Seen]:
        """At most `limit` messages of a topic that carry `key`, newest first.

        Stored from `begin_ms` to before `end_ms` (ms since 1970 UTC; 0: no end).
        """
        path = f"/topics/{segment(topic)}/messages/by-key"
        if limit < 1:
            return []
        params: Json = {"key": key, "begin_ms": begin_ms, "end_ms": end_ms}
        return list(
            self._listed(KeyedMessages, path, count_max=limit, page_size=KEY_PAGE, **params)
        )

    # -- transactions ---------------------------------------------------------------------------

    def transactions(self, *, group: str = "", given_up: bool = False) -> Iterator[TransactionInfo]:
        """Undecided transactions, oldest first: those checked, or those that were `given_up`."""
        after: str | None = ""
        kind = "true" if given_up else "false"
        while after is not None:
            params = {"group": group, "given_up": kind, "limit": PAGE, "after": after}
            page = self._typed(UndecidedTransactions, "GET", "/transactions", params=params)
            yield from page.items
            after = page.next

    def transaction(self, transaction_id: str, *, group: str = "") -> TransactionInfo:
        """Where a transaction stands, decided or not."""
        path = f"/transactions/{segment(transaction_id)}"
        return self._typed(TransactionInfo, "GET", path, params={"group": group})

    def decide_transaction(
        self, transaction_id: str, decision: str, *, group: str = "", by: str = "producer"
    ) -> DecidedTransaction:
        """Decision is commit, rollback, unknown or resume; `by` operator is audited."""
        params = {"group": group} if decision == "resume" else {"group": group, "by": by}
        path = f"/transactions/{segment(transaction_id)}/{segment(decision)}"
        return self._typed(DecidedTransaction, "POST", path, params=params)

    def transaction_checks(self, group: str, *, max: int = POLL_MAX) -> list[PendingCheck]:
        """Take checks that nobody else was asked for; answer with `decide_transaction`."""
        poll = NewCheckPoll(group, max)
        return self._typed(PendingChecks, "POST", "/transactions/checks", body=poll).checks

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
        path = f"/groups/{segment(group)}/receive"
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
        results: list[Json] = self._call("POST", f"/groups/{segment(group)}/{verb}", json=document)[
            "results"
        ]
        return results

    def _pages(self, path: str, params: Json) -> Iterator[Json]:
        cursor: str | None = ""
        while cursor is not None:
            page = self._call("GET", path, params={**params, "limit": PAGE, "cursor": cursor})
            yield from page["items"]
            cursor = page["next_cursor"]
