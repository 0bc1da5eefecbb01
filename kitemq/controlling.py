"""The running server over REST: a part of `kitemq.Client`."""

from kitemq.model.access import AccessCheck
from kitemq.model.server import NewReadOnlyMode, ReadOnlyMode, SelfCheck, SelfCheckList
from kitemq.rest import RestConnection


class Controlling(RestConnection):
    """What a client can ask of the server itself, and its switches."""

    def self_checks(self) -> list[SelfCheck]:
        """What the server finds out about itself; each with outcome, detail and time."""
        return self._typed(SelfCheckList, "GET", "/self-checks").items

    def read_only(self) -> ReadOnlyMode:
        """Whether nothing can be changed, by whom, since when and why."""
        return self._typed(ReadOnlyMode, "GET", "/read-only")

    def freeze(self, reason: str) -> ReadOnlyMode:
        """Let the server refuse every change until `thaw`, through restarts too."""
        return self._switch(NewReadOnlyMode(read_only=True, reason=reason))

    def thaw(self) -> ReadOnlyMode:
        """Let it take changes again; Refused where the setting read_only holds it."""
        return self._switch(NewReadOnlyMode(read_only=False))

    def support_bundle(self) -> bytes:
        """The archive for whoever is to help, without secrets; a few hundred kB, at most 10 MB."""
        return self._answer("GET", "/support-bundle").content

    def access_check(self, **query: str) -> AccessCheck:
        """What a user, a token or a role could do, and why; `query` as docs/rest.md has it."""
        return self._typed(AccessCheck, "GET", "/access/check", params=query)

    def _switch(self, mode: NewReadOnlyMode) -> ReadOnlyMode:
        return self._typed(ReadOnlyMode, "PUT", "/read-only", body=mode)
