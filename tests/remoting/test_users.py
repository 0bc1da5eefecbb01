"""RocketMQ's users and access control lists, as KiteMQ's users and patterns."""

import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from protocol.remoting.codes import RequestCode, ResponseCode
from tests.grpc.test_endpoint import PASSWORD
from tests.remoting.port import Client, Running
from tests.remoting.test_rights import signed

pytestmark = pytest.mark.anyio

SECRET = "tractor-7-lamp"
CODES = range(RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_LIST_ACL + 1)


@pytest.fixture
async def running(open_port: Callable[..., Any]) -> AsyncIterator[Running]:
    async with open_port(admin_password=PASSWORD) as running:
        yield running


@pytest.fixture
async def admin(running: Running) -> Client:
    return await signed(running, "admin")


async def create(admin: Client, name: str, kind: str = "Normal") -> None:
    body = json.dumps({"password": SECRET, "userType": kind}).encode()
    await admin.ok(RequestCode.AUTH_CREATE_USER, {"username": name}, body)


def acl(resource: str, *actions: str, **more: Any) -> bytes:
    entry = {"resource": resource, "actions": list(actions), "decision": "Allow"} | more
    return json.dumps({"policies": [{"policyType": "Custom", "entries": [entry]}]}).encode()


async def allow(admin: Client, resource: str, *actions: str) -> None:
    body = acl(resource, *actions)
    await admin.ok(RequestCode.AUTH_CREATE_ACL, {"subject": "User:ann"}, body)


def patterns(running: Running) -> list[str]:
    return list(running.app.services.user_directory.user("ann").patterns)  # type: ignore[union-attr]


MEANINGS = [
    ("Topic:orders", ["Pub"], ["produce:topic:orders"]),
    ("Topic:orders-*", ["Pub", "Sub"], ["produce:topic:orders-*", "consume:topic:orders-*"]),
    ("Group:*", ["Sub", "List"], ["consume:group:*"]),
    ("Topic:orders", ["Get"], ["read_messages:topic:orders"]),
    ("Topic:orders", ["Create", "Update", "Delete"], ["administer:topic:orders"]),
    ("Group:billing", ["All"], ["*:group:billing"]),
    ("*", ["All"], ["*:*:*"]),
]
REFUSED = [
    ("User:ann", acl("Topic:orders", "Pub", decision="Deny"), "never denied"),
    ("User:ann", acl("Topic:orders", "Pub", sourceIps=["192.0.2.1"]), "sender's address"),
    ("User:ann", acl("Cluster:*", "Update"), "role of an administrator"),
    ("User:ann", acl("Topic:orders", "Create"), "one right here"),
    ("User:ann", acl("Topic:orders", "List"), "every user lists"),
    ("User:ann", acl("Topic:orders", "Fly"), "is no action"),
    ("User:ann", acl("Topic:a b", "Pub"), "no pattern"),
    ("User:ann", b'{"policies":[]}', "no entries"),
    ("User:admin", acl("Topic:orders", "Pub"), "administrator"),
    ("User:nobody", acl("Topic:orders", "Pub"), "no user"),
    ("Role:ann", acl("Topic:orders", "Pub"), "User:name"),
]


async def test_a_user_comes_changes_and_goes(running: Running, admin: Client) -> None:
    directory = running.app.services.user_directory
    await create(admin, "ann")
    ann = directory.user("ann")
    assert ann is not None
    assert (ann.role, ann.patterns) == ("operator", ())
    shape = await admin.document(RequestCode.AUTH_GET_USER, {"username": "ann"})
    assert shape == {"username": "ann", "userType": "Normal", "userStatus": "enable"}
    for change, (role, disabled) in (
        ({"userType": "Super"}, ("admin", False)),
        ({"userStatus": "disable"}, ("admin", True)),
        ({"userType": "normal", "userStatus": "enable"}, ("operator", False)),
    ):
        body = json.dumps(change).encode()
        await admin.ok(RequestCode.AUTH_UPDATE_USER, {"username": "ann"}, body)
        ann = directory.user("ann")
        assert ann is not None
        assert (ann.role, ann.disabled) == (role, disabled)
    listed = await admin.document(RequestCode.AUTH_LIST_USER, {"filter": "an"})
    assert [each["username"] for each in listed] == ["ann"]
    for _ in range(2):
        await admin.ok(RequestCode.AUTH_DELETE_USER, {"username": "ann"})
    assert directory.user("ann") is None
    answer = await admin.ok(RequestCode.AUTH_GET_USER, {"username": "ann"})
    assert answer.body == b""


