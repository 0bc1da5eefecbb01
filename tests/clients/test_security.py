"""Who official clients are, what they may do, and that TLS is served on the very same port."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.clients.conftest import Starter
from tests.clients.official import ClientError, bodies
from tests.grpc.endpoint import ROOT, Served, served
from tests.patience import until

TOPICS = ("tea-orders", "coffee")
PASSWORD = "correct horse"
STRICT = (
    "--disk-free-min-bytes=0",
    "--auto-create-topics=false",
    "--grpc-check-automatic-topics=true",
)


@dataclass(frozen=True)
class Guarded:
    """A server with users, and the keys of one token that may use the topics `tea-*`."""

    served: Served
    admin: dict[str, str]  # headers of a token that may do everything
    access_key: str
    secret_key: str

    @property
    def keys(self) -> dict[str, str]:
        return {"access_key": self.access_key, "secret_key": self.secret_key}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    data = tmp_path_factory.mktemp("guarded") / "data"
    command("users", "add", "ann", "--role", "admin", "--password-stdin", data=data)
    said = command(
        *("tokens", "add", "tea", "--owner", "ann", "--role", "operator", "--access-key"),
        *("--allow", "produce:topic:tea-*", "--allow", "consume:*:tea-*"),
        *("--allow", "read:topic:tea-*"),
        data=data,
    )
    _, access_key, secret_key = said.split()
    token = command("tokens", "add", "all", "--owner", "ann", "--role", "admin", data=data).strip()
    admin = {"authorization": f"Bearer {token}"}
    with served(data, STRICT) as found:
        for topic in TOPICS:
            answer = httpx.post(
                f"{found.url}/api/v1/topics",
                json={"name": topic},
                headers=admin,
            )
            answer.raise_for_status()
        yield Guarded(found, admin, access_key, secret_key)


def command(*words: str, data: Path) -> str:
    """What `kitemq` prints."""
    return subprocess.run(
        [sys.executable, "-m", "kitemq", *words, "--data", str(data)],
        input=PASSWORD,
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if "KITEMQ" not in name},
        timeout=60,
    ).stdout


def test_an_access_key_may_do_what_its_token_may(guarded: Guarded, start: Starter, client: str):
    official = start(client, guarded.served.address, **guarded.keys)
    group, refused = f"tea-{client.replace('.', '-')}", counted(guarded, "FORBIDDEN")
    producer = official.producer("tea-orders")
    producer.send("tea-orders", "earl grey")
    assert "earl grey" in bodies(official.simple(group, {"tea-orders": "*"}).take(1))
    with pytest.raises(ClientError):
        producer.send("coffee", "latte")
    with pytest.raises(ClientError):
        official.simple("coffee", {"tea-orders": "*"}).receive()
    assert counted(guarded, "FORBIDDEN") > refused


def test_a_refused_send_says_why_and_those_to_other_topics_go_on(
    guarded: Guarded, start: Starter, client: str
):
    official = start(client, guarded.served.address, **guarded.keys)
    producer = official.producer("tea-orders", "coffee")
    for body in ("earl grey", "oolong"):
        with pytest.raises(ClientError, match=r"lacks the right produce:topic:coffee"):
            producer.send("coffee", "latte")
        producer.send("tea-orders", body)


def test_a_refused_receive_says_why(guarded: Guarded, start: Starter, client: str):
    official = start(client, guarded.served.address, **guarded.keys)
    for group, topic, right in (
        ("tea-tasters", "coffee", "consume:topic:coffee"),
        ("coffee", "tea-orders", "consume:group:coffee"),
    ):
        consumer = official.simple(group, {topic: "*"})
        with pytest.raises(ClientError, match=f"lacks the right {right}"):
            consumer.receive()


@pytest.mark.needs("push", "refused start")
def test_a_refused_push_consumer_says_why_it_does_not_start(
    guarded: Guarded, start: Starter, client: str
):
    official = start(client, guarded.served.address, **guarded.keys)
    with pytest.raises(ClientError, match="lacks the right consume:group:coffee"):
        official.push("coffee", {"tea-orders": "*"})
    allowed = official.push(f"tea-push-{client}", {"tea-orders": "*"})
    # Other tests send to this topic as well: their messages may be heard first.
    official.producer("tea-orders").send("tea-orders", "lapsang")
    until(lambda: "lapsang" in bodies(allowed.heard(1)), "the allowed consumer heard nothing of it")


def counted(guarded: Guarded, code: str) -> int:
    """Calls that the server answered with this code; the clients do not all tell it."""
    metrics = httpx.get(f"{guarded.served.url}/metrics", headers=guarded.admin).text
    found = re.findall(
        rf'^kitemq_grpc_calls_total\{{.*code="{code}".*\}} (\d+)', metrics, re.MULTILINE
    )
    return sum(map(int, found))


@pytest.mark.parametrize("wrong", ["secret_key", "access_key", "both missing"])
def test_nobody_gets_in_with_a_wrong_signature(
    guarded: Guarded, start: Starter, client: str, wrong: str
):
    keys = {} if wrong == "both missing" else guarded.keys | {wrong: "x" * 32}
    official = start(client, guarded.served.address, timeout_s=3, **keys)
    refused = counted(guarded, "UNAUTHORIZED")
    with pytest.raises(ClientError):
        official.producer("tea-orders").send("tea-orders", "earl grey")
    assert counted(guarded, "UNAUTHORIZED") > refused


def test_a_topic_that_nobody_made_is_told_to_be_missing(
    guarded: Guarded, start: Starter, client: str
):
    official = start(client, guarded.served.address, timeout_s=3, **guarded.keys)
    producer = official.producer("tea-orders")
    missing = counted(guarded, "TOPIC_NOT_FOUND")
    with pytest.raises(ClientError, match="tea-nobody-made-it"):
        producer.send("tea-nobody-made-it", "earl grey")
    assert counted(guarded, "TOPIC_NOT_FOUND") > missing


def test_the_same_port_serves_tls(server: Served, start: Starter, client: str, topic: str):
    roots = server.data / "grpc_tls.crt"
    official = start(client, server.address, tls=True, roots=roots)
    official.producer(topic).send(topic, "by TLS")
    assert bodies(official.simple(topic, {topic: "*"}).take(1)) == ["by TLS"]
    if not official.driver.checks_certificate:
        return
    stranger = start(client, server.address, tls=True, timeout_s=3)
    with pytest.raises(ClientError):
        stranger.producer(topic).send(topic, "to a certificate that it does not know")
