"""Which queues the members of a group read: asked of them by the server that they are connected to,
and by one before it, to which that is a cluster.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.administration import LISTS_NONE, TAKES_ALL
from app.services import member_queues
from engine.errors import Refused
from protocol.remoting.codes import Flag, RequestCode, ResponseCode
from protocol.remoting.frames import Command, encode
from protocol.remoting.running_info import ReadQueue, read_queues
from tests.app.cluster.front import HTML, front_of
from tests.remoting.port import Client, Running

pytestmark = pytest.mark.anyio
PATH = "/api/v1/groups/billing/members/queues"
PULLED = {"cachedMsgCount": 0, "commitOffset": 0, "dropped": False, "locked": False}


def place(queue: int, topic: str = "orders", broker: str = "kitemq") -> str:
    return json.dumps({"brokerName": broker, "queueId": queue, "topic": topic})


def told(
    pulled: dict[str, Any] | None = None,
    popped: dict[str, Any] | None = None,
    *,
    ordered: bool = False,
    kind: str = "CONSUME_PASSIVELY",
) -> bytes:
    """The body of a client's answer, as Java writes it: maps with objects as keys."""
    tables = [
        ",".join(f"{key}:{json.dumps(state)}" for key, state in (table or {}).items())
        for table in (popped, pulled)
    ]
    properties = {
        "subscription": '{orders=a IN (1,2:"}{")}',
        "PROP_CONSUME_TYPE": kind,
        "PROP_CONSUMEORDERLY": str(ordered).lower(),
    }
    text = f'{{"mqPopTable":{{{tables[0]}}},"mqTable":{{{tables[1]}}},"properties":'
    text += json.dumps(properties)
    return (text + ',"statusTable":{},"subscriptionSet":[]}').encode()


@pytest.fixture
async def client(running: Running) -> Client:
    topic = {"name": "orders", "read_queues": 4, "write_queues": 4}
    await running.http.post("/api/v1/topics", json=topic)
    return await running.connect()


