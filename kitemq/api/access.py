# Made from kitemq/async_api/access.py by `python -m tools.synchronous`: change that file.
"""Users, tokens and logins; the caller's rights, and checks of anybody's."""

from collections.abc import Sequence
from typing import Any

from kitemq.api.connection import Api
from kitemq.model.access import (
    AccessCheck,
    LoginSession,
    MadeToken,
    Me,
    NewPassword,
    NewToken,
    NewUser,
    SessionList,
    Token,
    TokenList,
    User,
    UserList,
    UserPatch,
)
from kitemq.rest import Json, segment


class AccessApi(Api):
    """`client.access`: who may do what."""

    def me(self) -> Me:
        """The caller's name and rights."""
        return self._rest.fetch(Me, "GET", "/me")

    def change_password(self, old: str, new: str) -> None:
        """Change one's own password (8 to 256 characters). All one's sessions end; tokens stay."""
        self._rest.call("POST", "/me/password", body=NewPassword(old, new))

    # -- users ----------------------------------------------------------------------------------

    def users(self) -> list[User]:
        """Every user by name."""
        return (self._rest.fetch(UserList, "GET", "/users")).items

    def user(self, name: str) -> User:
        """One user; NotFound."""
        return self._rest.fetch(User, "GET", _user(name))

    def create_user(self, name: str, password: str, **settings: Any) -> User:
        """Add a user; `settings` are the fields of `kitemq.model.access.NewUser`."""
        body = NewUser(name, password, **settings)
        return self._rest.fetch(User, "POST", "/users", body=body)

    def change_user(self, name: str, **settings: Any) -> User:
        """Change the given fields: those of `kitemq.model.access.UserPatch`."""
        return self._rest.fetch(User, "PATCH", _user(name), body=UserPatch(**settings))

    def delete_user(self, name: str) -> None:
        """Delete a user with tokens and sessions; Refused for the last admin."""
        self._rest.call("DELETE", _user(name))

    # -- tokens and logins ----------------------------------------------------------------------

    def tokens(self) -> list[Token]:
        """The caller's tokens, or all tokens with the right to read users."""
        return (self._rest.fetch(TokenList, "GET", "/tokens")).items

    def create_token(self, name: str, **settings: Any) -> MadeToken:
        """Make a token; only this answer has its text.

        `settings` are the fields of `kitemq.model.access.NewToken`.
        """
        body = NewToken(name, **settings)
        return self._rest.fetch(MadeToken, "POST", "/tokens", body=body)

    def revoke_token(self, token_id: str) -> None:
        """Revoke a token: it is useless at once."""
        self._rest.call("DELETE", f"/tokens/{segment(token_id)}")

    def sessions(self) -> list[LoginSession]:
        """The caller's logins, or all logins with the right to read users."""
        return (self._rest.fetch(SessionList, "GET", "/sessions")).items

    def end_session(self, session_id: str) -> None:
        """End a login: that browser has to log in again."""
        self._rest.call("DELETE", f"/sessions/{segment(session_id)}")

    # -- checks ---------------------------------------------------------------------------------

    def check(
        self,
        *,
        user: str = "",
        token: str = "",
        role: str = "",
        patterns: Sequence[str] = (),
        action: str = "",
        kind: str = "",
        name: str = "",
    ) -> AccessCheck:
        """Check what a user, a token (its id) or a role with `patterns` may do, and why.

        Of all actions and kinds, or of one; over the topic or group `name`, or any.
        """
        params: Json = {
            "user": user,
            "token": token,
            "role": role,
            "patterns": ",".join(patterns),
            "action": action,
            "kind": kind,
            "name": name,
        }
        given = {each: text for each, text in params.items() if text}
        return self._rest.fetch(AccessCheck, "GET", "/access/check", params=given)


def _user(name: str) -> str:
    return f"/users/{segment(name)}"
