"""Classic clients of Go, Node, C++ (through Python) and Spring against a server process."""

import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.remoting.other_clients import (
    BATCH,
    CLIENTS,
    DEAD_LETTERS,
    PULL,
    SPRING,
    SQL,
    TRANSACTIONS,
    OtherClient,
    Running,
)
from tests.remoting.server_process import LIMIT_S, Server, served

pytestmark = pytest.mark.slow

# A client is asked about transactions from its first heartbeat on, which may take it 30 s.
SOON = ("--transaction-timeout-s=2", "--transaction-check-interval-s=1",
        "--transaction-check-max=1000")  # fmt: skip
Run = Callable[..., Running]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("server"), SOON) as found:
        yield found


@pytest.fixture
def rest(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{server.url}/api/v1", timeout=30) as client:
        yield client


def require(name: str, is_installed: bool) -> None:
    if not is_installed:
        why = f"the classic client {name} is missing: run tools/ensure_remoting_clients.sh"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)


@pytest.fixture(params=CLIENTS)
def name(request: pytest.FixtureRequest) -> str:
    require(request.param, CLIENTS[request.param].is_installed)
    return str(request.param)


@pytest.fixture
def client(name: str) -> OtherClient:
    return CLIENTS[name]


@pytest.fixture
def run(client: OtherClient, server: Server, tmp_path: Path) -> Iterator[Run]:
    """Begins a run of the client's program."""
    running: list[Running] = []

    def begin(*words: object) -> Running:
        running.append(Running(client, server.address, tuple(map(str, words)), tmp_path))
        return running[-1]

    try:
        yield begin
    finally:
        for each in running:
            each.process.kill()
            each.process.communicate()


def publish(rest: httpx.Client, topic: str, *bodies: str) -> None:
    messages = {"messages": [{"body": body} for body in bodies]}
    rest.post(f"/topics/{topic}/messages", json=messages).raise_for_status()


def wait_until(is_so: Callable[[], bool], limit_s: float = 20.0) -> None:
    end_s = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < end_s
        time.sleep(0.1)


def bodies(lines: list[list[str]]) -> list[str]:
    return sorted(line[0] for line in lines)


def test_what_is_sent_is_pushed_by_tag_and_sql_and_pulled(
    name: str, client: OtherClient, run: Run, rest: httpx.Client
) -> None:
    topic = f"{name}-all"
    if not client.makes_topics:
        rest.post("/topics", json={"name": topic}).raise_for_status()
    sent = run("send", topic, 9).said("SENT")
    assert {line[0] for line in sent} == {"SEND_OK"}
    all_of_them = run("push", topic, topic, "*", 9)
    odd = run("push", f"{topic}-odd", topic, "odd", 4)
    if SQL in client.abilities:
        assert bodies(run("push", f"{topic}-sql", topic, "SQL:number > 6", 2).said("GOT")) == [
            "m7", "m8",
        ]  # fmt: skip
    if PULL in client.abilities:
        pulled = run("pull", f"{topic}-pull", topic, 9)
        assert bodies(pulled.said("GOT")) == [f"m{number}" for number in range(9)]
    assert bodies(all_of_them.said("GOT")) == [f"m{number}" for number in range(9)]
    assert bodies(odd.said("GOT")) == ["m1", "m3", "m5", "m7"]
    wait_until(lambda: rest.get(f"/groups/{topic}/lag").json()["count"] == 0)


def test_a_batch_and_a_delayed_message_arrive(
    name: str, client: OtherClient, run: Run, rest: httpx.Client
) -> None:
    batch, delayed = f"{name}-batch", f"{name}-delayed"
    if not client.makes_topics:
        rest.post("/topics", json={"name": delayed}).raise_for_status()
    began_s = time.monotonic()
    assert run("delayed", delayed).said("SENT")[0][0] == "SEND_OK"
    level = run("push", delayed, delayed, "*", 1)
    if BATCH in client.abilities:
        assert run("batch", batch, 5).said("SENT")[0][0] == "SEND_OK"
        got = run("push", batch, batch, "*", 5).said("GOT")
        assert bodies(got) == ["b0", "b1", "b2", "b3", "b4"]
    assert bodies(level.said("GOT")) == ["level"]
    assert time.monotonic() - began_s >= 1  # level 1


