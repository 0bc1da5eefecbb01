"""REST for tokens, which programs present, and for login sessions."""

from typing import Any

import msgspec

from app.api.access.users import READ_OWN
from app.api.framework.operation import Call, Operations
from app.db.rows import SessionRow, TokenRow
from app.security.access import OWN, Action, Kind, lacks, require
from app.security.credentials import parse_name
from app.security.user_directory import UserDirectory
from kitemq.model.access import LoginSession, MadeToken, NewToken, SessionList, Token, TokenList
from kitemq.model.conversion import convert


def _token(row: TokenRow, directory: UserDirectory) -> Token:
    return convert(row, Token, owner=directory.name_of(row.user_id))


def _session(row: SessionRow, directory: UserDirectory) -> LoginSession:
    return convert(row, LoginSession, user=directory.name_of(row.user_id))


def _owned(call: Call[Any, Any], owner: str) -> None:
    """Raise RightMissing for credentials of another user, without the right to change them."""
    if owner != call.who.name:
        require(call.who, Action.ADMINISTER, Kind.PEOPLE)


operations = Operations("access")


@operations.get("/tokens", needs=READ_OWN)
async def list_tokens(call: Call[None, None]) -> TokenList:
    """List the caller's tokens, or all tokens with the right to read users."""
    directory = call.services.user_directory
    return TokenList([_token(row, directory) for row in directory.tokens(_owner_of(call))])


@operations.post(
    "/tokens",
    needs=OWN,
    status=201,
    errors=(404, 409),
    example_body='{"name": "ci", "owner": "ann", "role": "operator", "days": 90}',
)
async def create_token(call: Call[None, NewToken]) -> MadeToken:
    """Make a token, whose text is shown this once.

    It may do what both its own role and patterns and its owner's allow.
    """
    new = call.body
    owner = parse_name(new.owner) if new.owner else call.who.name
    _owned(call, owner)
    new = msgspec.structs.replace(new, owner=owner)
    row, secret = await call.services.accounts.add_token(call.actor, new)
    owner = call.services.user_directory.name_of(row.user_id)
    access_key, secret_key = await call.services.access_keys.key_pair(row.secret_hash)
    return convert(
        row, MadeToken, owner=owner, token=secret, access_key=access_key, secret_key=secret_key
    )


@operations.delete("/tokens/{id}", needs=OWN)
async def revoke_token(call: Call[None, None]) -> None:
    """Revoke a token: it is useless at once."""
    token_id, directory = call.number("id"), call.services.user_directory
    token = next((row for row in directory.tokens() if row.id == token_id), None)
    _owned(call, directory.name_of(token.user_id) if token else "")
    await call.services.accounts.revoke_token(call.actor, token_id)


@operations.get("/sessions", needs=READ_OWN)
async def list_sessions(call: Call[None, None]) -> SessionList:
    """List the caller's logins, or all logins with the right to read users."""
    directory = call.services.user_directory
    return SessionList([_session(row, directory) for row in directory.sessions(_owner_of(call))])


@operations.delete("/sessions/{id}", needs=OWN)
async def end_session(call: Call[None, None]) -> None:
    """End a login: that browser has to log in again."""
    session_id, directory = call.number("id"), call.services.user_directory
    session = next((row for row in directory.sessions() if row.id == session_id), None)
    _owned(call, directory.name_of(session.user_id) if session else "")
    await call.services.accounts.end_session(call.actor, session_id)


def _owner_of(call: Call[None, None]) -> str:
    """The owner whose tokens and logins are listed: "" (all) with the right to read users."""
    return call.who.name if lacks(call.who, Action.READ, Kind.PEOPLE) else ""
