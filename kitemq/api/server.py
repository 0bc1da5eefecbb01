# Made from kitemq/async_api/server.py by `python -m tools.synchronous`: change that file.
"""The running server: its checks, switches and retention."""

from kitemq.api.connection import Api
from kitemq.model.access import AccessCheck
from kitemq.model.retention import Retention
from kitemq.model.server import NewReadOnlyMode, ReadOnlyMode, SelfCheck, SelfCheckList


class ServerApi(Api):
    """`client.server`: the server itself."""

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

    def access_check(self, **query: str) -> AccessCheck:
        """Check the rights of a user, a token or a role; `query` as in docs/rest.md."""
        return self._rest.fetch(AccessCheck, "GET", "/access/check", params=query)

    def retention(self) -> Retention:
        """The retention policy in force, how full log and disk are, and what goes next."""
        return self._rest.fetch(Retention, "GET", "/retention")
