"""What somebody may do, worked out beforehand: as the endpoints decide, and why."""

from typing import Any

import httpx
import pytest

from app.security import required_rights
from app.security.access import Action, Grant, Kind, Principal, Role
from app.security.rights_check import RightsSubject, decide_all, rights
from tests.app.conftest import URL, App
from tests.app.security.test_access import PASSWORD, bearer, token_of, with_admin
from tests.rights import PEOPLE, Person

pytestmark = pytest.mark.anyio


@pytest.fixture
async def guarded(running: App) -> App:
    await with_admin(running)
    for name, role in (("vera", "viewer"), ("otto", "operator")):
        new: dict[str, Any] = {"name": name, "password": PASSWORD, "role": role}
        if role == "operator":
            new["patterns"] = ["*:*:orders-*"]
        await running.post("/users", new, 201)
    return running


def principal_of(person: Person) -> Principal:
    grants = [Grant(Role(person.role), person.patterns)]
    if person.has_token:
        patterns = person.token_patterns or person.patterns
        grants.insert(0, Grant(Role(person.token_role), patterns))
    return Principal(person.owner, tuple(grants), token=person.name if person.has_token else "")


@pytest.mark.parametrize("person", [p for p in PEOPLE if p.role], ids=lambda person: person.name)
@pytest.mark.parametrize("name", ["orders-1", "payments", "%DLQ%orders-1", "*"])
def test_every_right_is_judged_as_the_judge_of_the_tests_does(person: Person, name: str) -> None:
    for verdict in decide_all(RightsSubject(principal_of(person)), name=name):
        if name.startswith("%") and verdict.kind is Kind.GROUP:
            continue  # that is a topic's name
        assert verdict.allowed == person.may(f"{verdict.action}:{verdict.kind}:{name}"), verdict
    for verdict in decide_all(RightsSubject(principal_of(person))):
        if verdict.kind not in (Kind.TOPIC, Kind.GROUP):
            assert verdict.allowed == person.may(f"{verdict.action}:{verdict.kind}"), verdict


def test_every_right_of_every_door_is_there_with_the_door() -> None:
    found = rights()
    for title, table in required_rights.TABLES.items():
        for endpoint, needed in required_rights.rights_by_endpoint(table).items():
            for right in needed:
                if ":" not in right or right == required_rights.PUBLIC:
                    continue
                action, kind, *__ = right.split(":")
                assert endpoint in found[Action(action), Kind(kind)][title]


async def verdicts(app: App, query: str) -> dict[str, dict[str, Any]]:
    found = await app.get(f"/access/check?{query}")
    return {item["right"]: item for item in found["items"]}


async def test_the_reason_names_role_pattern_or_token(guarded: App) -> None:
    otto = await verdicts(guarded, "user=otto&name=orders-7")
    assert otto["produce:topic:orders-7"]["allowed"]
    assert otto["produce:topic:orders-7"]["by"] == "*:*:orders-*"
    other = (await verdicts(guarded, "user=otto&name=bills"))["produce:topic:bills"]
    assert (other["allowed"], other["reason"]) == (False, "pattern")
    vera = await verdicts(guarded, "user=vera&action=administer&kind=server")
    assert vera["administer:server"] | {"operations": 0} == {
        **{"right": "administer:server", "action": "administer", "kind": "server", "name": ""},
        **{"allowed": False, "reason": "role", "by": "viewer", "operations": 0},
    }
    await token_of(guarded, "otto", name="ci", role="viewer", days=1)
    (token,) = (await guarded.get("/tokens"))["items"]
    mine = await verdicts(guarded, f"token={token['id']}&name=orders-7")
    assert mine["produce:topic:orders-7"]["reason"] == "token_role"
    guarded.clock.advance(2 * 86_400)
    await guarded.http.post("/login", data={"name": "ann", "password": PASSWORD, "next": "/"})
    gone = await verdicts(guarded, f"token={token['id']}")
    assert {item["reason"] for item in gone.values()} == {"expired"}
    await guarded.http.patch("/api/v1/users/otto", json={"disabled": True})
    off = await verdicts(guarded, "user=otto")
    assert {item["reason"] for item in off.values()} == {"disabled"}


async def test_a_frozen_server_is_told_as_the_reason(guarded: App) -> None:
    body = {"read_only": True, "reason": "moving"}
    await guarded.http.put("/api/v1/read-only", json=body)
    found = await verdicts(guarded, "user=ann&name=orders-7")
    assert found["produce:topic:orders-7"]["reason"] == "read_only"
    assert found["read:topic:orders-7"]["allowed"]


async def test_the_answer_is_what_the_door_does(guarded: App) -> None:
    secret = await token_of(guarded, "otto", name="ci")
    async with httpx.AsyncClient(transport=guarded.http._transport, base_url=URL) as http:
        for name in ("orders-7", "bills"):
            told = await verdicts(guarded, f"user=otto&name={name}")
            is_told = told[f"administer:topic:{name}"]["allowed"]
            answer = await http.post("/api/v1/topics", json={"name": name}, headers=bearer(secret))
            assert (answer.status_code == 201) is is_told


@pytest.mark.parametrize(
    ("query", "status"),
    [("", 422), ("user=ann&role=viewer", 422), ("user=nobody", 404), ("token=999", 404),
     ("role=king", 422), ("role=operator&patterns=nonsense", 422), ("user=ann&action=eat", 422)],
)  # fmt: skip
async def test_what_cannot_be_asked_is_said_at_its_field(
    guarded: App, query: str, status: int
) -> None:
    problem = await guarded.get(f"/access/check?{query}", status)
    assert problem["errors"][0]["field"]


async def test_the_page_says_it_in_sentences_and_keeps_what_was_typed(guarded: App) -> None:
    html = (await guarded.http.get("/access/check?who=user:otto&name=bills")).text
    assert "no pattern covers it: *:*:orders-*" in html
    assert 'value="bills"' in html
    wrong = await guarded.http.get("/access/check?who=role&role=operator&patterns=nonsense")
    assert wrong.status_code == 422
    assert "nonsense" in wrong.text
    twin = (await guarded.http.get("/access/check?who=role&role=viewer&format=json")).json()
    assert twin["allowed"] == sum(row["allowed"] for row in twin["rows"]) > 0


async def test_whom_it_does_not_concern_is_refused(guarded: App) -> None:
    token = await token_of(guarded, "vera")
    async with httpx.AsyncClient(transport=guarded.http._transport, base_url=URL) as http:
        for path in ("/api/v1/access/check?user=ann", "/access/check"):
            answer = await http.get(path, headers=bearer(token))
            assert answer.status_code == 403
            assert "read:people" in answer.text
