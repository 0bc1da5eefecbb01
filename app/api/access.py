"""Users, tokens and sessions over REST, and who one is oneself."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from app.api.operation import API, Call, operation
from app.api.topics import Milliseconds
from app.db.rows import SessionRow, Source, TokenRow, UserRow
from app.security.access import (
    ADMINISTER_PEOPLE,
    OWN,
    READ_PEOPLE,
    TABLE,
    Action,
    Kind,
    Needs,
    Reach,
    Role,
    lacks,
    require,
)
from app.security.access_keys import AccessKeys
from app.security.accounts import Accounts, Browser, By
from app.security.drafts import NewToken, NewUser, checked_name
from app.security.passwords import check_password
from app.security.people import People
from app.settings import Settings, is_loopback
from engine.errors import Forbidden, Invalid, NotFound

TAG = "access"
READ_OWN = Needs(Action.READ, Kind.OWN)
ID_CHARS_MAX = 18

Patterns = Annotated[
    list[str],
    Meta(
        max_length=100,
        description="How far an operator's rights reach: ACTION:KIND:GLOB, where `*` stands for "
        "any action or kind, as in `produce:topic:orders-*`. Left out: everywhere.",
    ),
]
Password = Annotated[str, Meta(description="8 to 256 characters.")]


class User(msgspec.Struct):
    """Who may log in."""

    name: str
    role: Role
    patterns: tuple[str, ...]
    disabled: bool
    created_ms: Milliseconds
    source: Annotated[
        Source,
        Meta(description="By a password of this server, or through the OpenID Connect provider."),
    ]


class UserList(msgspec.Struct):
    items: list[User]


class NewUserBody(msgspec.Struct, forbid_unknown_fields=True):
    """A user to be added."""

    name: str
    password: Password
    role: Role = Role.VIEWER
    patterns: Patterns | UnsetType = UNSET


class UserPatch(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What changes; what is left out stays. A new password ends the user's sessions."""

    role: Role | UnsetType = UNSET
    patterns: Patterns | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET
    password: Password | UnsetType = UNSET


class Token(msgspec.Struct):
    """What a program shows; `prefix` is how its text begins."""

    id: str
    name: str
    owner: str
    prefix: str
    role: Role
    patterns: tuple[str, ...]
    created_ms: Milliseconds
    expires_ms: Milliseconds | None
    used_ms: Annotated[int | None, Meta(description="When it was used last; null: never.")]


class TokenList(msgspec.Struct):
    items: list[Token]


class MadeToken(Token):
    """A token with its text, which is shown this once.

    `access_key` and `secret_key` are the same token for RocketMQ 5 clients, which sign with them.
    """

    token: str
    access_key: str
    secret_key: str


class NewTokenBody(msgspec.Struct, forbid_unknown_fields=True):
    """A token to be made. It may do what both its own and its owner's rights allow."""

    name: str
    owner: Annotated[str, Meta(description="Oneself, where it is left out.")] = ""
    role: Role | UnsetType = UNSET
    patterns: Patterns | UnsetType = UNSET
    days: Annotated[int | None, Meta(description="Until it expires, 1 to 3650; null: never.")] = (
        None
    )


class Session(msgspec.Struct):
    """One login of a user."""

    id: str
    user: str
    created_ms: Milliseconds
    seen_ms: Milliseconds
    expires_ms: Milliseconds
    address: str
    user_agent: str


class SessionList(msgspec.Struct):
    items: list[Session]


class Right(msgspec.Struct):
    """One cell of what a role may do."""

    action: Action
    kind: Kind
    reach: Annotated[Reach, Meta(description="all, matching (what the patterns name) or none")]


class Me(msgspec.Struct):
    """Who asks. While there are no users, `open` is true and everybody may do everything."""

    name: str
    open: bool
    role: Role | None
    patterns: tuple[str, ...]
    token: Annotated[str, Meta(description="The name of the token that was sent.")]
    read_only: bool
    rights: list[Right]


class NewPassword(msgspec.Struct, forbid_unknown_fields=True):
    """One's own password; changing it ends all one's sessions."""

    old: str
    new: Password


def by_of(call: Call[Any, Any]) -> By:
    """Who changes people, for the trail."""
    return By(call.who.audit_name(call.client), call.header(b"x-request-id"))


def check_first(settings: Settings) -> None:
    """While there are no users only whoever sits at this machine may make the first."""
    if not is_loopback(settings.host):
        raise Forbidden(
            "the server has no users and listens on a network",
            remedy="make the first user on the server itself: kitemq users add NAME --role admin",
        )


def _accounts(call: Call[Any, Any]) -> Accounts:
    accounts: Accounts = call.state.accounts
    return accounts


def _people(call: Call[Any, Any]) -> People:
    people: People = call.state.people
    return people


