"""POP, recalls and request/reply with Apache's own Java client, unmodified."""

import threading
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.patience import until
from tests.remoting.mqadmin import AdminTool, admin_tool
from tests.remoting.test_java import (
    LIMIT_S,
    VERSIONS,
    Driver,
    Publish,
    Server,
    dead,
    driver_of,
    served,
)
from tests.remoting.test_java_faults import Watched

pytestmark = pytest.mark.slow

NEWEST = VERSIONS[-1]
DRIVE = "Drive5"
NUMBERS = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture
def java(server: Server, tmp_path: Path) -> Driver:
    return driver_of(NEWEST, server.address, tmp_path)


@pytest.fixture
def topic() -> str:
    """A name that no other test uses, for topics and groups."""
    return f"pop-{next(NUMBERS)}"


@pytest.fixture
def publish(server: Server) -> Publish:
    """Sends bodies to a topic over REST; a body's first word is its tag."""

    def send(topic: str, *bodies: str, **fields: object) -> None:
        messages = [{"body": body, "tag": body.split("-")[0], **fields} for body in bodies]
        answer = server.post(f"/topics/{topic}/messages", {"messages": messages})
        assert answer.status_code in (200, 201), answer.text

    return send


@pytest.fixture(scope="module")
def tool(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminTool]:
    with admin_tool(server.address, tmp_path_factory.mktemp("mqadmin")) as tool:
        yield tool


@pytest.fixture
def pop_mode(server: Server, tool: AdminTool) -> Publish:
    """Lets a group POP a topic by mqadmin; creates the group."""

    def switch(group: str, topic: str, *, mode: str = "POP", retry_max: int = 16) -> None:
        settings = {"name": group, "retry_max": retry_max}
        made = server.post("/groups", settings)
        assert made.status_code in (201, 409), made.text
        output = tool.run(f"setConsumeMode -b {{broker}} -t {topic} -g {group} -m {mode}")
        assert "success." in output

    return switch


def in_flight_or_waiting(server: Server, group: str) -> int:
    lag = server.get(f"/groups/{group}/lag")
    return int(lag["count"])


def test_what_is_sent_is_popped_by_filter(
    java: Driver, server: Server, topic: str, publish: Publish, pop_mode: Publish
) -> None:
    publish(topic, *(f"even-{n}" for n in range(0, 20, 2)), *(f"odd-{n}" for n in range(1, 20, 2)))
    pop_mode(topic, topic)
    got = java.said("GOT", "pop", topic, topic, "*", 20, program=DRIVE)
    assert len({line[0] for line in got}) == len(got) == 20
    assert {tuple(line[2:]) for line in got} == {("0", "popped")}
    until(lambda: in_flight_or_waiting(server, topic) == 0)
    pop_mode(f"{topic}-odd", topic)
    odd = java.said("GOT", "pop", f"{topic}-odd", topic, "odd", 10, program=DRIVE)
    assert Counter(line[0] for line in odd) == Counter(f"odd-{n}" for n in range(1, 20, 2))
    pop_mode(f"{topic}-sql", topic)
    sql = java.said("GOT", "pop", f"{topic}-sql", topic, "SQL:TAGS = 'even'", 10, program=DRIVE)
    assert Counter(line[0] for line in sql) == Counter(f"even-{n}" for n in range(0, 20, 2))


def test_a_waiting_pop_gets_a_new_message(
    java: Driver, topic: str, publish: Publish, pop_mode: Publish
) -> None:
    publish(topic, "first-1")
    pop_mode(topic, topic)
    with java.begin("pop", topic, topic, "*", 2, program=DRIVE) as process:
        try:
            guard = threading.Timer(LIMIT_S, process.kill)
            guard.start()
            assert process.stdout is not None
            while not process.stdout.readline().startswith("GOT first-1"):
                continue
            publish(topic, "second-2")
            rest = process.stdout.read()
            guard.cancel()
        finally:
            process.kill()
    assert "GOT second-2" in rest
    assert "DONE" in rest


def test_a_group_without_pop_mode_pulls_the_queues_that_the_server_assigns(
    java: Driver, topic: str, publish: Publish
) -> None:
    publish(topic, *(f"body-{n}" for n in range(8)))
    got = java.said("GOT", "pop", topic, topic, "*", 8, program=DRIVE)
    assert Counter(line[0] for line in got) == Counter(f"body-{n}" for n in range(8))
    assert {line[3] for line in got} == {"pulled"}


@pytest.mark.timeout(240)
def test_a_failed_message_is_popped_again_and_then_dead(
    java: Driver, server: Server, topic: str, publish: Publish, pop_mode: Publish
) -> None:
    publish(topic, "good", "hopeless")
    pop_mode(topic, topic, retry_max=1)
    got = java.said("GOT", "failing", topic, topic, program=DRIVE)
    attempts = Counter((line[0], line[2]) for line in got)
    assert attempts == {(body, times): 1 for body in ("good", "hopeless") for times in ("0", "1")}
    until(lambda: dead(server, topic) == 1)
    until(lambda: in_flight_or_waiting(server, topic) == 0)


