"""The running server over REST: a part of `kitemq.Client`."""

from kitemq.rest import Json, RestConnection


class Controlling(RestConnection):
    """What a client can ask of the server itself, and its switches."""

    def self_checks(self) -> list[Json]:
        """What the server finds out about itself; each with outcome, detail and time."""
        found: list[Json] = self._call("GET", "/self-checks")["items"]
        return found

    def read_only(self) -> Json:
        """Whether nothing can be changed: read_only, by_setting, by, since_ms, reason."""
        return self._call("GET", "/read-only")

    def freeze(self, reason: str) -> Json:
        """Let the server refuse every change until `thaw`, through restarts too."""
        return self._call("PUT", "/read-only", json={"read_only": True, "reason": reason})

    def thaw(self) -> Json:
        """Let it take changes again; Refused where the setting read_only holds it."""
        return self._call("PUT", "/read-only", json={"read_only": False})

    def support_bundle(self) -> bytes:
        """The archive for whoever is to help, without secrets; a few hundred kB, at most 10 MB."""
        return self._answer("GET", "/support-bundle").content

    def access_check(self, **query: str) -> Json:
        """What a user, a token or a role could do, and why; `query` as docs/rest.md has it."""
        return self._call("GET", "/access/check", params=query)
