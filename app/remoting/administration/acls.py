"""RocketMQ's access control lists: the patterns of operators, as far as they mean the same.

A policy entry allows actions on one resource. KiteMQ has no denials, no source addresses and no
rights over a cluster apart from the role of an administrator: such entries are refused.
"""

from collections.abc import Awaitable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from app.db.rows import UserRow
from app.remoting.administration.users import get_user_row
from app.remoting.call import RemotingCall, json_body
from app.remoting.errors import OK, ErrorResponse, RemotingRefusal
from app.security.access import EVERYTHING, Action, Kind, Role
from kitemq.model.access import UserPatch
from protocol.remoting.codes import ResponseCode

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend

USER = "User:"
KINDS = {"Topic": Kind.TOPIC, "Group": Kind.GROUP}
NAMES = {kind.value: name for name, kind in KINDS.items()}
ACTIONS = {"Pub": Action.PRODUCE, "Sub": Action.CONSUME, "Get": Action.READ_MESSAGES}
CHANGES = frozenset({"Create", "Update", "Delete"})  # together one right here
FREE = frozenset({"List"})  # all users have it


class _AclEntry(Struct):
    resource: str = ""
    actions: list[str] | None = None
    sourceIps: list[str] | None = None
    decision: str | None = None


class _AclPolicy(Struct):
    policyType: str | None = None
    entries: list[_AclEntry] | None = None


class _Acl(Struct):
    policies: list[_AclPolicy] | None = None


def set_acl(backend: "RemotingBackend", call: RemotingCall) -> Awaitable[ErrorResponse]:
    """Allow actions to a user, instead of those on the same resources before; audited."""
    call.require(Action.ADMINISTER, Kind.PEOPLE)
    user = _operator(backend, call.text("subject"))
    policies = call.document(_Acl).policies or []
    entries = [entry for policy in policies for entry in policy.entries or []]
    if not entries:
        raise RemotingRefusal(ResponseCode.INVALID_PARAMETER, "the policy has no entries")
    patterns = list(user.patterns)
    for entry in entries:
        new = _patterns(entry)  # before the old ones go
        patterns = _without(patterns, entry.resource) + new
    return _store(backend, call, user, patterns)


def delete_acl(backend: "RemotingBackend", call: RemotingCall) -> Awaitable[ErrorResponse]:
    """Take a user's rights on one resource, or all; audited."""
    call.require(Action.ADMINISTER, Kind.PEOPLE)
    user, resource = _operator(backend, call.text("subject")), call.text("resource", "")
    return _store(backend, call, user, _without(user.patterns, resource) if resource else [])


async def _store(
    backend: "RemotingBackend", call: RemotingCall, user: UserRow, patterns: list[str]
) -> ErrorResponse:
    await backend.services.accounts.change_user(call.actor, user.name, UserPatch(patterns=patterns))
    return OK


def get_acl(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """What a user is allowed; an empty body for nothing."""
    call.require(Action.READ, Kind.PEOPLE)
    shape = _shape(get_user_row(backend, _name_in(call.text("subject"))), "")
    return ErrorResponse(body=json_body(shape) if shape else b"")


def list_acls(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """What users are allowed whose names and resources contain a text."""
    call.require(Action.READ, Kind.PEOPLE)
    subject, resource = call.text("subjectFilter", ""), call.text("resourceFilter", "")
    shapes = [
        shape
        for user in backend.services.user_directory.users()
        if subject in USER + user.name and (shape := _shape(user, resource))
    ]
    return ErrorResponse(body=json_body(shapes))


def _name_in(subject: str) -> str:
    if not subject.startswith(USER):
        raise RemotingRefusal(ResponseCode.INVALID_PARAMETER, "the subject has the form User:name")
    return subject.removeprefix(USER)


def _operator(backend: "RemotingBackend", subject: str) -> UserRow:
    """The user of a subject; raises RemotingRefusal for one whom patterns allow nothing."""
    user = get_user_row(backend, _name_in(subject))
    if user.role == Role.ADMIN:
        raise RemotingRefusal(
            ResponseCode.ILLEGAL_OPERATION,
            f"{user.name!r} is an administrator (Super), to whom all is allowed",
        )
    if user.role == Role.VIEWER:
        raise RemotingRefusal(
            ResponseCode.ILLEGAL_OPERATION,
            f"{user.name!r} is a viewer and only reads: give the user another role first",
        )
    return user


def _patterns(entry: _AclEntry) -> list[str]:
    """An entry's patterns; raises RemotingRefusal for what patterns do not say."""
    if (entry.decision or "Allow").capitalize() != "Allow":
        raise _refused("rights are only allowed here, never denied: delete the entry that allows")
    if entry.sourceIps:
        raise _refused("rights do not depend on the sender's address here")
    kind, glob = _resource(entry.resource)
    names = {name.strip().capitalize() for name in entry.actions or []}
    if unknown := names - ACTIONS.keys() - CHANGES - FREE - {"All"}:
        raise _refused(f"{sorted(unknown)[0][:40]!r} is no action")
    if "All" in names:
        return [f"*:{kind}:{glob}"]
    if (changes := names & CHANGES) and changes != CHANGES:
        raise _refused("Create, Update and Delete are one right here: give all three, or none")
    actions = [action for name, action in ACTIONS.items() if name in names]
    if changes:
        actions.append(Action.ADMINISTER)
    if not actions:
        raise _refused("every user lists topics and groups: there is nothing to be allowed")
    return [f"{action}:{kind}:{glob}" for action in actions]


def _resource(text: str) -> tuple[str, str]:
    """Kind and glob of a resource such as `Topic:orders-*`; `*` are all topics and groups."""
    if text == EVERYTHING:
        return EVERYTHING, EVERYTHING
    kind, _, name = text.partition(":")
    if kind not in KINDS or not name:
        raise _refused(
            f"{text[:80]!r} is no topic and no group (Topic:..., Group:..., *): other rights go "
            "with the role of an administrator"
        )
    return KINDS[kind].value, name


def _without(patterns: Sequence[str], resource: str) -> list[str]:
    suffix = ":".join(_resource(resource))
    return [each for each in patterns if each.partition(":")[2] != suffix]


def _shape(user: UserRow, resource_part: str) -> dict[str, Any] | None:
    """A user's patterns as one policy; None without any."""
    entries: dict[str, list[str]] = {}
    for pattern in () if user.role != Role.OPERATOR else user.patterns:
        action, kind, glob = pattern.split(":", 2)
        for resource in _resources(kind, glob):
            if resource_part in resource:
                names = entries.setdefault(resource, [])
                names += [name for name in _names_of(action) if name not in names]
    if not entries:
        return None
    policy = [
        {"resource": resource, "actions": actions, "decision": "Allow"}
        for resource, actions in entries.items()
    ]
    policies = [{"policyType": "Custom", "entries": policy}]
    return {"subject": USER + user.name, "policies": policies}


def _resources(kind: str, glob: str) -> Iterable[str]:
    if (kind, glob) == (EVERYTHING, EVERYTHING):
        return (EVERYTHING,)
    if kind == EVERYTHING:
        return tuple(f"{name}:{glob}" for name in KINDS)
    return (f"{NAMES[kind]}:{glob}",) if kind in NAMES else ()


def _names_of(action: str) -> list[str]:
    if action == EVERYTHING:
        return ["All"]
    if action == Action.ADMINISTER:
        return sorted(CHANGES)
    return [name for name, each in ACTIONS.items() if each == action]


def _refused(text: str) -> RemotingRefusal:
    return RemotingRefusal(ResponseCode.ILLEGAL_OPERATION, text)
