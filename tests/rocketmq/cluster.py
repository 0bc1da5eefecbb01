"""A cluster of Apache RocketMQ as it is installed: a name server and brokers, a JVM each."""

import asyncio
import os
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from app.cluster.client import ClusterClient
from app.cluster.errors import ClusterError
from bench.process import free_port
from tests.patience import until
from tests.rocketmq.apache import LIB, QUICK, missing

NAME_SERVER_HEAP = ("-Xms32m", "-Xmx64m", "-XX:+UseSerialGC")
BROKER_HEAP = ("-Xms128m", "-Xmx256m", "-XX:MaxDirectMemorySize=512m", "-XX:+UseSerialGC")
BUSY_THREAD = "TransactionalOp"  # as far as Linux keeps the name TransactionalOpBatchService
START_S = 180.0
REGISTERED_S = 60.0  # brokers register as they start, and every 30 s
SAID = 2000  # characters of what a process printed
SETTINGS = """brokerClusterName=test
brokerName={name}
brokerId={member}
brokerRole={role}
brokerIP1=127.0.0.1
bindAddress=127.0.0.1
listenPort={port}
haListenPort={ha_port}
namesrvAddr={name_server}
storePathRootDir={home}/store
storePathCommitLog={home}/store/commitlog
mappedFileSizeCommitLog=16777216
mappedFileSizeTimerLog=10485760
mappedFileSizeConsumeQueue=600000
autoCreateTopicEnable=false
traceTopicEnable=true
autoCreateSubscriptionGroup=false
diskMaxUsedSpaceRatio=95
waitTimeMillsInSendQueue=30000
slaveReadEnable=true
enablePropertyFilter=true
recallMessageEnable=true
transactionTimeOut=2000
transactionCheckInterval=2000
"""


class ApacheCluster:
    """Starts at once; ends with the `with`. Members are named "a", "b" (masters), "a1" (slave)."""

    def __init__(self, root: Path, *members: str, more: str = "") -> None:
        """`more` are lines of the brokers' settings, which override those of here."""
        self._root, self._more = root, more
        self._ports: dict[str, tuple[int, int]] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.name_server = f"127.0.0.1:{free_port()}"
        try:
            self._begin(members)
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def _begin(self, members: tuple[str, ...]) -> None:
        home = self._home("namesrv")
        port = self.name_server.partition(":")[2]
        (home / "namesrv.conf").write_text(f"listenPort={port}\nbindAddress=127.0.0.1\n")
        self._run("namesrv", NAME_SERVER_HEAP, "org.apache.rocketmq.namesrv.NamesrvStartup")
        self._wait_for("namesrv", int(port))
        for member in members:
            self.start(member)
        for member in members:
            self._wait_for(member, self._ports[member][0])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for member in list(self._processes):
            self.kill(member)

    def start(self, member: str) -> None:
        """Start a broker, again on the same port and files; returns at once."""
        home = self._home(member)
        if member not in self._ports:
            self._ports[member] = _broker_port(), free_port()
        port, ha_port = self._ports[member]
        is_slave = len(member) > 1
        settings = SETTINGS.format(
            name=member[0],
            member=member[1:] or "0",
            role="SLAVE" if is_slave else "ASYNC_MASTER",
            port=port,
            ha_port=ha_port,
            name_server=self.name_server,
            home=home,
        )
        (home / f"{member}.conf").write_text(f"{settings}{self._more}\n")
        self._run(member, BROKER_HEAP, "org.apache.rocketmq.broker.BrokerStartup")

    def restart(self, member: str) -> None:
        """Start it and wait until it listens."""
        self.start(member)
        self._wait_for(member, self._ports[member][0])

    def store(self, member: str) -> Path:
        """The folder with a broker's log and tables."""
        return self._home(member) / "store"

    def state(self) -> str:
        """Whether each process runs, and what it said last."""
        return "\n".join(
            f"{member}: {_exit(process)}\n{(self._home(member) / 'output').read_text()[-SAID:]}"
            for member, process in self._processes.items()
        )

    def kill(self, member: str) -> None:
        """SIGKILL."""
        self._end(member, signal.SIGKILL)

    def stop(self, member: str) -> None:
        """In order, as `mqshutdown` does."""
        self._end(member, signal.SIGTERM)

    def _end(self, member: str, by: signal.Signals) -> None:
        process = self._processes.pop(member)
        process.send_signal(by)
        process.wait()

    def _home(self, member: str) -> Path:
        home = self._root / member
        home.mkdir(parents=True, exist_ok=True)
        return home

    def _run(self, member: str, heap: tuple[str, ...], main: str) -> None:
        home = self._home(member)
        own = (f"-Duser.home={home}", f"-Drocketmq.home.dir={home}")
        program = ("-cp", f"{LIB}/*", main, "-c", f"{home}/{member}.conf")
        with (home / "output").open("ab") as output:
            self._processes[member] = subprocess.Popen(
                ["java", *heap, *QUICK, *own, *program],
                stdout=output,
                stderr=output,
                env={"PATH": os.environ["PATH"], "HOME": str(home), "ROCKETMQ_HOME": str(home)},
            )

    def _wait_for(self, member: str, port: int) -> None:
        process, log = self._processes[member], self._home(member) / "output"

        def listens() -> bool:
            assert process.poll() is None, f"{member} has ended, see {log}"
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        until(listens, f"{member} does not listen, see {log}", START_S)
        _restrain(process.pid)


def _exit(process: "subprocess.Popen[bytes]") -> str:
    status = process.poll()
    return "runs" if status is None else f"ended with {status}"


async def two_masters(cluster: ApacheCluster) -> None:
    """Wait until two are registered at the name server; TimeoutError after REGISTERED_S."""
    async with ClusterClient(cluster.name_server) as client, asyncio.timeout(REGISTERED_S):
        while True:
            with suppress(ClusterError):
                if len(await client.masters()) == 2:
                    return
            await asyncio.sleep(0.2)


def _restrain(pid: int) -> None:
    """Give a broker's busy thread the processor only while nobody else wants it.

    From the first decision of a transaction on RocketMQ 5.5.0 asks without a pause whether there is
    another one, which takes a core for as long as the broker runs.
    """
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # it has ended
            if (task / "comm").read_text().startswith(BUSY_THREAD):
                os.sched_setscheduler(int(task.name), os.SCHED_IDLE, os.sched_param(0))


def missing_cluster() -> str:
    """Why it cannot be run here; "" where it can."""
    if reason := missing():
        return reason
    if not list(LIB.glob("rocketmq-namesrv-*.jar")):
        return "Apache RocketMQ's name server is not installed: sh tools/ensure_rocketmq.sh"
    return ""


def _broker_port() -> int:
    """One with a free one two below, which the broker takes as well."""
    while True:
        port = free_port()
        with socket.socket() as below:
            try:
                below.bind(("127.0.0.1", port - 2))
            except OSError:
                continue
        return port
