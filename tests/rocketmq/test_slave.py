"""A broker of Apache RocketMQ in the role of a slave follows KiteMQ and has its log."""

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.process import free_port
from kitemq import Message, Producer
from protocol.remoting.codes import RequestCode
from tests.crash.process import ServerProcess
from tests.patience import until
from tests.remoting.port import Client, bodies, pulling
from tests.rocketmq.apache import HEAP, LIB, QUICK, missing

pytestmark = [
    pytest.mark.slow,
    pytest.mark.crash,
    pytest.mark.timeout(600),
]

SEGMENT_BYTES = 8 * 1024 * 1024
BOOT_S = 120.0
TABLES_S = 150.0  # a slave reads its master's tables a minute after its start
TOPIC, GROUP = "orders", "readers"
CONFIG = """brokerClusterName=DefaultCluster
brokerName=kitemq
brokerId=1
brokerRole=SLAVE
slaveReadEnable=true
brokerIP1=127.0.0.1
listenPort={port}
haListenPort={ha_port}
namesrvAddr={names}
storePathRootDir={store}
storePathCommitLog={store}/commitlog
mappedFileSizeCommitLog={segment_bytes}
mappedFileSizeConsumeQueue=600000
timerWheelEnable=false
"""


class Slave:
    """Apache's `BrokerStartup` on a folder of its own."""

    def __init__(self, root: Path, names: str) -> None:
        self.root, self.store = root, root / "store"
        self.port = free_port()
        values = {"port": self.port, "ha_port": free_port(), "names": names, "store": self.store}
        root.mkdir()
        self._config = root / "broker.conf"
        self._config.write_text(CONFIG.format(segment_bytes=SEGMENT_BYTES, **values))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        output = self.root / "output"
        main = ["org.apache.rocketmq.broker.BrokerStartup", "-c", str(self._config)]
        with output.open("wb") as log:
            self._process = subprocess.Popen(
                ["java", *HEAP, *QUICK, f"-Duser.home={self.root}", "-cp", f"{LIB}/*", *main],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={"PATH": os.environ["PATH"], "ROCKETMQ_HOME": str(self.root), "TZ": "UTC"},
            )
        until(lambda: b"boot success" in output.read_bytes(), "the slave did not start", BOOT_S)

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def table(self, name: str) -> dict[str, Any]:
        """One of the tables that it copied; empty while it has none."""
        path = self.store / "config" / name
        text = path.read_text() if path.exists() else "{}"
        table: dict[str, Any] = json.loads(re.sub(r"([{,]\s*)(\d+):", r'\1"\2":', text))
        return table


@pytest.fixture
def names() -> str:
    """The address of the master's name server."""
    return f"127.0.0.1:{free_port()}"


@pytest.fixture
def master(tmp_path: Path, names: str) -> Iterator[ServerProcess]:
    server = ServerProcess(
        tmp_path / "master",
        remoting_listen=names,
        remoting_broker_listen=f"127.0.0.1:{free_port()}",
        ha_listen=f"127.0.0.1:{free_port()}",
        segment_bytes=SEGMENT_BYTES,
    )
    server.start()
    try:
        yield server
    finally:
        server.kill()


def fill(master: ServerProcess, first: int, count: int) -> list[bytes]:
    """Send messages to one queue, some of them delayed; the bodies of those that are not."""
    numbers = range(first, first + count)
    plain = [
        Message(body=b"%d" % number * 300, tag="t", keys=(f"k{number}",)) for number in numbers
    ]
    with Producer(master.url) as producer:
        producer.send_batch(TOPIC, plain, queue=0)
        producer.send(TOPIC, b"later", delay_level=18)
    return [bytes(message.body) for message in plain]


def is_equal(master: ServerProcess, slave: Slave) -> bool:
    """Whether the slave has every byte of the master's log."""
    names = sorted(path.name for path in (master.data / "commitlog").iterdir())
    copies = [slave.store / "commitlog" / name for name in names]
    return all(
        copy.exists() and copy.read_bytes() == (master.data / "commitlog" / copy.name).read_bytes()
        for copy in copies
    )


async def pulled(slave: Slave, count: int) -> list[bytes]:
    """Bodies that the slave gives its own clients."""
    client = Client(*await asyncio.open_connection("127.0.0.1", slave.port))
    found: list[bytes] = []
    while len(found) < count:
        answer = await client.ok(RequestCode.PULL_MESSAGE, pulling("any", TOPIC, len(found)))
        found += bodies(answer.body)
    client.writer.close()
    return found


def test_a_slave_of_rocketmq_has_the_log_and_serves_it(
    master: ServerProcess, names: str, tmp_path: Path
) -> None:
    if reason := missing():
        pytest.skip(reason)
    sent = fill(master, 0, 2_000)  # a slave that has nothing begins with the last segment
    with httpx.Client(base_url=f"{master.url}/api/v1", timeout=30) as api:
        assert api.post("/groups", json={"name": GROUP}).status_code == 201
        place = {"topic": TOPIC, "queue": 0, "offset": "123"}
        assert api.put(f"/groups/{GROUP}/offsets", json=place).status_code == 204
    slave = Slave(tmp_path / "slave", names)
    try:
        slave.start()
        until(lambda: is_equal(master, slave), "the slave did not begin", BOOT_S)
        sent += fill(master, 2_000, 10_000)  # several segments
        until(lambda: is_equal(master, slave), "the slave did not catch up", BOOT_S)
        slave.kill()
        sent += fill(master, 12_000, 2_000)
        slave.start()
        until(lambda: is_equal(master, slave), "the slave did not go on", BOOT_S)
        until(lambda: slave.table("delayOffset.json"), "the slave copied no tables", TABLES_S)
        assert slave.table("topics.json")["topicConfigTable"][TOPIC]["writeQueueNums"] == 4
        assert asyncio.run(pulled(slave, len(sent))) == sent
        offsets = slave.table("consumerOffset.json")["offsetTable"]
        assert offsets[f"{TOPIC}@{GROUP}"]["0"] == 123
        assert slave.table("delayOffset.json")["offsetTable"]["18"] == 0
    finally:
        slave.kill()