def test_a_killed_members_messages_are_popped_by_another(
    java: Driver, server: Server, topic: str, publish: Publish, pop_mode: Publish
) -> None:
    publish(topic, "start-0")
    pop_mode(topic, topic)
    with java.begin("member", topic, topic, program=DRIVE) as first:
        try:
            guard = threading.Timer(LIMIT_S, first.kill)
            guard.start()
            assert first.stdout is not None
            while not first.stdout.readline().startswith("GOT start-0"):
                continue
            guard.cancel()
            # One that is not acknowledged yet would come again, in the place of another.
            until(lambda: in_flight_or_waiting(server, topic) == 0)
        finally:
            first.kill()
    publish(topic, *(f"after-{n}" for n in range(10)))
    got = java.said("GOT", "pop", topic, topic, "*", 10, program=DRIVE)
    assert {line[0] for line in got} >= {f"after-{n}" for n in range(10)}


@pytest.mark.timeout(240)
def test_as_many_members_pop_a_queue_as_the_mode_says(
    java: Driver, topic: str, publish: Publish, pop_mode: Publish
) -> None:
    publish(topic, "start")
    pop_mode(topic, topic, mode="POP -q 1")
    members = [Watched(java, "member", topic, topic, program=DRIVE) for _ in range(3)]
    rounds: list[int] = []

    def queues() -> list[str]:
        """Of which queues each member got its last messages, while further ones are sent."""
        for queue in range(4):
            publish(topic, f"{len(rounds)}-{queue}", queue=queue)
        rounds.append(len(rounds))
        return sorted("".join(sorted({b[-1] for b in each.said("GOT")[-8:]})) for each in members)

    try:
        # Two members have a queue of their own and one has two; each POPs the next one's, too.
        until(lambda: queues() == ["012", "013", "23"], limit_s=LIMIT_S)
        sent = {f"{number}-{queue}" for number in rounds for queue in range(4)}
        until(lambda: sent <= {b for each in members for b in each.said("GOT")}, limit_s=LIMIT_S)
    finally:
        for each in members:
            each.kill()


def test_a_recalled_message_never_arrives(java: Driver, server: Server, topic: str) -> None:
    lines = java.lines("recall", topic, program=DRIVE)
    ((recalled, sent),) = [line[1:] for line in lines if line[0] == "RECALLED"]
    assert recalled == sent
    assert ["PLAIN", "null"] in lines  # a message that is not delayed has no handle
    assert ["REFUSED", "604"] in lines  # it was delivered meanwhile
    found = server.get(f"/topics/{topic}")
    assert int(found["messages"]) == 2, found


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_are_replied_to(
    version: str, server: Server, topic: str, publish: Publish, tmp_path: Path
) -> None:
    driver = driver_of(version, server.address, tmp_path)
    publish(topic, "warm-up")
    driver.lines("push", topic, topic, "*", 1)
    with driver.begin("reply", topic, topic, 6) as replier:
        try:
            assert replier.stdout is not None
            while replier.stdout.readline().strip() != "STARTED":
                continue
            got = driver.said("REPLY", "request", topic, 6)
            text = replier.stdout.read()
        finally:
            replier.kill()
    bodies = {"re:q0", "re:q1", "large:50000", "re:q3", "re:q4", "re:q5"}
    assert {tuple(line) for line in got} == {(body, "yes") for body in bodies}
    assert text.count("REPLIED SEND_OK") == 6, text


def test_a_classic_client_asks_and_rest_replies(java: Driver, server: Server, topic: str) -> None:
    server.post("/topics", {"name": topic}).raise_for_status()
    with java.begin("request", topic, 1) as asking:
        try:
            waiting = {"topic": topic, "wait_ms": 20_000}
            answer = server.post(f"/groups/{topic}/receive", waiting)
            assert answer.status_code == 200, answer.text
            (message,) = answer.json()["deliveries"]
            reply = {"receipt": message["receipt"], "body": "from REST"}
            done = server.post("/replies", reply)
            assert done.status_code in (200, 201), done.text
            text, _ = asking.communicate(timeout=LIMIT_S)
        finally:
            asking.kill()
    assert "REPLY from REST" in text, text


def test_rest_asks_and_a_classic_client_replies(
    java: Driver, server: Server, topic: str, publish: Publish
) -> None:
    publish(topic, "warm-up")
    java.lines("push", topic, topic, "*", 1)
    with java.begin("reply", topic, topic, 1) as replier:
        try:
            assert replier.stdout is not None
            while replier.stdout.readline().strip() != "STARTED":
                continue
            request = {"message": {"body": "hello"}, "timeout_ms": 20_000}
            asked = server.post(f"/topics/{topic}/request", request)
            assert asked.status_code == 200, asked.text
            assert "re:hello" in asked.text
        finally:
            replier.kill()