def _patterns(given: list[str] | UnsetType) -> tuple[str, ...] | None:
    return None if given is UNSET else tuple(given)


def _user(row: UserRow) -> User:
    return User(row.name, Role(row.role), row.patterns, row.disabled, row.created_ms, row.source)


def _token(row: TokenRow, people: People) -> Token:
    return Token(
        str(row.id),
        row.name,
        people.name_of(row.user_id),
        row.prefix,
        Role(row.role),
        row.patterns,
        row.created_ms,
        row.expires_ms,
        row.used_ms,
    )


def _session(row: SessionRow, people: People) -> Session:
    return Session(
        str(row.id),
        people.name_of(row.user_id),
        row.created_ms,
        row.seen_ms,
        row.expires_ms,
        row.address,
        row.user_agent,
    )


def _id(call: Call[Any, Any]) -> int:
    text = call.path("id")
    if text.isdecimal() and text.isascii() and len(text) <= ID_CHARS_MAX:
        return int(text)
    raise Invalid(f"{text[:40]!r} is no id", field="id", remedy="send it as it came")


def _owned(call: Call[Any, Any], owner: str) -> None:
    """Raise RightMissing for what is somebody else's, unless one may change everybody's."""
    if owner != call.who.name:
        require(call.who, Action.ADMINISTER, Kind.PEOPLE)


@operation(
    "GET",
    f"{API}/me",
    tag=TAG,
    needs=READ_OWN,
    answer=Me,
    example="curl $URL/api/v1/me",
)
async def get_me(call: Call[None, None]) -> Me:
    """Tell who asks, and what he may do."""
    who = call.who
    rights = []
    if who.role is not None:
        rights = [
            Right(action, kind, TABLE[who.role, action, kind])
            for role, action, kind in TABLE
            if role is who.role and not lacks(who, action, kind)
        ]
    patterns = who.grants[0].patterns if who.role is not None else ()
    return Me(who.name, who.is_open, who.role, patterns, who.token, who.is_read_only, rights)


@operation(
    "POST",
    f"{API}/me/password",
    tag=TAG,
    needs=OWN,
    body=NewPassword,
    status=204,
    errors=(401, 404),
    example="curl -X POST $URL/api/v1/me/password -H 'Content-Type: application/json' "
    """-d '{"old": "correct horse", "new": "battery staple"}'""",
)
async def change_my_password(call: Call[None, NewPassword]) -> None:
    """Change one's own password. All one's sessions end; tokens stay."""
    browser = Browser(call.client.rpartition(":")[0])
    name, body = call.who.name, call.body
    await _accounts(call).change_password(by_of(call), name, body.old, body.new, browser=browser)


@operation(
    "GET",
    f"{API}/users",
    tag=TAG,
    needs=READ_PEOPLE,
    answer=UserList,
    example="curl $URL/api/v1/users",
)
async def list_users(call: Call[None, None]) -> UserList:
    """List the users by name."""
    return UserList([_user(row) for row in _people(call).users()])


@operation(
    "POST",
    f"{API}/users",
    tag=TAG,
    needs=ADMINISTER_PEOPLE,
    body=NewUserBody,
    answer=User,
    status=201,
    errors=(409,),
    example="curl -X POST $URL/api/v1/users -H 'Content-Type: application/json' "
    """-d '{"name": "ann", "password": "correct horse", "role": "admin"}'""",
)
async def create_user(call: Call[None, NewUserBody]) -> User:
    """Add a user.

    The first one must be an admin, and can be made on the server's own machine only; from then on
    everybody has to log in or to send a token.
    """
    new, is_first = call.body, call.who.is_open
    if is_first:
        check_first(call.settings)
    wanted = NewUser(new.name, new.password, new.role, _patterns(new.patterns))
    return _user(await _accounts(call).add_user(by_of(call), wanted, is_first=is_first))


@operation(
    "GET",
    f"{API}/users/{{name}}",
    tag=TAG,
    needs=READ_PEOPLE,
    answer=User,
    errors=(404,),
    example="curl $URL/api/v1/users/ann",
)
async def get_user(call: Call[None, None]) -> User:
    """Look at one user."""
    name = call.path("name")
    found = _people(call).user(name)
    if found is None:
        raise NotFound(f"there is no user {name[:80]!r}", field="name", code="no_such_user")
    return _user(found)


