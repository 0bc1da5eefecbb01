"""REST for users and the caller's own account; tokens and logins: credentials.py."""

from msgspec import UNSET

from app.api.framework.operation import Call, Operations
from app.db.rows import UserRow
from app.security.access import (
    ADMINISTER_PEOPLE,
    OWN,
    READ_PEOPLE,
    TABLE,
    Action,
    Kind,
    Needs,
    lacks,
)
from app.security.accounts import Browser
from app.security.credentials import parse_name
from app.security.passwords import check_password
from app.settings import Settings, is_loopback
from engine.errors import Forbidden, NotFound
from kitemq.model.access import Me, NewPassword, NewUser, Right, User, UserList, UserPatch
from kitemq.model.conversion import convert

operations = Operations("access")
READ_OWN = Needs(Action.READ, Kind.OWN)


def check_first(settings: Settings) -> None:
    """While there are no users, only a client of this machine may create the first."""
    if not is_loopback(settings.host):
        raise Forbidden(
            "the server has no users and listens on a network",
            remedy="make the first user on the server itself: kitemq users add NAME --role admin",
        )


def _user(row: UserRow) -> User:
    return convert(row, User)


@operations.get("/me", needs=READ_OWN)
async def get_me(call: Call[None, None]) -> Me:
    """Get the caller's name and rights."""
    who = call.who
    rights = []
    if who.role is not None:
        rights = [
            Right(action, kind, TABLE[who.role, action, kind])
            for role, action, kind in TABLE
            if role is who.role and not lacks(who, action, kind)
        ]
    patterns = who.grants[0].patterns if who.role is not None else ()
    return Me(
        name=who.name,
        open=who.is_open,
        role=who.role,
        patterns=patterns,
        token=who.token,
        read_only=who.is_read_only,
        rights=rights,
    )


@operations.post(
    "/me/password",
    needs=OWN,
    errors=(401, 404),
    example_body='{"old": "correct horse", "new": "battery staple"}',
)
async def change_my_password(call: Call[None, NewPassword]) -> None:
    """Change one's own password. All one's sessions end; tokens stay."""
    browser = Browser(call.client.rpartition(":")[0])
    name, body = call.who.name, call.body
    await call.services.accounts.change_password(
        call.actor, name, body.old, body.new, browser=browser
    )


@operations.get("/users", needs=READ_PEOPLE)
async def list_users(call: Call[None, None]) -> UserList:
    """List the users by name."""
    return UserList([_user(row) for row in call.services.user_directory.users()])


@operations.post(
    "/users",
    needs=ADMINISTER_PEOPLE,
    status=201,
    errors=(409,),
    example_body='{"name": "ann", "password": "correct horse", "role": "admin"}',
)
async def create_user(call: Call[None, NewUser]) -> User:
    """Add a user.

    The first one must be an admin, and can be made on the server's own machine only; from then on
    everybody has to log in or to send a token.
    """
    new, is_first = call.body, call.who.is_open
    if is_first:
        check_first(call.settings)
    return _user(await call.services.accounts.add_user(call.actor, new, is_first=is_first))


@operations.get("/users/{name}", needs=READ_PEOPLE)
async def get_user(call: Call[None, None]) -> User:
    """Look at one user."""
    name = call.path("name")
    user = call.services.user_directory.user(name)
    if user is None:
        raise NotFound(f"there is no user {name[:80]!r}", field="name", code="no_such_user")
    return _user(user)


@operations.patch(
    "/users/{name}",
    needs=ADMINISTER_PEOPLE,
    errors=(409,),
    example_body='{"role": "operator", "patterns": ["*:topic:orders-*", "consume:group:billing"]}',
)
async def change_user(call: Call[None, UserPatch]) -> User:
    """Change a user's role, patterns or password, or deactivate it. One admin always stays."""
    patch, name, accounts = call.body, parse_name(call.path("name")), call.services.accounts
    if patch.password is not UNSET:
        check_password(patch.password)
    changed = await accounts.change_user(call.actor, name, patch)
    if patch.password is not UNSET:
        await accounts.set_password(call.actor, name, patch.password)
    return _user(changed)


@operations.delete("/users/{name}", needs=ADMINISTER_PEOPLE, errors=(409,))
async def delete_user(call: Call[None, None]) -> None:
    """Delete a user with the user's tokens and sessions. The last admin cannot be deleted."""
    await call.services.accounts.delete_user(call.actor, parse_name(call.path("name")))