def test_orderly_consumers_keep_the_order_of_each_queue(
    name: str, client: OtherClient, run: Run, rest: httpx.Client
) -> None:
    topic = f"{name}-ordered"
    if not client.makes_topics:
        rest.post("/topics", json={"name": topic}).raise_for_status()
    run("ordered", topic, 30).lines()
    got = [line[0].split(":") for line in run("orderly", topic, topic, 30).said("GOT")]
    for lane in "012":
        assert [int(n) for each, n in got if each == lane] == list(range(int(lane), 30, 3))


def test_transactions_are_decided_at_once_or_when_checked(
    name: str, client: OtherClient, run: Run
) -> None:
    if TRANSACTIONS not in client.abilities:
        return
    topic = f"{name}-decided"
    lines = run("transactions", topic).lines()
    checked = {line[1] for line in lines if line[0] == "CHECKED"}
    assert checked == {"later-commit", "later-rollback"}
    assert bodies(run("push", topic, topic, "*", 2).said("GOT")) == ["commit", "later-commit"]


def test_a_failed_message_is_retried_and_then_dead(
    name: str, client: OtherClient, run: Run, rest: httpx.Client
) -> None:
    """The C++ client sends back all of a batch in which one message failed: it gets one only."""
    if DEAD_LETTERS not in client.abilities:
        return
    topic = f"{name}-failing"
    sent = ("hopeless",) if name.startswith("cpp") else ("good", "hopeless")
    rest.post("/groups", json={"name": topic, "retry_max": 1}).raise_for_status()
    publish(rest, topic, *sent)
    got = run("failing", topic, topic, 2 * len(sent)).said("GOT")
    attempts = Counter((line[0], line[1]) for line in got)
    assert attempts == {(body, times): 1 for body in sent for times in "01"}
    assert {line[2] for line in got} == {topic}
    wait_until(lambda: rest.get(f"/groups/{topic}/lag").json()["dead"] == 1)


def test_each_client_of_a_broadcast_gets_everything(
    name: str, run: Run, rest: httpx.Client
) -> None:
    """The C++ client has one member in a process and begins at the end of its queues."""
    topic = f"{name}-broadcast"
    publish(rest, topic, "1", "2", "3")
    first = run("broadcast", topic, topic, 3)
    second = run("broadcast", topic, topic, 3) if name.startswith("cpp") else first
    while name.startswith("cpp") and None in (first.process.poll(), second.process.poll()):
        publish(rest, topic, "1", "2", "3")
        time.sleep(0.5)
    members = {line[0] for each in (first, second) for line in each.said("GOT")}
    assert len(members) == 2


def test_springs_starter_does_all_of_it(server: Server, rest: httpx.Client, tmp_path: Path) -> None:
    require("rocketmq-spring-boot-starter", (SPRING / "build" / "SpringDrive.class").exists())
    rest.post("/topics", json={"name": "spring-all"}).raise_for_status()
    classes = f"{SPRING / 'build'}{os.pathsep}{SPRING / 'lib' / '*'}"
    command = ["java", "-XX:TieredStopAtLevel=1", f"-Duser.home={tmp_path}", "-cp", classes]
    done = subprocess.run(
        [*command, "SpringDrive", server.address, "spring"],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    lines = [line.split(" ") for line in done.stdout.splitlines()]
    assert ["DONE"] in lines, done.stdout[-2000:]

    def got(listener: str) -> list[str]:
        return [line[2] for line in lines if line[:2] == ["GOT", listener]]

    all_of_them = [f"m{number}" for number in range(9)]
    for listener in ("push", "broadcast", "pull"):
        assert sorted(got(listener)) == all_of_them, listener
    assert sorted(got("tag")) == ["m1", "m3", "m5", "m7"]
    assert sorted(got("sql")) == ["m7", "m8"]
    assert sorted(got("batch")) == ["b0", "b1", "b2", "b3", "b4"]
    assert got("delay") == ["level"]
    for lane in "012":
        numbers = [int(each[2:]) for each in got("ordered") if each[0] == lane]
        assert numbers == list(range(int(lane), 30, 3))
    assert sorted(got("decided")) == ["commit", "later-commit"]
    assert {line[1] for line in lines if line[0] == "CHECKED"} == {"later-commit", "later-rollback"}
    assert Counter(got("failing")) == {"good": 2, "hopeless": 2}
    wait_until(lambda: rest.get("/groups/spring-failing/lag").json()["dead"] == 1)