@operation(
    "PATCH",
    f"{API}/users/{{name}}",
    tag=TAG,
    needs=ADMINISTER_PEOPLE,
    body=UserPatch,
    answer=User,
    errors=(404, 409),
    example="curl -X PATCH $URL/api/v1/users/ann -H 'Content-Type: application/json' "
    """-d '{"role": "operator", "patterns": ["*:topic:orders-*", "consume:group:billing"]}'""",
)
async def change_user(call: Call[None, UserPatch]) -> User:
    """Change role, patterns or password of a user, or switch him off. One admin always stays."""
    patch, name, accounts = call.body, checked_name(call.path("name")), _accounts(call)
    if patch.password is not UNSET:
        check_password(patch.password)
    changed = await accounts.change_user(
        by_of(call),
        name,
        role=None if patch.role is UNSET else patch.role,
        patterns=_patterns(patch.patterns),
        disabled=None if patch.disabled is UNSET else patch.disabled,
    )
    if patch.password is not UNSET:
        await accounts.set_password(by_of(call), name, patch.password)
    return _user(changed)


@operation(
    "DELETE",
    f"{API}/users/{{name}}",
    tag=TAG,
    needs=ADMINISTER_PEOPLE,
    status=204,
    errors=(404, 409),
    example="curl -X DELETE $URL/api/v1/users/ann",
)
async def delete_user(call: Call[None, None]) -> None:
    """Delete a user with his tokens and sessions. The last admin cannot be deleted."""
    await _accounts(call).delete_user(by_of(call), checked_name(call.path("name")))


@operation(
    "GET",
    f"{API}/tokens",
    tag=TAG,
    needs=READ_OWN,
    answer=TokenList,
    example="curl $URL/api/v1/tokens",
)
async def list_tokens(call: Call[None, None]) -> TokenList:
    """List tokens: one's own, or everybody's for those who may see people."""
    people = _people(call)
    return TokenList([_token(row, people) for row in people.tokens(_shown_owner(call))])


@operation(
    "POST",
    f"{API}/tokens",
    tag=TAG,
    needs=OWN,
    body=NewTokenBody,
    answer=MadeToken,
    status=201,
    errors=(404, 409),
    example="curl -X POST $URL/api/v1/tokens -H 'Content-Type: application/json' "
    """-d '{"name": "ci", "owner": "ann", "role": "operator", "days": 90}'""",
)
async def create_token(call: Call[None, NewTokenBody]) -> MadeToken:
    """Make a token, whose text is shown this once.

    It may do what both its own role and patterns and its owner's allow.
    """
    new = call.body
    owner = checked_name(new.owner) if new.owner else call.who.name
    _owned(call, owner)
    role = "" if new.role is UNSET else str(new.role)
    wanted = NewToken(new.name, owner, role, _patterns(new.patterns), new.days)
    row, secret = await _accounts(call).add_token(by_of(call), wanted)
    shown = msgspec.structs.asdict(_token(row, _people(call)))
    keys: AccessKeys = call.state.access_keys
    access_key, secret_key = await keys.made_for(row.secret_hash)
    return MadeToken(**shown, token=secret, access_key=access_key, secret_key=secret_key)


@operation(
    "DELETE",
    f"{API}/tokens/{{id}}",
    tag=TAG,
    needs=OWN,
    status=204,
    errors=(404,),
    example="curl -X DELETE $URL/api/v1/tokens/1",
)
async def revoke_token(call: Call[None, None]) -> None:
    """Revoke a token: it is useless at once."""
    token_id, people = _id(call), _people(call)
    found = next((row for row in people.tokens() if row.id == token_id), None)
    _owned(call, people.name_of(found.user_id) if found else "")
    await _accounts(call).revoke_token(by_of(call), token_id)


@operation(
    "GET",
    f"{API}/sessions",
    tag=TAG,
    needs=READ_OWN,
    answer=SessionList,
    example="curl $URL/api/v1/sessions",
)
async def list_sessions(call: Call[None, None]) -> SessionList:
    """List logins: one's own, or everybody's for those who may see people."""
    people = _people(call)
    return SessionList([_session(row, people) for row in people.sessions(_shown_owner(call))])


@operation(
    "DELETE",
    f"{API}/sessions/{{id}}",
    tag=TAG,
    needs=OWN,
    status=204,
    errors=(404,),
    example="curl -X DELETE $URL/api/v1/sessions/1",
)
async def end_session(call: Call[None, None]) -> None:
    """End a login: that browser has to log in again."""
    session_id, people = _id(call), _people(call)
    found = next((row for row in people.sessions() if row.id == session_id), None)
    _owned(call, people.name_of(found.user_id) if found else "")
    await _accounts(call).end_session(by_of(call), session_id)


def _shown_owner(call: Call[None, None]) -> str:
    """Whose tokens and logins are shown: "" (everybody's) to those who may see people."""
    return call.who.name if lacks(call.who, Action.READ, Kind.PEOPLE) else ""


OPERATIONS = (
    get_me,
    change_my_password,
    list_users,
    create_user,
    get_user,
    change_user,
    delete_user,
    list_tokens,
    create_token,
    revoke_token,
    list_sessions,
    end_session,
)
