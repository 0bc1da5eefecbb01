"""All users, tokens and sessions in memory, for authentication at every request.

The database is the source of truth. Changes by this server apply at once, changes by the command
line within `POLL_S`. The times of use of tokens and sessions are written every minute.
"""

import asyncio
import contextlib
import logging
from dataclasses import replace

from app.db.rows import DatabaseError, SessionRow, TokenRow, UserRow, UserRows
from app.db.user_probe import has_users
from app.db.worker import DatabaseWorker
from app.security.access import Grant, Principal, Role
from app.security.access_keys import access_key_of
from app.security.login_limits import network_of
from app.security.passwords import hash_secret
from app.settings import Settings
from app.tasks import end_tasks
from engine.clock import Clock

log = logging.getLogger("kitemq.people")

POLL_S = 2.0
TOUCH_EVERY_MS = 60_000


class UserDirectory:
    """The users, tokens and sessions; `start` before the first request, on the loop's thread."""

    def __init__(self, database: DatabaseWorker, clock: Clock, settings: Settings) -> None:
        self._database = database
        self._clock = clock
        self._url = settings.database
        self._idle_ms = round(settings.session_idle_s * 1000)
        self._issuer = settings.oidc_issuer
        self._version = -1
        self._users: dict[int, UserRow] = {}
        self._names: dict[str, UserRow] = {}
        self._tokens: dict[str, TokenRow] = {}
        self._access_keys: dict[str, str] = {}
        self._sessions: dict[str, SessionRow] = {}
        self._places: set[tuple[int, str]] = set()
        self._used_ms: dict[int, int] = {}
        self._seen_ms: dict[int, int] = {}
        self._touched_ms = clock.now_ms()
        self._polling: asyncio.Task[None] | None = None
        self.is_known = False  # whether it is known if there are users
        self._standby_of = settings.follow
        self.anonymous = Principal(
            "", (Grant(Role.ADMIN),), is_open=True, standby_of=self._standby_of
        )
        self.freeze(settings.read_only or bool(settings.follow))

    def freeze(self, is_read_only: bool) -> None:
        """Set whether the server is read-only, from the next request on."""
        self.is_read_only = is_read_only
        self.anonymous = replace(self.anonymous, is_read_only=is_read_only)

    @property
    def is_open(self) -> bool:
        """Whether authentication is off: there are no users and no provider."""
        return self.has_no_users and not self._issuer

    @property
    def is_unrestricted(self) -> bool:
        """Whether everybody may do everything now: authentication is off, and nothing read-only."""
        return self.is_known and not (self._users or self._issuer or self.is_read_only)

    @property
    def has_no_users(self) -> bool:
        """Whether it is certain that there are no users."""
        return self.is_known and not self._users

    @property
    def version(self) -> int:
        """Incremented by each change of users, tokens or sessions; -1 while unknown."""
        return self._version

    async def start(self) -> None:
        """Load the users, then poll for changes."""
        if has_users(self._url) is False:
            self.is_known = True
        else:
            await self._look()
        self._polling = asyncio.create_task(self._poll())

    async def stop(self) -> None:
        """Stop polling, and write pending times of use."""
        await end_tasks(self._polling)
        with contextlib.suppress(DatabaseError):
            await self._touch()

    async def reload(self) -> None:
        """Load everything from the database; raises DatabaseError."""
        self._take(await self._database.run(lambda database: database.users.load()))

    # -- authentication -------------------------------------------------------------------------

    def principal_of_token(self, secret: str) -> Principal | None:
        """The principal of a token; None if it is unknown or expired, or its owner disabled."""
        return self.principal_of_hash(hash_secret(secret))

    def token_hash_of(self, access_key: str) -> str:
        """The hash of the token that an access key belongs to; "" for an unknown one."""
        return self._access_keys.get(access_key, "")

    def principal_of_hash(self, secret_hash: str) -> Principal | None:
        """The principal of the token with this hash, which the caller has verified; else None."""
        token = self._tokens.get(secret_hash)
        now_ms = self._clock.now_ms()
        if token is None or (token.expires_ms is not None and token.expires_ms <= now_ms):
            return None
        user = self._users.get(token.user_id)
        if user is None or not self._may_log_in(user):
            return None
        self._used_ms[token.id] = now_ms
        return self._with_token(user, token)

    def principal_of_session(self, secret: str, *, is_use: bool = True) -> Principal | None:
        """The principal of a session cookie; None if the session is unknown or over.

        Without `is_use` (a page that refreshes itself) the session's idle time goes on.
        """
        session = self.session(secret)
        user = None if session is None else self._users.get(session.user_id)
        if session is None or user is None or not self._may_log_in(user):
            return None
        if is_use:
            self._seen_ms[session.id] = self._clock.now_ms()
        return replace(self._with_password(user), session_id=session.id)

    def check_user(self, user: UserRow) -> tuple[Principal, str]:
        """The principal of a user, and why a login is refused: "", "disabled" or "provider"."""
        return self._with_password(user), self._refusal_of(user)

    def check_token(self, token: TokenRow) -> tuple[Principal, str]:
        """The same for a token, which may also be "expired"; this does not count as a use."""
        user = self._users[token.user_id]
        is_over = token.expires_ms is not None and token.expires_ms <= self._clock.now_ms()
        return self._with_token(user, token), "expired" if is_over else self._refusal_of(user)

    def _with_password(self, user: UserRow) -> Principal:
        return self._principal(user.name, _grant(user))

    def _with_token(self, user: UserRow, token: TokenRow) -> Principal:
        own = Grant(Role(token.role), token.patterns)
        return replace(self._principal(user.name, own, _grant(user)), token=token.name)

    def _principal(self, name: str, *grants: Grant) -> Principal:
        return Principal(name, grants, is_read_only=self.is_read_only, standby_of=self._standby_of)

    def _refusal_of(self, user: UserRow) -> str:
        if user.disabled:
            return "disabled"
        return "" if self._may_log_in(user) else "provider"

    def session(self, secret: str) -> SessionRow | None:
        """The session of a cookie, unless it is over."""
        session = self._sessions.get(hash_secret(secret))
        if session is None:
            return None
        now_ms = self._clock.now_ms()
        is_over = session.expires_ms <= now_ms or self._seen(session) + self._idle_ms <= now_ms
        return None if is_over else session

    def _may_log_in(self, user: UserRow) -> bool:
        """Whether a user may log in: not disabled, and local or of the configured provider."""
        return not user.disabled and user.issuer in (None, self._issuer)

    # -- lists ----------------------------------------------------------------------------------

    def users(self) -> list[UserRow]:
        return sorted(self._users.values(), key=lambda user: user.name)

    def user(self, name: str) -> UserRow | None:
        return self._names.get(name)

    def has_logged_in_from(self, name: str, address: str) -> bool:
        """Whether a stored session of this user began at this address."""
        user = self._names.get(name)
        return user is not None and (user.id, network_of(address)) in self._places

    def name_of(self, user_id: int) -> str:
        user = self._users.get(user_id)
        return user.name if user is not None else ""

    def tokens(self, owner: str = "") -> list[TokenRow]:
        """Tokens with the latest use; those of one user where named."""
        tokens = [
            replace(token, used_ms=self._used_ms.get(token.id, token.used_ms))
            for token in self._tokens.values()
            if not owner or self.name_of(token.user_id) == owner
        ]
        return sorted(tokens, key=lambda token: (self.name_of(token.user_id), token.name))

    def sessions(self, owner: str = "") -> list[SessionRow]:
        """Sessions that are not over, the latest seen first; those of one user where named."""
        now_ms = self._clock.now_ms()
        sessions = [
            replace(session, seen_ms=self._seen(session))
            for session in self._sessions.values()
            if (not owner or self.name_of(session.user_id) == owner)
            and session.expires_ms > now_ms
            and self._seen(session) + self._idle_ms > now_ms
        ]
        return sorted(sessions, key=lambda session: -session.seen_ms)

    # -- polling --------------------------------------------------------------------------------

    def _seen(self, session: SessionRow) -> int:
        return max(session.seen_ms, self._seen_ms.get(session.id, 0))

    def _take(self, rows: UserRows) -> None:
        if self.is_known and not self._users and rows.users:
            log.info("there are users now: every request needs a login")
        self._version = rows.version
        self._users = {user.id: user for user in rows.users}
        self._names = {user.name: user for user in rows.users}
        self._tokens = {token.secret_hash: token for token in rows.tokens}
        self._access_keys = {
            access_key_of(secret_hash): secret_hash for secret_hash in self._tokens
        }
        self._sessions = {session.secret_hash: session for session in rows.sessions}
        self._places = {(each.user_id, network_of(each.address)) for each in rows.sessions}
        self.is_known = True

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            await self._look()

    async def _look(self) -> None:
        """Load changes; while the database fails, the last known state stays."""
        try:
            version = await self._database.run(lambda database: database.users.version())
            if version != self._version or not self.is_known:
                await self.reload()
            if self._clock.now_ms() - self._touched_ms >= TOUCH_EVERY_MS:
                await self._touch()
        except DatabaseError as error:
            if not self.is_known:
                log.error("users cannot be read, so all requests are refused: %s", error)

    async def _touch(self) -> None:
        used_ms, self._used_ms = self._used_ms, {}
        seen_ms, self._seen_ms = self._seen_ms, {}
        self._touched_ms = now_ms = self._clock.now_ms()
        if not self._users:
            return
        for secret, token in list(self._tokens.items()):
            if token.id in used_ms:
                self._tokens[secret] = replace(token, used_ms=used_ms[token.id])
        for secret, session in list(self._sessions.items()):
            if session.id in seen_ms:
                self._sessions[secret] = replace(session, seen_ms=seen_ms[session.id])
        over = (now_ms, now_ms - self._idle_ms)
        await self._database.run(
            lambda database: database.users.touch(used_ms, seen_ms, over_ms=over)
        )


def _grant(user: UserRow) -> Grant:
    return Grant(Role(user.role), user.patterns)
