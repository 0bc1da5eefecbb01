"""Consumer groups: configurations, and changes, which are audited."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

import msgspec

from app.remoting.administration.bodies import DATA_VERSION
from app.remoting.call import RemotingCall, json_body
from app.remoting.errors import OK, ErrorResponse
from app.security.access import Action, Kind
from engine.broker import GroupConfig
from engine.errors import GroupNotFound
from kitemq.model.groups import GroupSettings

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend


class _Group(msgspec.Struct):
    groupName: str
    consumeEnable: bool = True
    retryMaxTimes: int = 16
    consumeMessageOrderly: bool | msgspec.UnsetType = msgspec.UNSET  # older tools leave it out


class _Groups(msgspec.Struct):
    groupConfigList: list[_Group] = []


def update_group(backend: "RemotingBackend", call: RemotingCall) -> Awaitable[ErrorResponse]:
    """Create a consumer group, or change whether it consumes, its retries and order; audited."""
    settings = call.document(_Group)
    call.require(Action.ADMINISTER, Kind.GROUP, settings.groupName)
    return _update_group(backend, call, settings)


async def _update_group(
    backend: "RemotingBackend", call: RemotingCall, settings: _Group
) -> ErrorResponse:
    groups, name = backend.services.groups, settings.groupName
    changes = GroupSettings(
        retry_max=settings.retryMaxTimes,
        consume_enabled=settings.consumeEnable,
        ordered=settings.consumeMessageOrderly,
    )
    try:
        backend.broker.group(name)
    except GroupNotFound:
        config = GroupConfig(
            name,
            retry_max=settings.retryMaxTimes,
            consume_enabled=settings.consumeEnable,
            ordered=settings.consumeMessageOrderly is True,
        )
        await groups.create(call.actor, config)
    else:
        await groups.change(call.actor, name, changes)
    return OK


def update_groups(backend: "RemotingBackend", call: RemotingCall) -> Awaitable[ErrorResponse]:
    """The same for several groups, one after the other."""
    groups = call.document(_Groups).groupConfigList
    for each in groups:
        call.require(Action.ADMINISTER, Kind.GROUP, each.groupName)
    return _update_groups(backend, call, groups)


async def _update_groups(
    backend: "RemotingBackend", call: RemotingCall, groups: list[_Group]
) -> ErrorResponse:
    for each in groups:
        await _update_group(backend, call, each)
    return OK


def delete_group(backend: "RemotingBackend", call: RemotingCall) -> Awaitable[ErrorResponse]:
    """Delete a consumer group with its progress; audited."""
    return _delete_group(backend, call, call.group(Action.ADMINISTER, "groupName"))


async def _delete_group(backend: "RemotingBackend", call: RemotingCall, name: str) -> ErrorResponse:
    await backend.services.groups.delete(call.actor, name)
    return OK


def group_config(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The configuration of one consumer group."""
    group = backend.broker.group(call.group(Action.READ, "group"))
    return ErrorResponse(body=json_body(_group_shape(group)))


def all_group_configs(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The configurations of all consumer groups."""
    call.require(Action.READ, Kind.SERVER)
    table = {each.name: _group_shape(each) for each in backend.broker.groups()}
    return ErrorResponse(
        body=json_body(
            {"subscriptionGroupTable": table, "forbiddenTable": {}, "dataVersion": DATA_VERSION}
        )
    )


def _group_shape(group: GroupConfig) -> dict[str, Any]:
    return {
        **group.rocketmq_entry(),
        "groupSysFlag": 0,
        "consumeTimeoutMinute": 15,
        "attributes": {},
    }
