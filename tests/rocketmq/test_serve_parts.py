"""The live tail, journeys, searches and reports of a server in front of Apache RocketMQ."""

import asyncio
import json
import time
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

from app.cluster.client import ClusterClient
from app.cluster.messages import NewClusterMessage
from tests.patience import until
from tests.remoting.test_java import driver_of
from tests.rocketmq.cluster import ApacheCluster
from tests.rocketmq.test_serve import LIMIT_S, Gateway, group, pytestmark, server, topic
from tests.rocketmq.test_serve_replays import bury, ended, received

__all__ = ["group", "pytestmark", "server", "topic"]


TRACES = "RMQ_SYS_TRACE_TOPIC"


def page(server: Gateway, path: str) -> str:
    with urllib.request.urlopen(server.url + path, timeout=60) as answer:
        text: str = answer.read().decode()
        return text


def events(answer: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """What a stream of a page tells, as it comes."""
    for line in answer:
        if line.startswith(b"data: "):
            yield json.loads(line.removeprefix(b"data: "))


def test_a_tail_has_what_is_stored_at_both_brokers(server: Gateway, topic: str) -> None:
    new = {"messages": [{"body": f"before {n}"} for n in range(6)]}
    server.api("POST", f"/topics/{topic}/messages", new)
    until(lambda: page(server, f"/tail?topic={topic}").count("before ") >= 6, limit_s=LIMIT_S)
    rows: list[dict[str, Any]] = []
    address = f"{server.url}/tail/stream?topic={topic}"
    with urllib.request.urlopen(address, timeout=60) as answer:
        assert answer.readline().startswith(b"retry:")  # it stands at the end now
        for n in range(40):
            new = {"messages": [{"body": f"m{n}"}]}
            server.api("POST", f"/topics/{topic}/messages", new)
        for event in events(answer):
            rows += event["rows"]
            assert (event["skipped"], event["gone"]) == (0, 0)
            if len(rows) >= 40:
                break
    assert sorted(each["body"] for each in rows) == sorted(f"m{n}" for n in range(40))
    assert {int(each["place"].split(":")[0]) % 2 for each in rows} == {0, 1}  # of both brokers
    times = [each["at"] for each in rows]
    assert times == sorted(times)


class FollowedTail:
    """A tail of a page's stream, and the bodies that it told."""

    def __init__(self, server: Gateway, topic: str) -> None:
        self._address = f"{server.url}/tail/stream?topic={topic}"
        self.bodies: list[str] = []

    def __enter__(self) -> Self:
        self._answer = urllib.request.urlopen(self._address, timeout=LIMIT_S)
        assert self._answer.readline().startswith(b"retry:")
        self._events = events(self._answer)
        return self

    def __exit__(self, *_: object) -> None:
        self._answer.close()

    def read_until(self, text: str, unknown: str) -> None:
        """It tells a message, and who is away."""
        for event in self._events:
            assert "detail" not in event, event  # it is over
            self.bodies += [each["body"] for each in event["rows"]]
            if (not text or text in self.bodies) and event["unknown"] == unknown:
                return


def test_a_tail_goes_on_with_the_other_broker_and_takes_up_the_one_that_is_back(
    server: Gateway, cluster: ApacheCluster, topic: str
) -> None:
    def send(text: str, queue: int) -> None:
        """Until it is accepted: a broker that came back takes messages a moment later."""
        path = f"/api/v1/topics/{topic}/messages"
        new = {"messages": [{"body": text, "queue": queue}]}
        until(lambda: server.ask("POST", path, new)[0] == 201, limit_s=LIMIT_S)

    away, is_back = "broker b is away", False
    send("before", 1)
    with FollowedTail(server, topic) as tail:
        send("both", 1)
        tail.read_until("both", "")
        cluster.kill("b")
        try:
            send("of a", 0)
            tail.read_until("of a", away)
            with FollowedTail(server, topic) as late:
                late.read_until("", away)
                cluster.restart("b")
                is_back = True
                send("back", 1)
                tail.read_until("back", "")
                late.read_until("back", "")
        finally:
            if not is_back:
                cluster.restart("b")
    assert tail.bodies == ["both", "of a", "back"]
    assert late.bodies == ["back"]


def test_a_topic_is_searched_by_content_and_exported(server: Gateway, topic: str) -> None:
    for at in range(0, 300, 100):
        new = {
            "messages": [{"body": f"order {n}", "tag": f"t{n % 2}"} for n in range(at, at + 100)]
        }
        server.api("POST", f"/topics/{topic}/messages", new)
    until(lambda: server.api("GET", f"/topics/{topic}")["messages"] == 300, limit_s=LIMIT_S)
    query = f"/topics/{topic}/search?contains=order+2&filter=t0&limit=20"
    items: list[dict[str, Any]] = []
    cursor = ""
    while cursor is not None:
        found = server.api("GET", f"{query}&cursor={cursor}")
        items += found["items"]
        cursor = found["next_cursor"]
    assert (found["scanned"], found["total"], found["matched"]) == (300, 300, len(items))
    numbers = sorted(int(each["body"].split()[1]) for each in items)
    assert numbers == [n for n in range(0, 300, 2) if str(n).startswith("2")]
    newest = server.api("GET", f"/topics/{topic}/search?order=newest&limit=50")["items"]
    times = [each["stored_ms"] for each in newest]
    assert times == sorted(times, reverse=True)
    lines = page(server, f"/messages/export?topic={topic}&format=ndjson").splitlines()
    assert len(lines) == 301
    assert json.loads(lines[-1])["export"]["is_whole"]


def test_a_journey_tells_who_is_past_a_message_and_what_is_not_known(
    server: Gateway, topic: str, group: str
) -> None:
    bury(server, topic, group, ["bad"])
    letter = server.api("GET", f"/groups/{group}/dead-letters")["items"][0]
    message_id = letter["message"]["message_id"]
    other = f"{group}-other"
    server.api("POST", "/groups", {"name": other})
    stored = server.api("GET", f"/messages/{message_id}")["items"][0]
    where = {"topic": topic, "queue": stored["queue"], "offset": stored["offset"]}
    server.api("PUT", f"/groups/{other}/offsets", where)

    def states() -> dict[str, str]:
        journey = server.api("GET", f"/messages/{message_id}/journey")
        return {each["group"]: each["state"] for each in journey["groups"]}

    until(lambda: states() == {group: "dead", other: "waiting"}, limit_s=LIMIT_S)
    where["offset"] = str(int(stored["offset"]) + 1)
    server.api("PUT", f"/groups/{other}/offsets", where)
    until(lambda: states()[other] == "passed", limit_s=LIMIT_S)
    journey = server.api("GET", f"/messages/{message_id}/journey")
    assert [each["name"] for each in journey["stages"]][:2] == ["produce", "store"]
    reasons = {each["code"]: each["applies"] for each in journey["reasons_checked"]}
    assert reasons == {"not_told": True, "tracing_off": True}
    job = server.api("POST", f"/groups/{group}/dead-letters/redrive", {})
    ended(server, job["id"])
    received(server, topic, group, 1)
    until(lambda: states()[group] == "passed", limit_s=LIMIT_S)
    journey = server.api("GET", f"/messages/{message_id}/journey")
    assert [each["client"] for each in journey["stages"] if each["name"] == "replay"] == [job["id"]]
    assert f"/dlq/{group}/{letter['offset']}" in page(server, f"/trace/{message_id}")
    records = server.api("GET", f"/messages/{message_id}")["items"]
    assert {each["topic"] for each in records} == {
        topic,
        f"%DLQ%{group}",
        f"%RETRY%{group}_{topic}",
    }
    unknown = server.api("GET", "/messages/7F00000100001F90000000000000FFFF/journey")
    assert unknown["stages"] == []
    assert "kind_of_id" in {each["code"] for each in unknown["reasons_checked"]}


async def trace(cluster: ApacheCluster, message: NewClusterMessage) -> None:
    """Send what a client traces."""
    async with ClusterClient(cluster.name_server) as client, asyncio.timeout(LIMIT_S):
        if not await client.topics.exists(TRACES):
            await client.topics.create(TRACES, 1)
        while not await client.topics.exists(TRACES):
            await asyncio.sleep(0.2)
        await client.sends.send(TRACES, message)


def test_traces_of_clients_are_in_the_journey(
    cluster: ApacheCluster, server: Gateway, topic: str, group: str
) -> None:
    sent = server.api("POST", f"/topics/{topic}/messages", {"messages": [{"body": "m"}]})
    message_id = sent["messages"][0]["message_id"]
    pub = ["Pub", "1700000000000", "r", "producers", topic, message_id, "", "k", "127.0.0.1:1"]
    pub += ["1", "5", "0", "", "true", "127.0.0.1"]
    before = ["SubBefore", "1700000000100", "r", group, "q1", message_id, "0", "k"]
    after = ["SubAfter", "q1", message_id, "7", "true", "k", "0", "1700000000107", group]
    body = "".join("\x01".join(each) + "\x02" for each in (pub, before, after))
    asyncio.run(trace(cluster, NewClusterMessage(body.encode(), keys=(message_id,))))

    def stages() -> dict[str, str]:
        journey = server.api("GET", f"/messages/{message_id}/journey")
        return {each["name"]: each["outcome"] for each in journey["stages"]}

    until(lambda: "client_consume" in stages(), limit_s=LIMIT_S)
    assert stages()["client_send"] == "success"
    assert stages()["client_consume"] == "success"


def computed(server: Gateway) -> None:
    """Have the report computed of what there is."""
    run = server.api("POST", "/reports/runs", {"job": "traces"})

    def state() -> str:
        return str(server.api("GET", f"/reports/runs/{run['id']}")["state"])

    until(lambda: state() != "running", limit_s=LIMIT_S)
    until(lambda: server.api("GET", "/reports")["running"] is None, limit_s=LIMIT_S)
    assert state() in ("ok", "skipped"), server.api("GET", f"/reports/runs/{run['id']}")


def sums(server: Gateway, table: str, by: str, query: str) -> dict[str, int]:
    """The messages of a table by one of its columns."""
    path = f"/reports/tables/{table}/totals?by={by}&{query}"
    return {row[by]: row["messages"] for row in server.api("GET", path)["rows"]}


def test_reports_count_what_was_sent_and_what_java_traced(
    cluster: ApacheCluster, server: Gateway, topic: str, group: str, tmp_path: Path
) -> None:
    java_topic, bad_topic, retry_topic = (f"{topic}-{kind}" for kind in ("java", "bad", "retry"))
    for name in (java_topic, bad_topic, retry_topic):
        server.api("POST", "/topics", {"name": name, "read_queues": 4, "write_queues": 4})
    server.api("POST", "/groups", {"name": f"{group}-java"})
    server.api("POST", "/groups", {"name": f"{group}-retry"})
    server.api("POST", f"/topics/{retry_topic}/messages", {"messages": [{"body": "again"}]})
    asking = {"topic": retry_topic, "wait_ms": 5000}
    while not (got := server.api("POST", f"/groups/{group}-retry/receive", asking)["deliveries"]):
        continue
    nacks = {"nacks": [{"receipt": got[0]["receipt"], "error": "not yet"}]}
    server.api("POST", f"/groups/{group}-retry/nack", nacks)
    new = {"messages": [{"body": f"m{n}", "tag": f"t{n % 4}"} for n in range(40)]}
    sent = server.api("POST", f"/topics/{topic}/messages", new)["messages"]
    late = {"messages": [{"body": "late", "delay_level": 1} for _ in range(3)]}
    server.api("POST", f"/topics/{topic}/messages", late)
    bury(server, bad_topic, group, ["bad", "worse"])
    java = driver_of("5.5.0", cluster.name_server, tmp_path)
    assert java.said("ALL", "traced", f"{group}-java", java_topic) == [["true"]]
    now_ms = round(time.time() * 1000)
    contexts = []
    for number, each in enumerate(sent):
        place = [f"q{number}", each["message_id"]]
        contexts.append(["SubBefore", str(now_ms), "r", group, *place, "0", "k"])
        code = "4" if number < 10 else "0"
        end = ["5", str(code == "0").lower(), "k", code, str(now_ms + 5), group]
        contexts.append(["SubAfter", *place, *end])
    body = "".join("\x01".join(each) + "\x02" for each in contexts)
    asyncio.run(trace(cluster, NewClusterMessage(body.encode())))
    until(lambda: server.api("GET", f"/topics/{topic}")["messages"] == 43, limit_s=LIMIT_S)

    def kinds(name: str) -> dict[str, int]:
        return sums(server, "throughput", "kind", f"topic={name}")

    def java_kinds() -> dict[str, int]:
        computed(server)
        return kinds(java_topic)

    until(lambda: java_kinds() == {"message": 1, "delivered": 1, "acked": 1}, limit_s=LIMIT_S)
    until(lambda: java_kinds() and "retry" in kinds(retry_topic), limit_s=LIMIT_S)
    assert sums(server, "throughput", "group", f"topic={retry_topic}&kind=retry") == {
        f"{group}-retry": 1
    }
    assert kinds(topic) == {"message": 43, "delivered": 40, "acked": 30, "failed": 10}
    tags = sums(server, "hot_keys", "value", f"topic={topic}&kind=tag")
    assert tags == dict.fromkeys(("t0", "t1", "t2", "t3"), 10)
    queues = {each["queue"]: int(each["max_offset"]) for each in queues_of(server, topic)}
    assert sums(server, "queue_skew", "queue", f"topic={topic}") == queues
    reasons = sums(server, "failures", "reason", f"group={group}&kind=dead")
    letters = server.api("GET", f"/groups/{group}/dead-letters")["items"]
    assert reasons == Counter(each["reason"] for each in letters)
    latency = server.api("GET", f"/reports/latency?by=metric&topic={topic}")["items"]
    counts = {each["by"]["metric"]: each["n"] for each in latency}
    assert counts == {"broker": 40, "wait": 40, "process": 30, "end_to_end": 30}
    [ends] = server.api("GET", f"/reports/tables/outcomes?topic={topic}")["rows"]
    assert [ends[name] for name in ("attempts", "acked", "failed", "dead")] == [40, 30, 10, None]


def queues_of(server: Gateway, topic: str) -> list[dict[str, Any]]:
    """The queues of a topic that have messages."""
    queues: list[dict[str, Any]] = server.api("GET", f"/topics/{topic}")["queues"]
    return [each for each in queues if each["max_offset"] != "0"]
