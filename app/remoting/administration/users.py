"""RocketMQ's users: those of KiteMQ, without their secrets; all changes are audited.

A user of type Super is an administrator, one of type Normal an operator. A user's password is for
the console and REST; clients sign with the access key of a token, which is made apart.
"""

from collections.abc import Awaitable
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import UNSET, Struct, UnsetType

from app.db.rows import UserRow
from app.remoting.call import RemotingCall, json_body
from app.remoting.errors import OK, ErrorResponse, RemotingRefusal
from app.security.access import Action, Kind, Role
from app.security.credentials import parse_name
from engine.errors import NotFound
from kitemq.model.access import NewUser, UserPatch
from protocol.remoting.codes import ResponseCode

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend

SUPER, NORMAL = "Super", "Normal"
STATES = {"enable": False, "disable": True}  # whether the user is disabled


class _User(Struct):
    password: str | None = None
    userType: str | None = None
    userStatus: str | None = None


def create_user(backend: "RemotingBackend", call: RemotingCall) -> Awaitable[ErrorResponse]:
    """Create a user: Super with all rights, Normal with none over topics and groups; audited."""
    call.require(Action.ADMINISTER, Kind.PEOPLE)
    name, user = call.text("username"), call.document(_User)
    kind = _kind(user.userType or NORMAL)
    if not user.password:
        raise RemotingRefusal(ResponseCode.INVALID_PARAMETER, "the user has no password")
    role = Role.ADMIN if kind == SUPER else Role.OPERATOR
    patterns: list[str] | UnsetType = UNSET if role is Role.ADMIN else []
    return _create_user(backend, call, NewUser(name, user.password, role, patterns))


async def _create_user(
    backend: "RemotingBackend", call: RemotingCall, new: NewUser
) -> ErrorResponse:
    await backend.services.accounts.add_user(call.actor, new)
    return OK


def update_user(backend: "RemotingBackend", call: RemotingCall) -> Awaitable[ErrorResponse]:
    """Change a user's password, type or status, whichever are given; audited."""
    call.require(Action.ADMINISTER, Kind.PEOPLE)
    user = get_user_row(backend, call.text("username"))
    return _update_user(backend, call, user, call.document(_User))


async def _update_user(
    backend: "RemotingBackend", call: RemotingCall, user: UserRow, new: _User
) -> ErrorResponse:
    accounts, author, patch = backend.services.accounts, call.actor, UserPatch()
    if new.userType and (kind := _kind(new.userType)) != kind_of(user):
        role = Role.ADMIN if kind == SUPER else Role.OPERATOR
        patch = UserPatch(role=role, patterns=[])
    if new.userStatus:
        is_disabled = STATES.get(new.userStatus.lower())
        if is_disabled is None:
            raise RemotingRefusal(
                ResponseCode.INVALID_PARAMETER, f"a user's status is one of {', '.join(STATES)}"
            )
        patch = UserPatch(role=patch.role, patterns=patch.patterns, disabled=is_disabled)
    if patch != UserPatch():
        await accounts.change_user(author, user.name, patch)
    if new.password:
        await accounts.set_password(author, user.name, new.password)
    return OK


def delete_user(backend: "RemotingBackend", call: RemotingCall) -> Awaitable[ErrorResponse]:
    """Delete a user with tokens and rights; audited. It is no error if there is none."""
    call.require(Action.ADMINISTER, Kind.PEOPLE)
    return _delete_user(backend, call, call.text("username"))


async def _delete_user(backend: "RemotingBackend", call: RemotingCall, name: str) -> ErrorResponse:
    with suppress(NotFound):
        await backend.services.accounts.delete_user(call.actor, parse_name(name))
    return OK


def get_user(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """A user without the password; an empty body if there is none."""
    call.require(Action.READ, Kind.PEOPLE)
    user = backend.services.user_directory.user(call.text("username").strip().lower())
    return ErrorResponse(body=b"" if user is None else json_body(_shape(user)))


def list_users(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The users whose names contain a text."""
    call.require(Action.READ, Kind.PEOPLE)
    part = call.text("filter", "")
    users = backend.services.user_directory.users()
    return ErrorResponse(body=json_body([_shape(each) for each in users if part in each.name]))


def get_user_row(backend: "RemotingBackend", name: str) -> UserRow:
    """A user by name; raises RemotingRefusal if there is none."""
    user = backend.services.user_directory.user(name.strip().lower())
    if user is None:
        raise RemotingRefusal(ResponseCode.USER_NOT_EXIST, f"there is no user {name[:80]!r}")
    return user


def kind_of(user: UserRow) -> str:
    """RocketMQ's type of a user."""
    return SUPER if user.role == Role.ADMIN else NORMAL


def _kind(text: str) -> str:
    kind = text.strip().capitalize()
    if kind not in (SUPER, NORMAL):
        raise RemotingRefusal(
            ResponseCode.INVALID_PARAMETER, f"a user's type is {SUPER} or {NORMAL}"
        )
    return kind


def _shape(user: UserRow) -> dict[str, str]:
    return {
        "username": user.name,
        "userType": kind_of(user),
        "userStatus": "disable" if user.disabled else "enable",
    }
