"""Users, tokens and sessions in SQL: each change is one transaction with its audit entry.

Every change increments `people_version`, so that servers notice changes by the command line. It
does so first, which locks the row: concurrent changes see each other's result, so that the last two
admins cannot remove each other.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from app.db.audit_store import insert_audit
from app.db.rows import AuditEntry, SessionRow, TokenRow, UserRow, UserRows, json_text
from app.db.store import TableStore, count_rows, insert_row, read, read_one, update_row
from app.db.tables import (
    people_version,
    produce_templates,
    saved_views,
    sessions,
    tokens,
    topic_stars,
    users,
)
from engine.errors import Conflict, NotFound

ADMIN = "admin"
ONLY_VERSION = 1


class UserStore(TableStore):
    """The part of the database that holds users, tokens and sessions."""

    def version(self) -> int:
        """The version of users, tokens and sessions."""
        with self._transaction() as connection:
            return _version(connection)

    def load(self) -> UserRows:
        """All users, tokens and sessions of one version."""
        with self._transaction() as connection:
            return UserRows(
                _version(connection),
                read(connection, select(users).order_by(users.c.id), UserRow),
                read(connection, select(tokens).order_by(tokens.c.id), TokenRow),
                read(connection, select(sessions).order_by(sessions.c.id), SessionRow),
            )

    def add_user(self, user: UserRow, entry: AuditEntry, *, only_first: bool = False) -> UserRow:
        """Add a user; raises Conflict if the name is taken, or if `only_first` and users exist."""
        with self._transaction() as connection:
            _changed(connection)
            if only_first and count_rows(connection, users):
                raise Conflict("there is a user already", remedy="log in")
            if _find_user(connection, user.name) is not None:
                raise Conflict(
                    f"there is a user {user.name!r} already", field="name", remedy="choose another"
                )
            added = insert_row(connection, users, user)
            _audit(connection, entry, None, added.described())
        return added

    def change_user(self, name: str, changes: Mapping[str, Any], entry: AuditEntry) -> UserRow:
        """Change fields of a user; raises NotFound, or Conflict if no admin would remain.

        A new password, and disabling, end all sessions of the user. A provider's user gets no
        password, which would bypass the provider.
        """
        with self._transaction() as connection:
            _changed(connection)
            before = _get_user(connection, name)
            _keep_provided(before, changes)
            after = replace(before, **changes)
            _keep_an_admin(connection, before, after)
            update_row(connection, users, after)
            if after.disabled or after.password_hash != before.password_hash:
                connection.execute(delete(sessions).where(sessions.c.user_id == before.id))
            audited = {"password": "changed"} if "password_hash" in changes else {}
            _audit(connection, entry, before.described(), {**after.described(), **audited})
        return after

    def upsert_provided(self, provided: UserRow, entry: AuditEntry) -> UserRow:
        """Add a provider's user at the first login, or update the role.

        The user is identified by issuer and subject and keeps the name of the first login; raises
        Conflict if another user has that name. The last admin can lose the role this way, as the
        provider determines it.
        """
        with self._transaction() as connection:
            _changed(connection)
            same = (users.c.issuer == provided.issuer) & (users.c.subject == provided.subject)
            before = read_one(connection, select(users).where(same), UserRow)
            if before is not None:
                after = replace(before, role=provided.role)
                if after != before:
                    update_row(connection, users, after)
                    changed = replace(entry, action="user.change", object_name=before.name)
                    _audit(connection, changed, before.described(), after.described())
                return after
            if _find_user(connection, provided.name) is not None:
                raise Conflict(
                    f"there is another user {provided.name!r}", field="name", code="name_taken"
                )
            added = insert_row(connection, users, provided)
            _audit(connection, replace(entry, action="user.create"), None, added.described())
        return added

    def delete_user(self, name: str, entry: AuditEntry) -> None:
        """Delete a user with all that is theirs; as `change_user` refuses."""
        with self._transaction() as connection:
            _changed(connection)
            before = _get_user(connection, name)
            _keep_an_admin(connection, before, None)
            for table in (tokens, sessions):
                connection.execute(delete(table).where(table.c.user_id == before.id))
            for owned in (saved_views, produce_templates, topic_stars):
                connection.execute(delete(owned).where(owned.c.owner == name))
            connection.execute(delete(users).where(users.c.id == before.id))
            _audit(connection, entry, before.described(), None)

    def add_token(self, token: TokenRow, entry: AuditEntry, *, count_max: int) -> TokenRow:
        """Add a token; raises Conflict if its owner has `count_max`, or one of this name."""
        with self._transaction() as connection:
            _changed(connection)
            owned = tokens.c.user_id == token.user_id
            names = connection.execute(select(tokens.c.name).where(owned)).scalars().all()
            if token.name in names:
                raise Conflict(
                    f"there is a token {token.name!r} already",
                    field="name",
                    remedy="choose another name, or revoke that one",
                )
            if len(names) >= count_max:
                raise Conflict(f"one user has at most {count_max} tokens", remedy="revoke some")
            added = insert_row(connection, tokens, token)
            _audit(connection, entry, None, added.described())
        return added

    def delete_token(self, token_id: int, entry: AuditEntry) -> None:
        """Delete a token; raises NotFound."""
        with self._transaction() as connection:
            _changed(connection)
            same = tokens.c.id == token_id
            token = read_one(connection, select(tokens).where(same), TokenRow)
            if token is None:
                raise NotFound(f"there is no token {token_id}", field="id")
            connection.execute(delete(tokens).where(same))
            _audit(connection, entry, token.described(), None)

    def add_session(
        self, session: SessionRow, entry: AuditEntry, *, instead_of: str, count_max: int
    ) -> SessionRow:
        """Add a session; ends the browser's previous one, and the user's oldest over the limit."""
        with self._transaction() as connection:
            _changed(connection)
            connection.execute(delete(sessions).where(sessions.c.secret_hash == instead_of))
            added = insert_row(connection, sessions, session)
            theirs = select(sessions.c.id).where(sessions.c.user_id == session.user_id)
            newest_first = theirs.order_by(sessions.c.id.desc()).offset(count_max)
            # PostgreSQL and SQLite both want a limit of its own kind beside an offset: read first.
            too_old = connection.execute(newest_first.limit(1_000)).scalars().all()
            connection.execute(delete(sessions).where(sessions.c.id.in_(too_old)))
            insert_audit(connection, entry)
        return added

    def end_sessions(self, ids: list[int], entry: AuditEntry) -> int:
        """End sessions; returns the number of those that existed."""
        with self._transaction() as connection:
            _changed(connection)
            ended = connection.execute(delete(sessions).where(sessions.c.id.in_(ids))).rowcount
            if ended:
                insert_audit(connection, entry)
        return ended

    def touch(
        self, used_ms: Mapping[int, int], seen_ms: Mapping[int, int], *, over_ms: tuple[int, int]
    ) -> None:
        """Write times of use of tokens and sessions, and delete sessions that are over.

        `over_ms` is the current time, and the earliest last use of a live session.
        """
        now_ms, idle_ms = over_ms
        with self._transaction() as connection:
            # In one order, so that two servers never wait for each other.
            for token_id, at_ms in sorted(used_ms.items()):
                statement = update(tokens).where(tokens.c.id == token_id)
                connection.execute(statement.values(used_ms=at_ms))
            for session_id, at_ms in sorted(seen_ms.items()):
                renewed = update(sessions).where(sessions.c.id == session_id)
                connection.execute(renewed.values(seen_ms=at_ms))
            is_over = (sessions.c.expires_ms <= now_ms) | (sessions.c.seen_ms <= idle_ms)
            connection.execute(delete(sessions).where(is_over))


def _keep_provided(before: UserRow, changes: Mapping[str, Any]) -> None:
    """Refuse to change fields that the provider determines."""
    provided = {"password_hash": "password", "role": "role"}
    field = next(
        (provided[n] for n in changes if n in provided and changes[n] != getattr(before, n)), ""
    )
    if before.issuer is not None and field:
        raise Conflict(
            f"{before.name!r} logs in through {before.issuer}, which decides about the {field}",
            field=field,
            remedy="change it there; it takes effect at the next login",
            code="not_local",
        )


def _keep_an_admin(connection: Connection, before: UserRow, after: UserRow | None) -> None:
    """Raise Conflict if no admin remains: nobody could change users, or all would be open."""
    is_one = after is not None and after.role == ADMIN and not after.disabled
    if before.role != ADMIN or before.disabled or is_one:
        return
    others = (users.c.role == ADMIN) & (users.c.disabled.is_(False)) & (users.c.id != before.id)
    if not count_rows(connection, users, others):
        raise Conflict(
            f"{before.name!r} is the last admin",
            field="role",
            remedy="make somebody else an admin first",
            code="last_admin",
        )


def _version(connection: Connection) -> int:
    version = connection.execute(select(people_version.c.version)).scalar()
    return int(version) if version is not None else 0


def _changed(connection: Connection) -> None:
    one_more = update(people_version).values(version=people_version.c.version + 1)
    if not connection.execute(one_more).rowcount:
        connection.execute(insert(people_version).values(id=ONLY_VERSION, version=1))


def _find_user(connection: Connection, name: str) -> UserRow | None:
    return read_one(connection, select(users).where(users.c.name == name), UserRow)


def _get_user(connection: Connection, name: str) -> UserRow:
    user = _find_user(connection, name)
    if user is None:
        raise NotFound(
            f"there is no user {name!r}", field="name", remedy="check the name", code="no_such_user"
        )
    return user


def _audit(connection: Connection, entry: AuditEntry, before: object, after: object) -> None:
    """Write the audit entry in the change's transaction."""
    audited = replace(entry, before_json=json_text(before), after_json=json_text(after))
    insert_audit(connection, audited)