async def test_a_password_logs_in_and_is_never_told(
    running: Running, admin: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await create(admin, "ann")
    body = json.dumps({"password": f"{SECRET}-2"}).encode()
    await admin.ok(RequestCode.AUTH_UPDATE_USER, {"username": "ann"}, body)
    wrong = json.dumps({"password": SECRET, "userType": SECRET}).encode()
    answer = await admin.ask(RequestCode.AUTH_CREATE_USER, {"username": "bob"}, wrong)
    assert SECRET not in answer.remark
    from app.security.accounts import Browser

    await running.app.services.accounts.log_in("ann", f"{SECRET}-2", Browser("127.0.0.1"))
    told = [
        await admin.ok(RequestCode.AUTH_GET_USER, {"username": "ann"}),
        await admin.ok(RequestCode.AUTH_LIST_USER),
    ]
    assert all(SECRET.encode() not in each.body for each in told)
    rows = await running.app.services.database.run(lambda database: repr(database.users.load()))
    assert SECRET not in rows
    assert SECRET not in caplog.text


async def test_an_entry_becomes_patterns_and_is_told_again(running: Running, admin: Client) -> None:
    await create(admin, "ann")
    for resource, actions, made in MEANINGS:
        await allow(admin, resource, *actions)
        assert patterns(running) == made
        told = await admin.document(RequestCode.AUTH_GET_ACL, {"subject": "User:ann"})
        ((entry,),) = (policy["entries"] for policy in told["policies"])
        assert (entry["resource"], entry["decision"]) == (resource, "Allow")
        assert set(entry["actions"]) == set(actions) - {"List"}
        await admin.ok(RequestCode.AUTH_DELETE_ACL, {"subject": "User:ann"})


async def test_entries_of_a_resource_replace_each_other_and_go(
    running: Running, admin: Client
) -> None:
    await create(admin, "ann")
    subject = {"subject": "User:ann"}
    await allow(admin, "Topic:orders", "Pub")
    await allow(admin, "Group:billing", "Sub")
    body = acl("Topic:orders", "Sub")
    await admin.ok(RequestCode.AUTH_UPDATE_ACL, subject, body)
    assert patterns(running) == ["consume:group:billing", "consume:topic:orders"]
    listed = await admin.document(RequestCode.AUTH_LIST_ACL, {"resourceFilter": "Topic"})
    assert [each["policies"][0]["entries"][0]["resource"] for each in listed] == ["Topic:orders"]
    await admin.ok(RequestCode.AUTH_DELETE_ACL, subject | {"resource": "Topic:orders"})
    assert patterns(running) == ["consume:group:billing"]
    await admin.ok(RequestCode.AUTH_DELETE_ACL, subject)
    assert patterns(running) == []
    assert (await admin.ok(RequestCode.AUTH_GET_ACL, subject)).body == b""


async def test_an_entry_that_means_something_else_is_refused(
    running: Running, admin: Client
) -> None:
    await create(admin, "ann")
    await allow(admin, "Topic:orders", "Sub")
    for subject, body, reason in REFUSED:
        answer = await admin.ask(RequestCode.AUTH_CREATE_ACL, {"subject": subject}, body)
        assert answer.code != ResponseCode.SUCCESS, reason
        assert reason in answer.remark
        assert patterns(running) == ["consume:topic:orders"]


async def test_only_administrators_see_and_change_users(running: Running) -> None:
    operator = await signed(running, "operator", "*:*:*")
    fields = {"username": "ann", "subject": "User:ann"}
    body = json.dumps({"password": SECRET, "policies": []}).encode()
    for code in CODES:
        answer = await operator.ask(code, fields, body)
        assert answer.code == ResponseCode.NO_PERMISSION, code
        assert "people" in answer.remark


async def test_changes_are_audited_under_the_name_of_their_author(
    running: Running, admin: Client
) -> None:
    await create(admin, "ann")
    await allow(admin, "Topic:orders", "Pub")
    await admin.ok(RequestCode.AUTH_DELETE_USER, {"username": "ann"})
    entries = await running.app.services.audit.entries(limit=3)
    told = [(each.action, each.object_name) for each in entries]
    assert told == [("user.delete", "ann"), ("user.change", "ann"), ("user.create", "ann")]
    assert {each.actor.partition("/")[0] for each in entries} == {"admin"}
