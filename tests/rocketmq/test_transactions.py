"""Transactions of a server in front of Apache RocketMQ whose brokers ask what became of them.

A broker that was told of a decision is busy ever after (`_restrain` of the cluster), so this comes
after most of the modules that share one.
"""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.patience import until
from tests.rocketmq.cluster import ApacheCluster
from tests.rocketmq.test_serve import LIMIT_S, Gateway, group, pytestmark

__all__ = ["group", "pytestmark"]


class Checks(BaseHTTPRequestHandler):
    """A producer's own server, which is asked what became of a transaction."""

    decisions: ClassVar[dict[str, str]] = {}  # by the message's body
    asked: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        check = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(check)
        decision = self.decisions.get(check["message"]["body"], "unknown")
        answer = json.dumps({"decision": decision}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def callback() -> Iterator[str]:
    """The address of such a server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Checks) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}/check"
        http.shutdown()
        thread.join()


def test_a_callback_answers_what_the_brokers_ask_before_and_after_a_restart(
    cluster: ApacheCluster, tmp_path: Path, group: str, callback: str
) -> None:
    topic, producers = f"topic-{group}", f"producers-{group}"
    path = f"/transactions/callbacks/{producers}"

    def begin(server: Gateway, *texts: str) -> None:
        halves = [{"body": each, "transaction_group": producers} for each in texts]
        server.api("POST", f"/topics/{topic}/messages", {"messages": halves})

    def is_asked(text: str) -> bool:
        return any(check["message"]["body"] == text for check in list(Checks.asked))

    Checks.decisions.update({"kept": "commit", "dropped": "rollback"})
    with Gateway(tmp_path / "data", cluster.name_server) as server:
        server.api("POST", "/topics", {"name": topic, "type": "TRANSACTION"})
        server.api("PUT", path, {"url": callback})
        begin(server, "kept", "dropped", "later")
        until(lambda: is_asked("later") and is_asked("dropped"), limit_s=LIMIT_S)
    Checks.decisions["later"] = "commit"  # while nobody is there to be asked
    with Gateway(tmp_path / "data", cluster.name_server) as server:
        assert server.api("GET", path)["url"] == callback
        texts = set[str]()
        asking = {"topic": topic, "max": 10, "wait_ms": 5000}
        while texts != {"kept", "later"}:
            got = server.api("POST", f"/groups/{group}/receive", asking)["deliveries"]
            texts |= {each["body"] for each in got}
        server.ask("DELETE", f"/api/v1{path}")
        assert server.ask("GET", f"/api/v1{path}")[0] == 404
    [check] = [each for each in Checks.asked if each["message"]["body"] == "kept"][:1]
    assert (check["producer_group"], check["message"]["topic"]) == (producers, topic)
