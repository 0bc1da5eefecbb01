"""Changes of people: users, tokens, sessions and logins, each in one transaction with its entry.

What is decided about rights happens before, at the doors; here only what a change itself must
not do is refused: the first user is an admin, somebody stays admin, a token gives no more than
its owner has (`access.py` looks at both).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import UNSET

from app.db.rows import AuditEntry, DatabaseError, SessionRow, TokenRow, UserRow
from app.db.worker import DatabaseWorker
from app.errors import DoorError
from app.security.access import Role, parse_patterns
from app.security.attempts import Guess, LoginLimits
from app.security.drafts import (
    DAYS_MAX,
    EVERYWHERE,
    TOKEN_NAME,
    checked_name,
    made_token,
    patterns_for,
)
from app.security.passwords import Passwords, check_password, hash_secret, new_session
from app.security.people import People
from app.security.refusals import Attempt, Refusals
from app.settings import Settings
from engine.clock import Clock
from engine.errors import Busy, Invalid, NotFound
from kitemq.model.access import NewToken, NewUser, UserPatch
from kitemq.model.conversion import given

if TYPE_CHECKING:
    from app.db.database import Database

T = TypeVar("T")

TOKENS_MAX = 100  # of one user
SESSIONS_MAX = 50  # of one user; the oldest ends
DONE = "done"
NO_USER = "(no such user)"  # instead of what was typed; no user can be called so


@dataclass(frozen=True)
class By:
    """Who changes something, for the trail."""

    name: str
    request_id: str = ""


@dataclass(frozen=True)
class Browser:
    """Where a login comes from."""

    address: str
    user_agent: str = ""
    session: str = ""  # the cookie it had before


class Accounts:
    """Makes the changes, and lets `people` know."""

    def __init__(
        self,
        database: DatabaseWorker,
        people: People,
        clock: Clock,
        settings: Settings,
        refusals: Refusals,
    ) -> None:
        self._database = database
        self._refusals = refusals
        self._clock = clock
        self._session_ms = round(settings.session_max_s * 1000)
        self._has_passwords = settings.password_login
        self._limits = LoginLimits()
        self._passwords = Passwords()
        self.people = people

    async def bootstrap(self, name: str, password: str) -> None:
        """Make the admin that the settings name, if there is nobody yet."""
        if not password or not self.people.has_nobody:
            return
        new = NewUser(name, password, Role.ADMIN)
        await self.add_user(By("settings"), new, is_first=True)

    def close(self) -> None:
        self._passwords.close()

    # -- users ----------------------------------------------------------------------------------

    async def add_user(self, by: By, new: NewUser, *, is_first: bool = False) -> UserRow:
        """Add a user; Conflict where the name is taken, Invalid names what is wrong.

        `is_first`: only while there is nobody, and only an admin.
        """
        name = checked_name(new.name)
        role = new.role
        check_password(new.password)
        if self.people.has_nobody and role is not Role.ADMIN:
            raise Invalid("the first user must be an admin", field="role", remedy="choose admin")
        user = UserRow(
            name=name,
            password_hash=await self._passwords.hash(new.password),
            role=role,
            patterns=patterns_for(role, new.patterns),
            created_ms=self._clock.now_ms(),
        )
        entry = self._entry(by, "user.create", "user", name)
        added = await self._run(lambda db: db.people.add_user(user, entry, only_first=is_first))
        await self._reload()
        return added

    async def change_user(self, by: By, name: str, patch: UserPatch) -> UserRow:
        """Change what is given but for the password; NotFound, Conflict where no admin is left."""
        changes = given(patch)
        changes.pop("password", None)
        if patch.patterns is not UNSET:
            changes["patterns"] = parse_patterns(patch.patterns)
        entry = self._entry(by, "user.change", "user", name)
        changed = await self._run(lambda db: db.people.change_user(name, changes, entry))
        await self._reload()
        return changed

    async def set_password(self, by: By, name: str, password: str) -> None:
        """Give a user another password; all the user's sessions end."""
        check_password(password)
        changes = {"password_hash": await self._passwords.hash(password)}
        entry = self._entry(by, "user.password", "user", name)
        await self._run(lambda db: db.people.change_user(name, changes, entry))
        await self._reload()

    async def change_password(
        self, by: By, name: str, old: str, new: str, *, browser: Browser
    ) -> None:
        """Change one's own password, which `old` proves to be one's own; ends all sessions."""
        user = self.people.user(name)
        if user is None:
            raise NotFound(f"there is no user {name!r}", field="name")
        # Whoever is logged in does not wait for what others guess elsewhere.
        guess = self._limits.guess(name, browser.address, is_user=True, is_usual=True)
        await self._prove(guess, browser.address, old, user.password_hash, field="old")
        self._limits.succeeded(guess)
        await self.set_password(by, name, new)

    async def delete_user(self, by: By, name: str) -> None:
        """Delete a user with tokens and sessions; NotFound, Conflict for the last admin."""
        entry = self._entry(by, "user.delete", "user", name)
        await self._run(lambda db: db.people.delete_user(name, entry))
        await self._reload()

    # -- tokens ---------------------------------------------------------------------------------

    async def add_token(self, by: By, new: NewToken) -> tuple[TokenRow, str]:
        """Make a token; the row, and the secret that nobody can be shown again."""
        if TOKEN_NAME.match(new.name) is None:
            raise Invalid(
                f"{new.name[:80]!r} is no name for a token",
                field="name",
                remedy="letters, digits, space and . _ @ -, at most 64",
            )
        owner = self.people.user(new.owner)
        if owner is None:
            raise NotFound(f"there is no user {new.owner!r}", field="owner", code="no_such_user")
        if new.days is not None and not 1 <= new.days <= DAYS_MAX:
            raise Invalid(f"days is {new.days}", field="days", remedy=f"1 to {DAYS_MAX}")
        role = Role(owner.role) if new.role is UNSET else new.role
        # Its owner's patterns bind it as well, also those that come later.
        patterns = EVERYWHERE if new.patterns is UNSET else parse_patterns(new.patterns)
        token, secret = made_token(
            new.name, owner, role, patterns, days=new.days, now_ms=self._clock.now_ms()
        )
        entry = self._entry(by, "token.create", "token", f"{owner.name}/{new.name}")
        added = await self._run(lambda db: db.people.add_token(token, entry, count_max=TOKENS_MAX))
        await self._reload()
        return added, secret

    async def revoke_token(self, by: By, token_id: int) -> None:
        """Make a token useless; NotFound where there is none."""
        found = next((token for token in self.people.tokens() if token.id == token_id), None)
        if found is None:
            raise NotFound(f"there is no token {token_id}", field="id", code="no_such_token")
        name = f"{self.people.name_of(found.user_id)}/{found.name}"
        entry = self._entry(by, "token.revoke", "token", name)
        await self._run(lambda db: db.people.delete_token(token_id, entry))
        await self._reload()

    # -- logging in and out ---------------------------------------------------------------------

    async def log_in(self, name: str, password: str, browser: Browser) -> tuple[str, int]:
        """The secret of a new session and when it ends at the latest, in ms.

        Raises DoorError: 401 for what does not fit, 429 after too many failures, 403 where
        nobody logs in by a password.
        """
        if not self._has_passwords:
            raise DoorError(
                403,
                "password_login_off",
                "nobody logs in by a password here",
                remedy="use the button, or have the setting password_login switched on",
            )
        name = name.strip().lower()
        user = self.people.user(name)
        kept = user.password_hash if user is not None else ""
        guess = self._limits.guess(
            name,
            browser.address,
            is_user=user is not None,
            is_usual=self.people.has_come_from(name, browser.address),
        )
        await self._prove(guess, browser.address, password, kept)
        if user is None or user.disabled:
            await self._failed(guess, browser.address, "login_failed")
            raise _wrong("password")
        self._limits.succeeded(guess)
        return await self._open_session(user, browser, {"from": browser.address})

    async def welcome(self, known: UserRow, browser: Browser) -> tuple[str, int]:
        """The same for whom a provider let in, who is added or gets the role of `known`.

        Raises DoorError for who is switched off here, Conflict where the name is taken.
        """
        entry = self._entry(By(known.issuer or ""), "", "user", known.name)
        user = await self._run(lambda db: db.people.welcome(known, entry))
        if user.disabled:
            await self._reload()
            raise DoorError(
                403,
                "user_disabled",
                f"the user {user.name!r} is switched off on this server",
                remedy="an admin can switch it on again on the page Access",
            )
        told = {"from": browser.address, "through": known.issuer}
        return await self._open_session(user, browser, told)

    async def refused(self, name: str, browser: Browser, told: Mapping[str, object]) -> None:
        """Write down that a provider's user was not let in, and why."""
        by = By(f"anonymous@{browser.address}"[:255])
        after = msgspec.json.encode(told).decode()
        entry = self._entry(by, "login", "user", name, after=after, result="login_refused")
        await self._run(lambda db: db.insert_audit(entry))

    async def _open_session(
        self, user: UserRow, browser: Browser, told: Mapping[str, object]
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
        after = msgspec.json.encode(told).decode()
        entry = self._entry(By(user.name), "login", "user", user.name, after=after)
        await self._run(
            lambda db: db.people.add_session(
                session, entry, instead_of=before, count_max=SESSIONS_MAX
            )
        )
        await self._reload()
        return secret, session.expires_ms

    async def log_out(self, by: By, session_id: int) -> None:
        """End one's own session."""
        await self._end(by, "logout", "user", by.name, [session_id])

    async def end_session(self, by: By, session_id: int) -> None:
        """End somebody's session; NotFound where it is over already."""
        found = [s for s in self.people.sessions() if s.id == session_id]
        owner = self.people.name_of(found[0].user_id) if found else ""
        if not found or not await self._end(by, "session.end", "user", owner, [session_id]):
            raise NotFound(f"there is no session {session_id}", field="id", code="no_such_session")

    async def _end(self, by: By, action: str, kind: str, name: str, ids: list[int]) -> int:
        entry = self._entry(by, action, kind, name)
        ended = await self._run(lambda db: db.people.end_sessions(ids, entry))
        await self._reload()
        return ended

    async def _prove(
        self, guess: Guess, address: str, password: str, kept: str, field: str = "password"
    ) -> None:
        """Return if the password fits; slower with each failure of that name at that address."""
        now_s = self._clock.monotonic_s()
        wait_s = self._limits.wait_s(guess, now_s)
        if wait_s > 0:
            self._note(guess, address, "login_limited")
            raise DoorError(
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
                password, kept, address=guess.network, goes_first=guess.is_usual
            )
        except Busy:
            self._limits.forgive(guess)
            raise
        if not fits:
            await self._failed(guess, address, "login_limited" if is_limited else "login_failed")
            raise _wrong(field)

    async def _failed(self, guess: Guess, address: str, code: str) -> None:
        self._note(guess, address, code)
        if guess.is_user:  # of other names there is no end
            await self._refusals.flush()  # before what follows, in the trail as well

    def _note(self, guess: Guess, address: str, code: str) -> None:
        # A password typed as a name is a name without a user: the trail has none of those.
        actor = f"anonymous@{address}"[:255]
        name = guess.name if guess.is_user else NO_USER
        self._refusals.note(Attempt(actor, address, "login", "user", name, code))

    # -- how ------------------------------------------------------------------------------------

    def _entry(
        self, by: By, action: str, kind: str, name: str, *, after: str = "", result: str = DONE
    ) -> AuditEntry:
        return AuditEntry(
            at_ms=self._clock.now_ms(),
            actor=by.name[:255],
            action=action,
            object_kind=kind,
            object_name=name[:512],
            before_json="",
            after_json=after,
            result=result,
            request_id=by.request_id[:64],
        )

    async def _run(self, work: "Callable[[Database], T]") -> T:
        try:
            return await self._database.run(work)
        except DatabaseError as error:
            raise _unavailable() from error

    async def _reload(self) -> None:
        try:
            await self.people.reload()
        except DatabaseError as error:
            raise _unavailable() from error


def _wrong(field: str) -> DoorError:
    return DoorError(
        401,
        "login_failed",
        "name and password do not fit together",
        field=field,
        remedy="check both; an admin can set another password",
    )


def _unavailable() -> Busy:
    busy = Busy(
        "the database of users does not answer, nothing was changed",
        remedy="see the server's log, then try again",
    )
    busy.code = "people_unavailable"
    return busy
