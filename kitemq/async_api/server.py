"""The running server: its checks, switches and retention."""

from kitemq.async_api.connection import AsyncApi
from kitemq.model.access import AccessCheck
from kitemq.model.retention import Retention
from kitemq.model.server import NewReadOnlyMode, ReadOnlyMode, SelfCheck, SelfCheckList


class AsyncServerApi(AsyncApi):
    """`client.server`: the server itself."""

    async def self_checks(self) -> list[SelfCheck]:
        """The server's self-checks, each with outcome, detail and time."""
        return (await self._rest.fetch(SelfCheckList, "GET", "/self-checks")).items

    async def read_only(self) -> ReadOnlyMode:
        """The read-only state: whether changes are refused, with user, time and reason."""
        return await self._rest.fetch(ReadOnlyMode, "GET", "/read-only")

    async def freeze(self, reason: str) -> ReadOnlyMode:
        """Let the server refuse every change until `thaw`, through restarts too."""
        body = NewReadOnlyMode(read_only=True, reason=reason)
        return await self._rest.fetch(ReadOnlyMode, "PUT", "/read-only", body=body)

    async def thaw(self) -> ReadOnlyMode:
        """Let it take changes again; Refused where the setting read_only holds it."""
        body = NewReadOnlyMode(read_only=False)
        return await self._rest.fetch(ReadOnlyMode, "PUT", "/read-only", body=body)

    async def support_bundle(self) -> bytes:
        """An archive for support, without secrets; a few hundred kB, at most 10 MB."""
        return await self._rest.content("GET", "/support-bundle")

    async def access_check(self, **query: str) -> AccessCheck:
        """Check the rights of a user, a token or a role; `query` as in docs/rest.md."""
        return await self._rest.fetch(AccessCheck, "GET", "/access/check", params=query)

    async def retention(self) -> Retention:
        """The retention policy in force, how full log and disk are, and what goes next."""
        return await self._rest.fetch(Retention, "GET", "/retention")
