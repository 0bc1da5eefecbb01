"""Apache's own Java client, 4.9 and 5.x, unmodified, against a server process."""

import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from tests.patience import until
from tests.remoting.server_process import LIMIT_S, ROOT, Server, served

pytestmark = pytest.mark.slow

JAVA = Path(__file__).parent / "java"
VERSIONS = ("4.9.8", "5.5.0")
NUMBERS = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("server"), ("--transaction-timeout-s", "2")) as found:
        yield found


@dataclass
class Driver:
    """Runs the program that drives a version of the client."""

    version: str
    home: Path
    address: str
    options: tuple[str, ...] = ()

    def begin(self, *words: object, program: str = "Drive") -> "subprocess.Popen[str]":
        classes = f"{JAVA / 'build' / self.version}{os.pathsep}{JAVA / 'lib' / self.version / '*'}"
        command = ["java", "-XX:TieredStopAtLevel=1", "-cp", classes, f"-Duser.home={self.home}"]
        command += [f"-Drocketmq.client.logRoot={self.home}", *self.options, program, self.address]
        return subprocess.Popen(
            [*command, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def lines(self, *words: object, program: str = "Drive") -> list[list[str]]:
        """What it printed, as words; it came to its end."""
        with self.begin(*words, program=program) as process:
            try:
                text, _ = process.communicate(timeout=LIMIT_S)
            finally:
                process.kill()
        lines = [line.split(" ") for line in text.splitlines()]
        assert ["DONE"] in lines, text[-2000:]
        return lines

    def said(self, word: str, *words: object, program: str = "Drive") -> list[list[str]]:
        """The lines that begin with a word, without it."""
        return [line[1:] for line in self.lines(*words, program=program) if line[0] == word]


def driver_of(version: str, address: str, home: Path, *options: str) -> Driver:
    is_there = (JAVA / "build" / version / "Drive.class").is_file() and shutil.which("java")
    if not is_there:
        why = "RocketMQ's classic Java client is missing: run tools/ensure_remoting_clients.sh"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    return Driver(version, home, address, options)


@pytest.fixture(params=VERSIONS)
def java(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> Driver:
    return driver_of(request.param, server.address, tmp_path)


@pytest.fixture
def topic() -> str:
    """A name that no other test uses, for topics and groups."""
    return f"java-{next(NUMBERS)}"


Publish = Callable[..., None]


@pytest.fixture
def publish(server: Server) -> Publish:
    """Sends bodies to a topic over REST."""

    def send(topic: str, *bodies: str) -> None:
        messages = {"messages": [{"body": body} for body in bodies]}
        answer = server.post(f"/topics/{topic}/messages", messages)
        assert answer.status_code in (200, 201), answer.text

    return send


def dead(server: Server, group: str) -> int:
    return int(server.get(f"/groups/{group}/lag")["dead"])


def test_what_is_sent_sync_async_one_way_and_large_is_pushed_by_tag(
    java: Driver, topic: str
) -> None:
    lines = java.lines("send", topic, 9)
    sent = [line for line in lines if line[0] == "SENT"]
    assert [line[1] for line in sent] == ["SEND_OK"] * 6
    assert ["VIEWED", "100000"] in lines  # found by its offset id, and inflated
    got = java.said("GOT", "push", topic, topic, "*", 10)
    assert Counter(line[0] for line in got) == Counter(
        [*(f"m{n}" for n in range(9)), "large:100000"]
    )
    assert {line[2] for line in sent} <= {line[1] for line in got}
    odd = java.said("GOT", "push", f"{topic}-odd", topic, "odd", 4)
    assert sorted(line[0] for line in odd) == ["m1", "m3", "m5", "m7"]
    sql = java.said("GOT", "push", f"{topic}-sql", topic, "SQL:number > 6", 2)
    assert sorted(line[0] for line in sql) == ["m7", "m8"]


def test_a_consumed_group_gets_nothing_again(java: Driver, topic: str, publish: Publish) -> None:
    publish(topic, "1", "2")
    java.lines("push", topic, topic, "*", 2)
    publish(topic, "3")
    assert [line[0] for line in java.said("GOT", "push", topic, topic, "*", 1)] == ["3"]


def test_a_batch_is_one_send(java: Driver, topic: str) -> None:
    ((status, offset_ids, ids),) = java.said("SENT", "batch", topic, 5)
    assert status == "SEND_OK"
    assert len(offset_ids.split(",")) == len(ids.split(",")) == 5
    got = java.said("GOT", "push", topic, topic, "batch", 5)
    assert sorted(line[0] for line in got) == ["b0", "b1", "b2", "b3", "b4"]


def test_a_delayed_message_arrives(java: Driver, topic: str) -> None:
    java.lines("delayed", topic)
    assert [line[0] for line in java.said("GOT", "push", topic, topic, "*", 1)] == ["level"]


def test_orderly_consumers_keep_the_order_of_each_queue(java: Driver, topic: str) -> None:
    java.lines("ordered", topic, 30)
    got = [line[0].split(":") for line in java.said("GOT", "orderly", topic, topic, 30)]
    for lane in "012":
        numbers = [int(number) for each, number in got if each == lane]
        assert numbers == list(range(int(lane), 30, 3))


def test_transactions_are_decided_at_once_or_when_asked(java: Driver, topic: str) -> None:
    lines = java.lines("transactions", topic)
    checked = sorted(line[1] for line in lines if line[0] == "CHECKED")
    assert set(checked) == {"later-commit", "later-rollback"}
    got = java.said("GOT", "push", topic, topic, "*", 2)
    assert sorted(line[0] for line in got) == ["commit", "later-commit"]


def test_a_failed_message_is_retried_and_then_dead(
    java: Driver, server: Server, topic: str, publish: Publish
) -> None:
    publish(topic, "good", "hopeless")
    got = java.said("GOT", "failing", topic, topic)
    attempts = Counter((line[0], line[2]) for line in got)
    assert attempts == {(body, times): 1 for body in ("good", "hopeless") for times in ("0", "1")}
    assert {line[3] for line in got} == {topic}
    until(lambda: dead(server, topic) == 1)


def test_each_client_of_a_broadcast_gets_everything(
    java: Driver, topic: str, publish: Publish
) -> None:
    publish(topic, "1", "2", "3")
    got = java.said("GOT", "broadcast", topic, topic, 3)
    assert sorted(map(tuple, got)) == [(c, n) for c in ("c0", "c1") for n in "123"]


def test_a_lite_pull_consumer_polls(java: Driver, topic: str, publish: Publish) -> None:
    publish(topic, "1", "2", "3")
    got = java.said("GOT", "litepull", topic, topic, 3)
    assert sorted(line[0] for line in got) == ["1", "2", "3"]


def test_a_killed_members_queues_go_to_the_others(
    java: Driver, topic: str, publish: Publish
) -> None:
    for queue in range(4):
        publish(topic, f"before-{queue}")
    with java.begin("member", topic, topic) as first, java.begin("member", topic, topic) as second:
        try:
            assert first.stdout is not None
            assert second.stdout is not None
            while first.stdout.readline().strip() != "STARTED":
                continue
            while second.stdout.readline().strip() != "STARTED":
                continue
            first.kill()
            publish(topic, *(f"after-{number}" for number in range(20)))
            wanted = {f"after-{number}" for number in range(20)}
            guard = threading.Timer(LIMIT_S, second.kill)
            guard.start()
            while wanted:
                line = second.stdout.readline()
                assert line, f"never got {wanted}"
                wanted -= set(line.split(" ")[1:2])
            guard.cancel()
        finally:
            first.kill()
            second.kill()


def key_pair(data: Path) -> tuple[str, str, str]:
    """A token of the admin's, its access key, and that one's secret."""
    words = ["tokens", "add", "java", "--access-key", "--owner", "boss", "--data", str(data)]
    made = subprocess.run(
        [sys.executable, "-m", "app.users", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    token, access_key, secret_key = made.stdout.splitlines()
    return token, access_key, secret_key


@pytest.mark.parametrize("version", VERSIONS)
def test_a_signed_client_may_do_what_its_token_may(version: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with served(data, ("--admin-name", "boss", "--admin-password", "correct horse battery")):
        pass
    _, access_key, secret_key = key_pair(data)
    keys = (f"-Daccess={access_key}", f"-Dsecret={secret_key}")
    with served(data) as server:
        signed = driver_of(version, server.address, tmp_path, *keys)
        assert len(signed.said("SENT", "batch", "orders", 2)) == 1
        got = signed.said("GOT", "push", "billing", "orders", "*", 2)
        assert sorted(line[0] for line in got) == ["b0", "b1"]
        for options in ((keys[0], "-Dsecret=wrong"), ()):
            other = driver_of(version, server.address, tmp_path, *options)
            with other.begin("batch", "orders", 2) as process:
                text, _ = process.communicate(timeout=LIMIT_S)
            assert "DONE" not in text


def test_what_the_client_traced_is_part_of_a_journey(
    java: Driver, server: Server, topic: str
) -> None:
    server.post("/topics", {"name": topic})
    ((message_id,),) = java.said("SENT", "traced", topic, topic)

    def kinds() -> set[str]:
        journey = server.get(f"/messages/{message_id}/journey")
        return {stage["name"] for stage in journey["stages"] if stage["source"] == "client"}

    until(lambda: {"client_send", "client_consume"} <= kinds())
    assert server.get("/traces/status")["bad_contexts"] == 0
