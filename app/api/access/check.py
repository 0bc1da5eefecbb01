"""Checks what a principal may do, by the decision that the endpoints use."""

from typing import Annotated

import msgspec
from msgspec import Meta

from app.api.framework.operation import Call, Operations
from app.security.access import READ_PEOPLE, Action, Kind
from app.security.rights_check import decide_all, subject_of
from kitemq.model.access import AccessCheck

operations = Operations("access")


class AccessQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Whose rights, exactly one of `user`, `token` and `role`; over what."""

    user: str = ""
    token: Annotated[str, Meta(description="A token's id.")] = ""
    role: Annotated[str, Meta(description="Of those who have it, with `patterns`.")] = ""
    patterns: Annotated[str, Meta(description="Separated by commas, as in `*:topic:orders-*`.")] = (
        ""
    )
    action: Annotated[Action | None, Meta(description="Left out: all of them.")] = None
    kind: Annotated[Kind | None, Meta(description="Left out: all of them.")] = None
    name: Annotated[str, Meta(description="A topic's or group's; left out: any that there is.")] = (
        ""
    )


@operations.get(
    "/access/check",
    needs=READ_PEOPLE,
    errors=(404,),
    example="?role=operator&patterns=*:*:orders-*&name=orders-1",
)
async def check_access(call: Call[AccessQuery, None]) -> AccessCheck:
    """Check what a user, a token or a role may do, and why.

    The answer is the decision that the endpoints would make, by the same table; nothing is tried.
    """
    query = call.query
    directory = call.services.user_directory
    patterns = [text for text in query.patterns.split(",") if text.strip()]
    subject = subject_of(
        directory, user=query.user, token=query.token, role=query.role, patterns=patterns
    )
    decisions = decide_all(subject, action=query.action, kind=query.kind, name=query.name)
    return AccessCheck(subject.principal.audit_name(""), decisions)
