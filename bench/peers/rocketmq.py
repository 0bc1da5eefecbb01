"""Apache RocketMQ: its name server and its broker, each in a JVM of its own as in an installation.

For clients of RocketMQ 5 the broker runs in its proxy's JVM, Apache's mode for one machine. The
jars are those of `$ROCKETMQ_HOME/lib`, or the ones that the tests of frames use. The broker answers
once a message is in the page cache (ASYNC_FLUSH, its default).
"""

import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.process import Process, answers, free_port

ROOT = Path(__file__).parents[2]
HEAP = ("-Xms512m", "-Xmx512m", "-XX:MaxDirectMemorySize=512m")
NAMES_HEAP = ("-Xms64m", "-Xmx64m", "-XX:TieredStopAtLevel=1")
ROUTE = (
    b'{"code":105,"language":"JAVA","version":479,"opaque":1,"flag":0,'
    b'"extFields":{"topic":"TBW102"}}'
)
SETTINGS = """brokerName=bench
brokerIP1=127.0.0.1
listenPort={port}
namesrvAddr=127.0.0.1:{names_port}
storePathRootDir={store}
storePathCommitLog={store}/commitlog
autoCreateTopicEnable=true
timerWheelEnable={timers}
waitTimeMillsInSendQueue=60000
"""
NEW_TOPIC = (
    '{{"code":17,"language":"JAVA","version":479,"opaque":1,"flag":0,"extFields":{{'
    '"topic":"{topic}","defaultTopic":"TBW102","readQueueNums":"4","writeQueueNums":"4","perm":"6",'
    '"topicFilterType":"SINGLE_TAG","topicSysFlag":"0","order":"false",'
    '"attributes":"+message.type=NORMAL"}}}}'
)


def jars() -> Path:
    """The folder of the jars; it may not be there."""
    home = os.environ.get("ROCKETMQ_HOME", "")
    return Path(home) / "lib" if home else ROOT / "tests/remoting/golden/lib"


def is_installed() -> bool:
    """Whether there is a broker to compare with."""
    return _has("namesrv")


def has_proxy() -> bool:
    """Whether there is a proxy to compare with."""
    return is_installed() and _has("proxy")


def _has(part: str) -> bool:
    return bool(shutil.which("java")) and any(jars().glob(f"rocketmq-{part}-*.jar"))


class RocketMQServer(Process):
    """The broker is what is weighed; the name server only answers for routes."""

    name = "Apache RocketMQ"

    def __init__(self, data: Path, *, has_timers: bool = False) -> None:
        """Timers cost it memory; delivery by POP stands on them."""
        super().__init__(data)
        self._has_timers = has_timers
        self.remoting_port = free_port()  # of the name server
        self._names: subprocess.Popen[bytes] | None = None

    def command(self) -> Sequence[str]:
        return [
            *self._java(HEAP),
            "org.apache.rocketmq.broker.BrokerStartup",
            "-c",
            str(self._file),
        ]

    def environment(self) -> dict[str, str]:
        return super().environment() | {"ROCKETMQ_HOME": str(self.data)}

    def is_ready(self) -> bool:
        """Whether the name server has the route of new topics: the broker is registered then."""
        return answers(self.remoting_port, _frame(ROUTE), b'"code":0')

    def start(self) -> float:
        self.data.mkdir(parents=True, exist_ok=True)
        values = {
            "port": self.port,
            "names_port": self.remoting_port,
            "store": self.data / "store",
            "timers": str(self._has_timers).lower(),
        }
        self._file.write_text(SETTINGS.format(**values))
        names = self.data / "namesrv.conf"
        names.write_text(f"listenPort={self.remoting_port}\n")
        main = "org.apache.rocketmq.namesrv.NamesrvStartup"
        self._names = subprocess.Popen(
            [*self._java(NAMES_HEAP), main, "-c", str(names)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=self.environment(),
        )
        return super().start()

    def end(self, how: signal.Signals) -> None:
        super().end(how)
        if self._names is not None:
            self._names.kill()
            self._names.wait()
            self._names = None

    @property
    def _file(self) -> Path:
        return self.data / "broker.conf"

    def _java(self, heap: Sequence[str]) -> list[str]:
        return ["java", *heap, f"-Duser.home={self.data}", "-cp", f"{jars()}/*"]


class RocketMQProxy(RocketMQServer):
    """Proxy and broker in one JVM; topics have to be made, as the proxy makes none."""

    name = "Apache RocketMQ's proxy"

    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self.grpc_port = free_port()
        self._proxy_port = free_port()  # of the remoting protocol, which nobody speaks to here

    def command(self) -> Sequence[str]:
        names = f"127.0.0.1:{self.remoting_port}"
        options = ("-n", names, "-pm", "LOCAL", "-pc", str(self._proxy_file), "-bc")
        main = "org.apache.rocketmq.proxy.ProxyStartup"
        return [*self._java(HEAP), main, *options, str(self._file)]

    def is_ready(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.grpc_port), timeout=1).close()
        except OSError:
            return False
        return super().is_ready()

    def prepare(self, topic: str) -> None:
        frame = _frame(NEW_TOPIC.format(topic=topic).encode())
        if not answers(self.port, frame, b'"code":0'):
            raise RuntimeError(f"{self.name} does not make the topic {topic}")

    def start(self) -> float:
        self.data.mkdir(parents=True, exist_ok=True)
        settings = {
            "rocketMQClusterName": "DefaultCluster",
            "grpcServerPort": self.grpc_port,
            "remotingListenPort": self._proxy_port,
        }
        self._proxy_file.write_text(json.dumps(settings))
        return super().start()

    @property
    def _proxy_file(self) -> Path:
        return self.data / "rmq-proxy.json"


def _frame(header: bytes) -> bytes:
    """A request without a body."""
    return (4 + len(header)).to_bytes(4) + len(header).to_bytes(4) + header