@pytest.fixture(params=["its server", "one before it"])
async def http(
    running: Running, client: Client, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[httpx.AsyncClient]:
    if request.param == "its server":
        yield running.http
    else:
        async with front_of(running, tmp_path / "front") as front:
            yield front.http


async def answered(
    http: httpx.AsyncClient, client: Client, body: bytes, path: str = PATH, code: int = 0
) -> httpx.Response:
    """The server's answer, for which it asks a client that says this."""
    asked = asyncio.create_task(http.get(path, headers=HTML if path.endswith("clients") else {}))
    question = await client.until_told(RequestCode.GET_CONSUMER_RUNNING_INFO)
    assert question.fields["jstackEnable"] == "false"
    client.writer.write(encode(Command(code, question.opaque, Flag.RESPONSE, body=body)))
    answer = await asked
    assert answer.status_code == 200, answer.text
    return answer


async def items(http: httpx.AsyncClient, client: Client, body: bytes) -> Any:
    return (await answered(http, client, body)).json()["items"]


async def test_a_member_tells_which_queues_it_reads(
    http: httpx.AsyncClient, client: Client
) -> None:
    await client.beat("c1", "billing")
    table = {
        place(2): PULLED | {"commitOffset": 2**62, "cachedMsgCount": 7},
        place(0): PULLED | {"commitOffset": -1},
        place(1): PULLED | {"dropped": True},
        place(3): PULLED | {"droped": True},
        place(0, "%RETRY%billing"): PULLED,
    }
    [item] = await items(http, client, told(table))
    assert (item["client"], item["unknown"]) == ("c1", "")
    plain = {"topic": "orders", "is_shared": False, "is_locked": None}
    assert item["queues"] == [
        plain | {"queue": 0, "offset": None, "cached": 0},
        plain | {"queue": 2, "offset": str(2**62), "cached": 7},
    ]


async def test_an_orderly_member_tells_which_of_them_it_has_locked(
    http: httpx.AsyncClient, client: Client
) -> None:
    await client.beat("c1", "billing")
    table = {place(0): PULLED | {"locked": True}, place(1): PULLED}
    [item] = await items(http, client, told(table, ordered=True))
    assert {each["queue"]: each["is_locked"] for each in item["queues"]} == {0: True, 1: False}


async def test_by_pop_a_member_has_all_queues_of_a_broker_or_a_share(
    http: httpx.AsyncClient, client: Client
) -> None:
    await client.beat("c1", "billing")
    await client.beat("c2", "others")
    popped = {"waitAckCount": 5, "dropped": False, "lastPopTimestamp": 1}
    [item] = await items(http, client, told(popped={place(-1): popped}))
    assert [(each["queue"], each["cached"]) for each in item["queues"]] == [
        (queue, None) for queue in range(4)
    ]
    body = told(popped={place(3): popped})
    [item] = (await answered(http, client, body, PATH.replace("billing", "others"))).json()["items"]
    assert item["queues"] == [
        {"topic": "orders", "queue": 3, "is_shared": True, "offset": None, "cached": 5}
        | {"is_locked": None}
    ]


@pytest.mark.parametrize(
    ("body", "queues", "unknown"),
    [
        (told(), [], ""),
        (told(kind="CONSUME_ACTIVELY"), None, LISTS_NONE),
        (b"{}", None, LISTS_NONE),
        (b'{"mqTable":{{"queueId":0}:{}}}', None, LISTS_NONE),
    ],
    ids=["has none", "pulls", "says nothing", "says what nobody understands"],
)
async def test_a_member_without_queues_is_told_from_one_that_does_not_list_them(
    http: httpx.AsyncClient, client: Client, body: bytes, queues: Any, unknown: str
) -> None:
    await client.beat("c1", "billing")
    [item] = await items(http, client, body)
    assert (item["queues"], item["unknown"]) == (queues, unknown)


async def test_a_member_that_does_not_answer_is_named_and_left_alone(
    http: httpx.AsyncClient, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_queues, "ASK_S", 0.2)
    await client.beat("c1", "billing")
    for _ in range(2):
        [item] = (await http.get(PATH)).json()["items"]
        assert (item["queues"], item["unknown"]) == (None, member_queues.SILENT)
    await client.until_told(RequestCode.GET_CONSUMER_RUNNING_INFO)
    await client.beat("c1", "billing")  # what the server asked meanwhile has come, too
    codes = [each.code for each in client.told]
    assert RequestCode.GET_CONSUMER_RUNNING_INFO not in codes


async def test_members_are_asked_a_few_at_a_time_and_the_rest_is_named(
    http: httpx.AsyncClient, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_queues, "ASK_S", 0.2)
    monkeypatch.setattr(member_queues, "CALL_S", 0.3)
    for number in range(9):
        await client.beat(f"c{number}", "billing")
    page = (await http.get(f"{PATH}?limit=8")).json()
    assert (len(page["items"]), page["next_cursor"], page["total"]) == (8, "c7", 9)
    reasons = [each["unknown"] for each in page["items"]]
    assert reasons == [member_queues.SILENT] * 4 + [member_queues.NOT_YET] * 4
    await client.beat("c0", "billing")
    codes = [each.code for each in client.told]
    assert codes.count(RequestCode.GET_CONSUMER_RUNNING_INFO) == 4


async def test_the_page_shows_the_queues_of_a_member(
    http: httpx.AsyncClient, client: Client
) -> None:
    await client.beat("c1", "billing")
    table = {place(queue): PULLED | {"cachedMsgCount": 1} for queue in (0, 1, 3)}
    page = await answered(http, client, told(table), "/groups/billing/clients")
    assert ">0-1, 3</span>" in page.text
    assert "3 cached" in page.text
    page = await http.get("/clients/c1", headers=HTML)
    assert (page.status_code, "billing" in page.text) == (200, True)


async def test_a_member_of_the_brokers_has_a_page_and_is_not_sent_away(
    running: Running, client: Client, tmp_path: Path
) -> None:
    await client.beat("c1", "billing")
    async with front_of(running, tmp_path / "front") as front:
        page = await front.page("/clients/c1")
        assert "it is connected to the brokers, and not to this server" in page
        assert "Disconnect" not in page
        answer = await front.http.post("/api/v1/clients/disconnect", json={"client": "c1"})
        assert (answer.status_code, answer.json()["code"]) == (409, "not_supported")


async def test_a_member_over_rest_has_its_share_or_takes_all(running: Running) -> None:
    await running.http.post("/api/v1/topics", json={"name": "orders", "read_queues": 4})
    for client in ("w1", "w2"):
        beat = {"client": client, "topics": {"orders": "*", "missing": "*"}}
        await running.http.post("/api/v1/groups/billing/members/heartbeat", json=beat)
    asking = {"client": "w3", "topic": "orders", "wait_ms": 0}
    await running.http.post("/api/v1/groups/billing/receive", json=asking)
    items = (await running.http.get(PATH)).json()["items"]
    shares = [[each["queue"] for each in item["queues"] or ()] for item in items]
    assert shares == [[0, 1], [2, 3], []]
    assert [item["unknown"] for item in items] == ["", "", TAKES_ALL]


async def test_a_client_that_refuses_to_tell_is_named_by_its_servers_words(
    running: Running, client: Client, tmp_path: Path
) -> None:
    await client.beat("c1", "billing")
    async with front_of(running, tmp_path / "front") as front:
        code = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        [item] = (await answered(front.http, client, b"", code=code)).json()["items"]
    assert item["queues"] is None
    assert "GET_CONSUMER_RUNNING_INFO" in item["unknown"]


@pytest.mark.parametrize("text", ["", "\\"])
def test_an_answer_that_does_not_end_is_read_once(text: str) -> None:
    body = b'{"mqTable":{"' + b'\\"' * 1_000_000 + text.encode()
    begun_s = time.process_time()
    assert read_queues(body) is None
    assert time.process_time() - begun_s < 10


def test_a_number_that_no_queue_has_is_not_understood() -> None:
    for number in (-2, 65_536, 10**30):
        assert read_queues(told({place(number): PULLED})) is None
    assert read_queues(b'{"properties":' + b'{"a":' * 100_000) is None


def test_a_member_that_lists_too_many_queues_is_refused() -> None:
    queues = [ReadQueue("orders", "kitemq", -1, None, 0, is_pop=True, is_locked=None)] * 1_000
    with pytest.raises(Refused, match="more than 10,000 queues"):
        member_queues.member_queues(queues, lambda _: range(65_536))
    assert len(member_queues.member_queues(queues[:10], lambda _: range(1000))) == 10_000


def test_the_queues_of_a_large_answer_are_read_in_one_go() -> None:
    body = told({place(queue): PULLED for queue in range(2000)})
    queues = read_queues(body)
    assert queues is not None
    assert [each.queue for each in queues] == list(range(2000))
