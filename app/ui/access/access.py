"""Users, tokens, sessions and rights; every user sees their own part of the page."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import UNSET, Meta
from starlette.responses import Response

from app.db.rows import SessionRow, TokenRow, UserRow
from app.errors import ProblemError
from app.security.access import TABLE, Action, Kind, Principal, Role, lacks, require
from app.security.authenticator import LOGIN
from app.security.credentials import parse_role
from app.security.user_directory import UserDirectory
from app.settings import is_loopback
from app.ui.access.login import browser_of, logged_in
from app.ui.framework import forms, pages, typed_forms
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.typed_forms import Fields, Verbatim
from engine.errors import Conflict, Forbidden, Invalid, NotFound
from kitemq.model.access import LoginSession, NewToken, NewUser, Token, User
from kitemq.model.conversion import convert
from kitemq.model.numbers import is_whole

ROWS_MAX = 200
ROLES = (
    (
        Role.VIEWER.value,
        N_("viewer: sees everything except users; reads message bodies where a pattern allows"),
    ),
    (
        Role.OPERATOR.value,
        N_("operator: produces, consumes and administers what the patterns allow"),
    ),
    (Role.ADMIN.value, N_("admin: full access")),
)
LIFETIMES = (
    ("30", N_("30 days")),
    ("90", N_("90 days")),
    ("365", N_("1 year")),
    ("", N_("no expiry")),
)


def patterns_of(text: str) -> list[str]:
    """The patterns in a text with one pattern per line."""
    return [line.strip() for line in text.splitlines() if line.strip()]


class UserFields(Fields, frozen=True):
    """The form for a new user."""

    name: Verbatim
    password: Verbatim
    role: str
    patterns: Annotated[list[str], patterns_of]


class TokenFields(Fields, frozen=True):
    """The form for a new token; without an owner it is the user's own."""

    name: str
    owner: str
    role: str
    patterns: Annotated[list[str], patterns_of]
    days: Annotated[int | None, Meta(title=N_("Days"), ge=1, le=3650)]


class PasswordFields(Fields, frozen=True):
    """The form for the user's own password."""

    old: Verbatim
    new: Verbatim
    again: Verbatim


class UserLine(User, frozen=True):
    """A user as a row of the table; `provider` is "" for a local password."""

    tokens: int
    sessions: int
    is_me: bool
    provider: str


class TokenLine(Token, frozen=True):
    is_over: bool


class SessionLine(LoginSession, frozen=True):
    is_this: bool


@dataclass(frozen=True)
class RightLine:
    """One action on one kind of thing, and how far each role has it."""

    action: str
    kind: str
    reaches: tuple[str, ...]


@dataclass(frozen=True)
class NewTokenText:
    """The text of a new token, and the same token as access key and secret."""

    name: str
    text: str
    pair: tuple[str, str]


@dataclass(frozen=True)
class Access:
    """The context of `access.html`; `made` is a new token, shown this once."""

    may_begin: bool
    provider: str  # the current user's identity provider; "" for a local password
    users: list[UserLine]
    users_total: int
    tokens: list[TokenLine]
    tokens_total: int
    sessions: list[SessionLine]
    sessions_total: int
    table: list[RightLine]
    owners: list[tuple[str, str]]
    user_form: Form
    token_form: Form
    password_form: Form
    made: NewTokenText | None
    roles: tuple[tuple[str, str], ...] = ROLES
    lifetimes: tuple[tuple[str, str], ...] = LIFETIMES


async def show(
    request: PageRequest,
    *,
    user_form: Form | None = None,
    token_form: Form | None = None,
    password_form: Form | None = None,
    made: NewTokenText | None = None,
) -> Response:
    """GET /access"""
    directory, who = request.services.user_directory, request.who
    owner = who.name if lacks(who, Action.READ, Kind.PEOPLE) else ""
    users = [user for user in directory.users() if not owner or user.name == owner]
    myself = directory.user(who.name)
    tokens, sessions = directory.tokens(owner), directory.sessions(owner)
    now_ms = request.console.now_ms()
    user_values = {"name": "", "password": "", "role": "viewer", "patterns": ""}
    token_values = {"name": "", "owner": who.name, "role": "", "patterns": "", "days": "90"}
    context = Access(
        may_begin=_may_begin(request),
        provider=(myself.issuer if myself is not None else "") or "",
        users=[user_line(user, directory, who) for user in users[:ROWS_MAX]],
        users_total=len(users),
        tokens=[_token_line(token, directory, now_ms) for token in tokens[:ROWS_MAX]],
        tokens_total=len(tokens),
        sessions=[_session_line(session, directory, who) for session in sessions[:ROWS_MAX]],
        sessions_total=len(sessions),
        table=_table(),
        owners=[(user.name, user.name) for user in users],
        user_form=user_form or Form(user_values),
        token_form=token_form or Form(token_values),
        password_form=password_form or typed_forms.fill({}, PasswordFields),
        made=made,
    )
    status = 201 if made else None
    return await pages.respond(request, "access.html", context, title=_("Access"), status=status)


