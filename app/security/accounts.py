"""Changes users, tokens and sessions, each in one transaction with its audit entry.

Endpoints have checked the caller's rights before. Here a change is refused only if its result would
be invalid: the first user is an admin, one admin always remains, and a token grants no more than
its owner has (`access.py` checks both grants).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from msgspec import UNSET

from app.db.rows import Actor, AuditEntry, DatabaseError, SessionRow, TokenRow, UserRow, json_text
from app.db.worker import DatabaseAsker, DatabaseWorker, Work
from app.errors import ProblemError
from app.security.access import Role, parse_patterns
from app.security.credentials import (
    DAYS_MAX,
    EVERYWHERE,
    TOKEN_NAME,
    create_token,
    parse_name,
    patterns_for,
)
from app.security.login_limits import LoginAttempt, LoginLimits
from app.security.passwords import Passwords, check_password, hash_secret, new_session
from app.security.refusal_audit import RefusalAudit, RefusedAttempt
from app.security.user_directory import UserDirectory
from app.settings import Settings
from engine.clock import Clock
from engine.errors import Busy, Invalid, NotFound
from kitemq.model.access import NewToken, NewUser, UserPatch
from kitemq.model.conversion import set_fields

T = TypeVar("T")

TOKENS_MAX = 100  # of one user
SESSIONS_MAX = 50  # of one user; the oldest ends
UNAVAILABLE = "people_unavailable"
NO_DATABASE = "the database of users does not answer, nothing was changed"
SEE_LOG = "see the server's log, then try again"
NO_USER = "(no such user)"  # instead of what was typed; no user can be called so


@dataclass(frozen=True)
class Browser:
    """The browser that a login comes from."""

    address: str
    user_agent: str = ""
    session: str = ""  # the secret of its previous session


class Accounts:
    """Makes the changes and reloads `directory`."""

    def __init__(
        self,
        database: DatabaseWorker,
        directory: UserDirectory,
        clock: Clock,
        settings: Settings,
        refusals: RefusalAudit,
    ) -> None:
        self._run = DatabaseAsker(database, NO_DATABASE, remedy=SEE_LOG, code=UNAVAILABLE)
        self._refusals = refusals
        self._clock = clock
        self._session_ms = round(settings.session_max_s * 1000)
        self._has_passwords = settings.password_login
        self._limits = LoginLimits()
        self._passwords = Passwords()
        self.directory = directory

    async def bootstrap(self, name: str, password: str) -> None:
        """Create the admin that the settings name, if there are no users."""
        if not password or not self.directory.has_no_users:
            return
        new = NewUser(name, password, Role.ADMIN)
        await self.add_user(Actor("settings"), new, is_first=True)

    def close(self) -> None:
        self._passwords.close()

    # -- users ----------------------------------------------------------------------------------

    async def add_user(self, actor: Actor, new: NewUser, *, is_first: bool = False) -> UserRow:
        """Add a user. Raises Conflict if the name is taken, Invalid with the wrong field.

        With `is_first`, only while there are no users, and only an admin.
        """
        name = parse_name(new.name)
        role = new.role
        check_password(new.password)
        if self.directory.has_no_users and role is not Role.ADMIN:
            raise Invalid("the first user must be an admin", field="role", remedy="choose admin")
        user = UserRow(
            name=name,
            password_hash=await self._passwords.hash(new.password),
            role=role,
            patterns=patterns_for(role, new.patterns),
            created_ms=self._clock.now_ms(),
        )
        entry = self._entry(actor, "user.create", "user", name)
        return await self._change(lambda db: db.users.add_user(user, entry, only_first=is_first))

    async def change_user(self, actor: Actor, name: str, patch: UserPatch) -> UserRow:
        """Change the given fields except the password.

        Raises NotFound, or Conflict if no admin would remain.
        """
        changes = set_fields(patch)
        changes.pop("password", None)
        if patch.patterns is not UNSET:
            changes["patterns"] = parse_patterns(patch.patterns)
        entry = self._entry(actor, "user.change", "user", name)
        return await self._change(lambda db: db.users.change_user(name, changes, entry))

    async def set_password(self, actor: Actor, name: str, password: str) -> None:
        """Set a user's password and end all sessions of the user."""
        check_password(password)
        changes = {"password_hash": await self._passwords.hash(password)}
        entry = self._entry(actor, "user.password", "user", name)
        await self._change(lambda db: db.users.change_user(name, changes, entry))

    async def change_password(
        self, actor: Actor, name: str, old: str, new: str, *, browser: Browser
    ) -> None:
        """Change one's own password, after verifying `old`; ends all sessions."""
        user = self.directory.user(name)
        if user is None:
            raise NotFound(f"there is no user {name!r}", field="name")
        # A user who is logged in does not wait because of attempts from elsewhere.
        guess = self._limits.attempt(name, browser.address, is_user=True, is_usual=True)
        await self._prove(guess, browser.address, old, user.password_hash, field="old")
        self._limits.succeeded(guess)
        await self.set_password(actor, name, new)

    async def delete_user(self, actor: Actor, name: str) -> None:
        """Delete a user with tokens and sessions; raises NotFound, Conflict for the last admin."""
        entry = self._entry(actor, "user.delete", "user", name)
        await self._change(lambda db: db.users.delete_user(name, entry))

    # -- tokens ---------------------------------------------------------------------------------

    async def add_token(self, actor: Actor, new: NewToken) -> tuple[TokenRow, str]:
        """Create a token; returns its row and its secret, which is not stored."""
        if TOKEN_NAME.match(new.name) is None:
            raise Invalid(
                f"{new.name[:80]!r} is no name for a token",
                field="name",
                remedy="letters, digits, space and . _ @ -, at most 64",
            )
        owner = self.directory.user(new.owner)
        if owner is None:
            raise NotFound(f"there is no user {new.owner!r}", field="owner", code="no_such_user")
        if new.days is not None and not 1 <= new.days <= DAYS_MAX:
            raise Invalid(f"days is {new.days}", field="days", remedy=f"1 to {DAYS_MAX}")
        role = Role(owner.role) if new.role is UNSET else new.role
        # Its owner's patterns limit it too, including later changes of them.
        patterns = EVERYWHERE if new.patterns is UNSET else parse_patterns(new.patterns)
        token, secret = create_token(
            new.name, owner, role, patterns, days=new.days, now_ms=self._clock.now_ms()
        )
        entry = self._entry(actor, "token.create", "token", f"{owner.name}/{new.name}")
        added = await self._change(
            lambda db: db.users.add_token(token, entry, count_max=TOKENS_MAX)
        )
        return added, secret

    async def revoke_token(self, actor: Actor, token_id: int) -> None:
        """Revoke a token; raises NotFound."""
        token = next((token for token in self.directory.tokens() if token.id == token_id), None)
        if token is None:
            raise NotFound(f"there is no token {token_id}", field="id", code="no_such_token")
        name = f"{self.directory.name_of(token.user_id)}/{token.name}"
        entry = self._entry(actor, "token.revoke", "token", name)
        await self._change(lambda db: db.users.delete_token(token_id, entry))

    # -- logging in and out ---------------------------------------------------------------------

    async def log_in(self, name: str, password: str, browser: Browser) -> tuple[str, int]:
        """Open a session; returns its secret and its latest end (ms since 1970).

        Raises ProblemError: 401 for a wrong name or password, 429 after too many failures, 403 if
        password logins are off.
        """
        if not self._has_passwords:
            raise ProblemError(
                403,
                "password_login_off",
                "nobody logs in by a password here",
                remedy="use the button, or have the setting password_login switched on",
            )
        name = name.strip().lower()
        user = self.directory.user(name)
        password_hash = user.password_hash if user is not None else ""
        guess = self._limits.attempt(
            name,
            browser.address,
            is_user=user is not None,
            is_usual=self.directory.has_logged_in_from(name, browser.address),
        )
        await self._prove(guess, browser.address, password, password_hash)
        if user is None or user.disabled:
            await self._failed(guess, browser.address, "login_failed")
            raise _wrong("password")
        self._limits.succeeded(guess)
        return await self._open_session(user, browser, {"from": browser.address})

    async def log_in_from_provider(self, provided: UserRow, browser: Browser) -> tuple[str, int]:
        """Open a session for a provider's user, who is added or gets the role of `provided`.

        Returns the same as `log_in`. Raises ProblemError for a user who is switched off here,
        Conflict where the name is taken.
        """
        entry = self._entry(Actor(provided.issuer or ""), "", "user", provided.name)
        user = await self._run(lambda db: db.users.upsert_provided(provided, entry))
        if user.disabled:
            await self._reload()
            raise ProblemError(
                403,
                "user_disabled",
                f"the user {user.name!r} is switched off on this server",
                remedy="an admin can switch it on again on the page Access",
            )
        details = {"from": browser.address, "through": user.issuer}
        return await self._open_session(user, browser, details)

    async def audit_refusal(
        self, name: str, browser: Browser, details: Mapping[str, object]
    ) -> None:
        """Record in the audit trail that a provider's user was refused, and why."""
        actor = Actor(f"anonymous@{browser.address}"[:255])
        after = json_text(details)
        entry = self._entry(actor, "login", "user", name, after_json=after, result="login_refused")
        await self._run(lambda db: db.audit.insert(entry))

    async def _open_session(
        self, user: UserRow, browser: Browser, details: Mapping[str, object]
    ) -> tuple[str, int]:
        secret, now_ms = new_session(), self._clock.now_ms()
        session = SessionRow(
            secret_hash=hash_secret(secret),
            user_id=user.id,
            created_ms=now_ms,
            seen_ms=now_ms,
            expires_ms=now_ms + self._session_ms,
            address=browser.address[:64],
            user_agent=browser.user_agent[:255],
        )
        before = hash_secret(browser.session) if browser.session else ""
        after = json_text(details)
        entry = self._entry(Actor(user.name), "login", "user", user.name, after_json=after)
        await self._change(
            lambda db: db.users.add_session(
                session, entry, instead_of=before, count_max=SESSIONS_MAX
            )
        )
        return secret, session.expires_ms

    async def log_out(self, actor: Actor, session_id: int) -> None:
        """End one's own session."""
        await self._end(actor, "logout", "user", actor.name, [session_id])

    async def end_session(self, actor: Actor, session_id: int) -> None:
        """End a session; raises NotFound if it has ended already."""
        sessions = [s for s in self.directory.sessions() if s.id == session_id]
        owner = self.directory.name_of(sessions[0].user_id) if sessions else ""
        if not sessions or not await self._end(actor, "session.end", "user", owner, [session_id]):
            raise NotFound(f"there is no session {session_id}", field="id", code="no_such_session")

    async def _end(self, actor: Actor, action: str, kind: str, name: str, ids: list[int]) -> int:
        entry = self._entry(actor, action, kind, name)
        return await self._change(lambda db: db.users.end_sessions(ids, entry))

    async def _prove(
        self,
        guess: LoginAttempt,
        address: str,
        password: str,
        password_hash: str,
        field: str = "password",
    ) -> None:
        """Return if the password is right; each failure lengthens the wait of the next attempt."""
        now_s = self._clock.monotonic_s()
        wait_s = self._limits.wait_s(guess, now_s)
        if wait_s > 0:
            self._note(guess, address, "login_limited")
            raise ProblemError(
                429,
                "login_limited",
                "too many logins failed",
                field=field,
                remedy=f"try again in {round(wait_s + 0.5)} s",
                retry_after_s=wait_s,
            )
        is_limited = self._limits.count(guess, now_s)
        try:
            fits = await self._passwords.matches(
                password, password_hash, address=guess.network, goes_first=guess.is_usual
            )
        except Busy:
            self._limits.forgive(guess)
            raise
        if not fits:
            await self._failed(guess, address, "login_limited" if is_limited else "login_failed")
            raise _wrong(field)

    async def _failed(self, guess: LoginAttempt, address: str, code: str) -> None:
        self._note(guess, address, code)
        if guess.is_user:  # of other names there is no end
            await self._refusals.flush()  # so that the audit trail is in order

    def _note(self, guess: LoginAttempt, address: str, code: str) -> None:
        # A password typed in place of a name must not get into the audit trail.
        actor = f"anonymous@{address}"[:255]
        name = guess.name if guess.is_user else NO_USER
        self._refusals.note(RefusedAttempt(actor, address, "login", "user", name, code))

    # -- how ------------------------------------------------------------------------------------

    def _entry(self, actor: Actor, action: str, kind: str, name: str, **values: str) -> AuditEntry:
        return AuditEntry.of(actor, action, kind, name, at_ms=self._clock.now_ms(), **values)

    async def _change(self, work: Work[T]) -> T:
        """The result of `work`, which changes users, tokens or sessions."""
        result = await self._run(work)
        await self._reload()
        return result

    async def _reload(self) -> None:
        try:
            await self.directory.reload()
        except DatabaseError as error:
            raise self._run.busy(error) from error


def _wrong(field: str) -> ProblemError:
    return ProblemError(
        401,
        "login_failed",
        "name and password do not fit together",
        field=field,
        remedy="check both; an admin can set another password",
    )
