# Made from kitemq/async_api/server.py by `python -m tools.synchronous`: change that file.
"""The running server: its checks, switches, log levels, audit trail and retention."""

from collections.abc import Iterator

from kitemq.api.connection import Api
from kitemq.model.brokers import BrokerItem, BrokerList
from kitemq.model.retention import Retention
from kitemq.model.server import (
    AuditItem,
    AuditPage,
    HandoverDone,
    LoggerLevel,
    LoggerList,
    NewHandover,
    NewLoggerLevel,
    NewPromotion,
    NewReadOnlyMode,
    Promotion,
    ReadOnlyMode,
    Replication,
    SelfCheck,
    SelfCheckList,
    ServerInfo,
)
from kitemq.rest import Json, segment


class ServerApi(Api):
    """`client.server`: the server itself."""

    def info(self) -> ServerInfo:
        """Version and identity of the server."""
        return self._rest.fetch(ServerInfo, "GET", "/system")

    def brokers(self) -> list[BrokerItem]:
        """The brokers of the RocketMQ cluster behind the server, with their figures; Refused.

        The embedded engine is one broker, and has none to list.
        """
        return (self._rest.fetch(BrokerList, "GET", "/brokers")).items

    def replication(self) -> Replication:
        """Whom the server follows, and which standbys copy it."""
        return self._rest.fetch(Replication, "GET", "/replication")

    def promote(self, *, force: bool = False) -> Promotion:
        """Make a standby the leader; it starts anew for that, on the same port.

        Refused while its own leader is connected, of which something may be lost, unless `force`.
        """
        body = NewPromotion(force=force)
        return self._rest.fetch(Promotion, "POST", "/replication/promotion", body=body)

    def hand_over(self, to: str = "", *, timeout_s: float = 5.0) -> HandoverDone:
        """Let a standby lead in the leader's place, without loss, and follow it.

        `to` is the standby's ha_listen or its host, needed where there are several. Busy with the
        code `handover_failed`: the leader goes on. With `heir_silent` it is not known who leads.
        """
        body = NewHandover(to, timeout_s)
        return self._rest.fetch(
            HandoverDone, "POST", "/replication/handover", body=body, wait_s=timeout_s
        )

    def self_checks(self) -> list[SelfCheck]:
        """The server's self-checks, each with outcome, detail and time."""
        return (self._rest.fetch(SelfCheckList, "GET", "/self-checks")).items

    def read_only(self) -> ReadOnlyMode:
        """The read-only state: whether changes are refused, with user, time and reason."""
        return self._rest.fetch(ReadOnlyMode, "GET", "/read-only")

    def freeze(self, reason: str) -> ReadOnlyMode:
        """Let the server refuse every change until `thaw`, through restarts too."""
        body = NewReadOnlyMode(read_only=True, reason=reason)
        return self._rest.fetch(ReadOnlyMode, "PUT", "/read-only", body=body)

    def thaw(self) -> ReadOnlyMode:
        """Let it take changes again; Refused where the setting read_only holds it."""
        body = NewReadOnlyMode(read_only=False)
        return self._rest.fetch(ReadOnlyMode, "PUT", "/read-only", body=body)

    def support_bundle(self) -> bytes:
        """An archive for support, without secrets; a few hundred kB, at most 10 MB."""
        return self._rest.content("GET", "/support-bundle")

    def loggers(self) -> list[LoggerLevel]:
        """The parts of the server that write to its log, with their levels."""
        return (self._rest.fetch(LoggerList, "GET", "/loggers")).items

    def set_log_level(self, logger: str, level: str) -> LoggerLevel:
        """Let a part of the server write more or less to its log, until the next start.

        debug, info, warning or error; empty for that of the logger above.
        """
        path = f"/loggers/{segment(logger)}"
        return self._rest.fetch(LoggerLevel, "PUT", path, body=NewLoggerLevel(level))

    def audit(
        self,
        *,
        object_kind: str = "",
        object_name: str = "",
        action: str = "",
        result: str = "",
        actor: str = "",
        address: str = "",
        limit: int = 0,
    ) -> Iterator[AuditItem]:
        """Changes of the audit trail, the newest first, page by page; at most `limit`, 0 means all.

        `action` as in "topic.create", or "refused"; `result` is done, started, failed or an error's
        code.
        """
        params: Json = {
            "object_kind": object_kind,
            "object_name": object_name,
            "action": action,
            "result": result,
            "actor": actor,
            "address": address,
        }
        return self._rest.pages(AuditPage, "/audit", count_max=limit, **params)

    def retention(self) -> Retention:
        """The retention policy in force, how full log and disk are, and what goes next."""
        return self._rest.fetch(Retention, "GET", "/retention")