async def add_user(request: PageRequest) -> Response:
    """POST /access/users: a new user; the first one is logged in at once."""
    form, fields = await request.read_form(UserFields)
    form.values["password"] = ""
    is_first = request.who.is_open
    if is_first and not _may_begin(request):
        raise Forbidden(
            _("the server listens on a network, so the first user cannot be created here"),
            remedy=_("run this on the server: kitemq users add NAME --role admin"),
        )
    try:
        role = Role.ADMIN if is_first else parse_role(fields.role)
        new = NewUser(fields.name, fields.password, role, fields.patterns or UNSET)
        user = await request.services.accounts.add_user(request.actor, new, is_first=is_first)
    except (Invalid, Conflict) as error:
        form.blame(error)
        return await show(request, user_form=form)
    if is_first:
        return await logged_in(request, user.name, fields.password, "/access?done=first")
    return forms.go(request, "/access?done=created")


async def add_token(request: PageRequest) -> Response:
    """POST /access/tokens: the page with the token's text on it, this once."""
    form, fields = await request.read_form(TokenFields)
    owner = fields.owner or request.who.name
    _require_owned(request, owner)
    if form.is_wrong:
        return await show(request, token_form=form)
    try:
        role = parse_role(fields.role) if fields.role else UNSET
        new = NewToken(fields.name, owner, role, fields.patterns or UNSET, fields.days)
        token, secret = await request.services.accounts.add_token(request.actor, new)
    except (Invalid, Conflict, NotFound) as error:
        form.blame(error)
        return await show(request, token_form=form)
    pair = await request.services.access_keys.key_pair(token.secret_hash)
    return await show(request, made=NewTokenText(token.name, secret, pair))


async def revoke_token(request: PageRequest) -> Response:
    """POST /access/tokens/{id}/revoke"""
    directory, token_id = request.services.user_directory, _id(request)
    token = next((row for row in directory.tokens() if row.id == token_id), None)
    _require_owned(request, directory.name_of(token.user_id) if token else "")
    await request.services.accounts.revoke_token(request.actor, token_id)
    return forms.go(request, "/access?done=revoked")


async def end_session(request: PageRequest) -> Response:
    """POST /access/sessions/{id}/end"""
    directory, session_id = request.services.user_directory, _id(request)
    session = next((row for row in directory.sessions() if row.id == session_id), None)
    _require_owned(request, directory.name_of(session.user_id) if session else "")
    await request.services.accounts.end_session(request.actor, session_id)
    is_this = session_id == request.who.session_id
    return forms.go(request, LOGIN if is_this else "/access?done=ended")


async def change_password(request: PageRequest) -> Response:
    """POST /access/password: change the user's own password and end their other sessions."""
    __, fields = await request.read_form(PasswordFields)
    form = typed_forms.fill({}, PasswordFields)
    if fields.new != fields.again:
        form.refuse("again", _("The new passwords do not match."))
        return await show(request, password_form=form)
    name = request.who.name
    try:
        await request.services.accounts.change_password(
            request.actor, name, fields.old, fields.new, browser=browser_of(request)
        )
    except Invalid as error:
        form.blame(error, {"password": "new"})
    except ProblemError as error:
        form.refuse("old", f"{str(error.detail).capitalize()}; {error.remedy}.")
    if form.is_wrong:
        return await show(request, password_form=form)
    return await logged_in(request, name, fields.new, "/access?done=password")


def _table() -> list[RightLine]:
    pairs = dict.fromkeys((action, kind) for __, action, kind in TABLE)
    return [
        RightLine(action, kind, tuple(TABLE[role, action, kind] for role in Role))
        for action, kind in pairs
    ]


def user_line(user: UserRow, directory: UserDirectory, who: Principal) -> UserLine:
    return convert(
        user,
        UserLine,
        patterns=() if user.role == Role.ADMIN else user.patterns,
        tokens=len(directory.tokens(user.name)),
        sessions=len(directory.sessions(user.name)),
        is_me=user.name == who.name,
        provider=user.issuer or "",
    )


def _token_line(token: TokenRow, directory: UserDirectory, now_ms: int) -> TokenLine:
    is_over = token.expires_ms is not None and token.expires_ms <= now_ms
    return convert(token, TokenLine, owner=directory.name_of(token.user_id), is_over=is_over)


def _session_line(session: SessionRow, directory: UserDirectory, who: Principal) -> SessionLine:
    is_this = session.id == who.session_id
    return convert(session, SessionLine, user=directory.name_of(session.user_id), is_this=is_this)


def _require_owned(request: PageRequest, owner: str) -> None:
    """Raise RightMissing if the object belongs to another user and the caller is no admin."""
    if owner != request.who.name:
        require(request.who, Action.ADMINISTER, Kind.PEOPLE, "")


def _may_begin(request: PageRequest) -> bool:
    return is_loopback(request.services.settings.host)


def _id(request: PageRequest) -> int:
    text = request.path_params["id"]
    if not is_whole(text):
        raise NotFound(_("no entry has the id %(text)s", text=f"{text[:40]!r}"))
    return int(text)
