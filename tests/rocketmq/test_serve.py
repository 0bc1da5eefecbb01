"""A server in front of Apache RocketMQ: the real process, a name server and two masters.

Its REST, its WebSocket and the SDK on top of them; and a broker that is killed meanwhile.
"""

import html
import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from websockets.sync.client import connect

from bench.process import Process
from kitemq import Client, Consumer, KiteError, Producer
from tests.patience import until
from tests.rocketmq.cluster import ApacheCluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.crash,
    pytest.mark.xdist_group("rocketmq"),
    pytest.mark.timeout(600),
]
LIMIT_S = 120.0


class Gateway(Process):
    """`kitemq serve --rocketmq`."""

    name = "KiteMQ before a cluster"

    def __init__(self, data: Path, name_server: str) -> None:
        super().__init__(data)
        self._name_server = name_server
        self.url = f"http://127.0.0.1:{self.port}"

    def command(self) -> Sequence[str]:
        serve = ["-m", "kitemq", "serve", "--data", str(self.data)]
        return [sys.executable, *serve, "--port", str(self.port), "--rocketmq", self._name_server]

    def is_ready(self) -> bool:
        try:
            return self.ask("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """The status and the JSON of an answer."""
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if content else {}
        request = urllib.request.Request(self.url + path, content, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read() or b"null")

    def api(self, method: str, path: str, body: object = None) -> Any:
        """The JSON of an answer that is no refusal."""
        status, answer = self.ask(method, f"/api/v1{path}", body)
        assert status < 300, answer
        return answer


@pytest.fixture(scope="module")
def server(cluster: ApacheCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with Gateway(tmp_path_factory.mktemp("gateway") / "data", cluster.name_server) as server:
        yield server


@pytest.fixture
def topic(server: Gateway) -> str:
    name = f"topic-{uuid4().hex[:10]}"
    server.api("POST", "/topics", {"name": name, "read_queues": 4, "write_queues": 4})
    return name


@pytest.fixture
def group() -> str:
    return f"group-{uuid4().hex[:10]}"


def test_a_message_goes_through_rest_and_is_read_by_id_key_and_offset(
    server: Gateway, topic: str, group: str
) -> None:
    new = {"messages": [{"body": f"m{n}", "keys": [f"k{n}"]} for n in range(5)]}
    sent = server.api("POST", f"/topics/{topic}/messages", new)["messages"]
    got = []
    asking = {"topic": topic, "max": 10, "wait_ms": 5000}
    while len(got) < 5:
        got += server.api("POST", f"/groups/{group}/receive", asking)["deliveries"]
    assert sorted(each["body"] for each in got) == [f"m{n}" for n in range(5)]
    receipts = {"receipts": [each["receipt"] for each in got]}
    results = server.api("POST", f"/groups/{group}/ack", receipts)["results"]
    assert {each["result"] for each in results} == {"done"}

    first = sent[0]
    place = f"/topics/{topic}/messages/{first['queue']}/{first['offset']}"
    assert server.api("GET", place)["body"] == "m0"
    for each in (first["message_id"], first["offset_id"]):
        assert [m["body"] for m in server.api("GET", f"/messages/{each}")["items"]] == ["m0"]
    found = server.api("GET", f"/topics/{topic}/messages/by-key?key=k3")["items"]
    assert [each["body"] for each in found] == ["m3"]


def test_a_topic_has_its_messages_and_a_group_its_lag(
    server: Gateway, topic: str, group: str
) -> None:
    server.api("POST", f"/topics/{topic}/messages", {"messages": [{"body": "m"}] * 8})
    detail = server.api("GET", f"/topics/{topic}")
    assert detail["messages"] == 8
    assert detail["created_ms"] is None
    server.api("POST", "/groups", {"name": group})
    ends = [int(each["max_offset"]) for each in detail["queues"]]
    for queue, end in enumerate(ends):
        where = {"topic": topic, "queue": queue, "offset": str(max(0, end - 1))}
        server.api("PUT", f"/groups/{group}/offsets", where)
    count = sum(min(1, end) for end in ends)
    until(lambda: server.api("GET", f"/groups/{group}/lag")["count"] == count, limit_s=LIMIT_S)


def test_the_websocket_sends_and_delivers(server: Gateway, topic: str, group: str) -> None:
    with connect(f"ws://127.0.0.1:{server.port}/ws/v1", proxy=None) as socket:

        def ask(**frame: object) -> Any:
            socket.send(json.dumps(frame))
            return next_of(lambda answer: answer.get("id") == frame["id"])

        def next_of(is_meant: Any) -> Any:
            while not is_meant(answer := json.loads(socket.recv(timeout=LIMIT_S))):
                pass
            return answer

        sent = ask(op="send", id=1, topic=topic, messages=[{"body": "one"}])
        assert sent["op"] == "sent", sent
        subscribed = ask(op="subscribe", id=2, group=group, topics={topic: "*"}, credit=5)
        assert subscribed["op"] == "subscribed", subscribed
        messages = next_of(lambda answer: answer.get("op") == "deliver")["messages"]
        assert [each["body"] for each in messages] == ["one"]
        receipts = [each["receipt"] for each in messages]
        settled = ask(op="ack", id=3, group=group, receipts=receipts)
        assert settled["results"] == [{"result": "done"}]


def test_what_the_cluster_cannot_do_is_refused_by_its_name(server: Gateway, topic: str) -> None:
    for path in ("/traces/status", "/retention"):
        status, answer = server.ask("GET", f"/api/v1{path}")
        assert (status, answer["code"]) == (409, "not_supported"), path
    assert server.api("GET", "/system")["data_mark"] == ""
    assert not server.api("GET", "/system")["capabilities"]["log_figures"]


def page(server: Gateway, path: str) -> str:
    request = urllib.request.Request(server.url + path, headers={"Accept": "text/html"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return html.unescape(answer.read().decode())


def metrics(server: Gateway) -> str:
    with urllib.request.urlopen(server.url + "/metrics", timeout=60) as answer:
        text: str = answer.read().decode()
        return text


def test_messages_in_and_out_of_both_brokers_are_counted(
    server: Gateway, topic: str, group: str
) -> None:
    def send(count: int) -> None:
        messages = [{"body": "m", "queue": n % 4} for n in range(count)]
        server.api("POST", f"/topics/{topic}/messages", {"messages": messages})

    def receive(count: int) -> None:
        asking = {"topic": topic, "max": 32, "wait_ms": 5000}
        while count > 0:
            count -= len(server.api("POST", f"/groups/{group}/receive", asking)["deliveries"])

    def statistics() -> Any:
        status, answer = server.ask("GET", f"/api/v1/topics/{topic}/statistics")
        assert status in (200, 503), answer
        return answer if status == 200 else None

    until(lambda: server.ask("GET", "/api/v1/statistics")[0] == 200, limit_s=LIMIT_S)
    send(8)
    receive(8)
    send(20)
    until(lambda: (it := statistics()) and it["traffic"]["messages_in"]["total"] == 28)
    seen = statistics()
    assert [each["traffic"]["messages_in"]["total"] for each in seen["queues"]] == [7] * 4
    assert (seen["traffic"]["bytes_in"], seen["traffic"]["messages_in"]["second"]) == (None, None)
    receive(20)  # counted from the offset on that the sample has seen
    path = f"/groups/{group}/statistics"
    until(lambda: server.api("GET", path)["messages_out"]["total"] == 20, limit_s=LIMIT_S)
    assert server.api("GET", path)["acked"] is None
    assert f'kitemq_messages_in_total{{topic="{topic}"}} 28' in metrics(server)
    for path in ("/", f"/topics/{topic}", f"/groups/{group}"):
        assert "counts no traffic" not in page(server, path)


def test_the_messages_of_a_key_come_in_pages_from_both_brokers(server: Gateway, topic: str) -> None:
    def send(key: str, first: int, count: int) -> None:
        numbers = range(first, first + count)
        messages = [{"body": f"m{n}", "keys": [key], "queue": n % 4} for n in numbers]
        server.api("POST", f"/topics/{topic}/messages", {"messages": messages})

    def pages(key: str) -> Iterator[tuple[int, Any]]:
        cursor = ""
        while cursor is not None:
            path = f"/api/v1/topics/{topic}/messages/by-key?key={key}&limit=20&cursor={cursor}"
            status, answer = server.ask("GET", path)
            yield status, answer
            cursor = answer.get("next_cursor")

    def bodies(key: str) -> list[str]:
        return [each["body"] for _, page in pages(key) for each in page["items"]]

    for first in range(0, 200, 40):  # some in one second, all of them over several
        send("spread", first, 40)
        time.sleep(0.7)
    until(lambda: len(bodies("spread")) == 200, limit_s=LIMIT_S)
    got = bodies("spread")
    assert [int(each[1:]) // 40 for each in got] == [n for n in (4, 3, 2, 1, 0) for _ in range(40)]
    assert len(set(got)) == 200

    send("burst", 0, 400)
    until(lambda: len(next(pages("burst"))[1]["items"]) == 20, limit_s=LIMIT_S)
    answers = list(pages("burst"))
    named = [each["body"] for status, page in answers if status == 200 for each in page["items"]]
    assert len(named) == len(set(named)) >= 64
    status, problem = answers[-1]  # never an end that is none
    assert (status, problem["code"]) == (409, "refused")
    assert "more than 64 messages" in problem["detail"]


def test_lists_and_the_page_of_brokers_say_who_is_away(
    server: Gateway, cluster: ApacheCluster, topic: str, group: str
) -> None:
    server.api("POST", f"/topics/{topic}/messages", {"messages": [{"body": "m"}] * 8})
    server.api("POST", "/groups", {"name": group})
    for queue in range(4):
        where = {"topic": topic, "queue": queue, "offset": "0"}
        server.api("PUT", f"/groups/{group}/offsets", where)

    def listed() -> Any:
        return server.api("GET", "/brokers")["items"]

    # A look is 2 s old at most, and a busy machine's broker may take longer to answer it.
    brokers: list[Any] = []

    def are_there() -> bool:
        brokers[:] = listed()
        stored = [each["stored_today"] for each in brokers if each["reachable"]]
        return len(stored) == 2 and sum(stored) >= 8

    until(are_there, limit_s=LIMIT_S)
    assert [(each["name"], each["place"]) for each in brokers] == [("a", 0), ("b", 1)]
    assert all(each["disk_ratio"] is not None for each in brokers)
    assert brokers[0]["members"][0]["version"].startswith("5.")

    def of(name: str) -> Any:
        return next(each for each in listed() if each["name"] == name)

    def status() -> Any:
        items = server.api("GET", f"/groups?q={group}")["items"]
        return items[0]["unknown"]

    cluster.kill("b")
    try:
        until(lambda: of("a")["reachable"] and not of("b")["reachable"], limit_s=LIMIT_S)
        assert of("b")["members"][0]["away_since_ms"]
        until(lambda: status() == "broker b is away", limit_s=LIMIT_S)
        for path in ("/topics", "/groups", "/dlq", "/", "/clients", "/brokers", "/search?q=top"):
            assert "<h1" in page(server, path)
        assert "Some figures are unknown: broker b is away." in page(server, f"/topics?q={topic}")
        assert topic in [each["name"] for each in server.api("GET", f"/topics?q={topic}")["items"]]
        assert_others_are_told(server, topic, group)
        # What a sample of the traffic had is told until the next, ten seconds later.
        until(lambda: topic not in metrics(server), limit_s=LIMIT_S)
    finally:
        cluster.restart("b")
    until(lambda: of("b")["reachable"] and not status(), limit_s=LIMIT_S)
    until(lambda: server.ask("GET", "/readyz")[1]["warnings"] == {}, limit_s=LIMIT_S)


def assert_others_are_told(server: Gateway, topic: str, group: str) -> None:
    """Of one topic and one group what broker a knows is there while b is away."""
    reason = "broker b is away"
    detail = server.api("GET", f"/topics/{topic}")
    assert (detail["messages"], detail["unknown"]) == (None, reason)
    assert [each["queue"] for each in detail["queues"]] == [0, 2]
    lag = server.api("GET", f"/groups/{group}/lag")
    assert (lag["count"], lag["dead"], lag["unknown"]) == (None, None, reason)
    ends = [int(each["max_offset"]) for each in detail["queues"]]
    assert [each["count"] for each in lag["queues"]] == ends
    for path in (f"/topics/{topic}", f"/groups/{group}"):
        assert f"Some figures are unknown: {reason}." in page(server, path)
    checks = {each["code"]: each for each in server.api("GET", "/self-checks")["items"]}
    assert checks["name_servers"]["outcome"] == checks["broker_clocks"]["outcome"] == "ok"
    assert checks["brokers"]["outcome"] == "warning"
    assert "broker b: it does not answer" in checks["brokers"]["detail"]


def test_nothing_accepted_is_missing_though_a_broker_is_killed(
    server: Gateway, cluster: ApacheCluster, topic: str, group: str
) -> None:
    """It comes back meanwhile; the SDK asks again by itself."""
    accepted, read = set(), set()
    with Producer(server.url, timeout_s=20) as producer:

        def send(first: int, count: int) -> None:
            for n in range(first, first + count):
                try:
                    producer.send(topic, f"m{n}")
                except KiteError:
                    continue  # it may be stored, and was not accepted
                accepted.add(f"m{n}")

        send(0, 50)
        cluster.kill("b")
        send(50, 50)
        cluster.restart("b")
        until(lambda: server.ask("GET", "/readyz")[1]["warnings"] == {}, limit_s=LIMIT_S)
        send(100, 50)
    assert len(accepted) >= 100
    with Consumer(group, {topic: "*"}, server.url) as consumer:
        while not accepted <= read:
            message = consumer.receive(timeout_s=LIMIT_S)
            assert message is not None, f"missing: {sorted(accepted - read)}"
            read.add(message.text)
            message.ack()
    with Client(server.url) as client:
        until(lambda: client.groups.lag(group).count == 0, limit_s=LIMIT_S)
