"""Records golden frames: `python -m tests.remoting.golden.record` writes `frames.jsonl`.

With the word `users` it writes `users.jsonl`: a session with a broker that has users.

Run by hand. It starts Apache's name server and broker (`pom.xml` names the version; Maven fetches
them), puts a proxy before them and runs Apache's own clients through it: the newest 4.9, as
`tools/ensure_remoting_clients.sh` installs it, and the newest 5.x with its tools, by the programs
of `tests/remoting/java` and `Calls.java`. What passes the proxy is stored frame by frame in its
order, without any change.

The first line of the file says where its content comes from. Each other line is an event, a list:
time in milliseconds since the start, number of the connection, side (`client` or `server` for a
frame, `end` for the end of the connection), the frame in base64, and at the first event of a
connection the name of its scenario. Left out are requests that repeat what one before shows and
change nothing, with their answers; pulls that found nothing in time, or came before the broker knew
their subscription; and requests without an answer.
"""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tests.remoting.golden.events import rows
from tests.remoting.golden.proxy import Proxy

FOLDER = Path(__file__).parent
JAVA = FOLDER.parent / "java"
LIB, BUILD = FOLDER / "lib", FOLDER / "build"
OLD, NEW = "4.9.8", "5.5.0"
MODELS = {  # where a class of the client lies
    OLD: "org.apache.rocketmq.common.protocol.heartbeat",
    NEW: "org.apache.rocketmq.remoting.protocol.heartbeat",
}
LIMIT_S = 150.0
BROKER_PORT, NAME_SERVER_PORT = 31911, 31876
PROXY = f"127.0.0.2:{BROKER_PORT}"
LONG_NAMES = "-Dorg.apache.rocketmq.client.sendSmartMsg=false"
BINARY = "-Drocketmq.serialize.type=ROCKETMQ"
SETTINGS = f"""
brokerClusterName=DefaultCluster
brokerName=kitemq
brokerIP1=127.0.0.2
enablePropertyFilter=true
bindAddress=127.0.0.1
listenPort={BROKER_PORT}
namesrvAddr=127.0.0.1:{NAME_SERVER_PORT}
defaultTopicQueueNums=4
transactionTimeOut=2000
transactionCheckInterval=2000
mappedFileSizeCommitLog=16777216
mappedFileSizeTimerLog=10485760
timerMaxDelaySec=86400
recallMessageEnable=true
notifyConsumerIdsChangedEnable=true
enableBroadcastOffsetStore=false
flushDiskType=ASYNC_FLUSH
diskMaxUsedSpaceRatio=95
"""
# The first user, whose password signs.
ACCESS_KEY, SECRET_KEY = "boss", "tractor-7-lamp"
AUTH = "org.apache.rocketmq.auth"
OF_USERS = f"""
authenticationEnabled=true
authenticationProvider={AUTH}.authentication.provider.DefaultAuthenticationProvider
authenticationMetadataProvider={AUTH}.authentication.provider.LocalAuthenticationMetadataProvider
initAuthenticationUser={{"username":"{ACCESS_KEY}","password":"{SECRET_KEY}"}}
innerClientAuthenticationCredentials={{"accessKey":"{ACCESS_KEY}","secretKey":"{SECRET_KEY}"}}
authorizationEnabled=true
authorizationProvider={AUTH}.authorization.provider.DefaultAuthorizationProvider
authorizationMetadataProvider={AUTH}.authorization.provider.LocalAuthorizationMetadataProvider
"""
KEYS = (f"-Daccess={ACCESS_KEY}", f"-Dsecret={SECRET_KEY}")


@dataclass(frozen=True)
class Run:
    """A program of Java's with its words; those in one step run at the same time."""

    scenario: str
    words: str
    version: str = NEW
    program: str = "Drive"
    options: tuple[str, ...] = ()


STEPS: tuple[tuple[Run, ...], ...] = (
    (Run("send", "send orders 9"),),
    (Run("send with long names", "send long 3", options=(LONG_NAMES,)),),
    (Run("batch with long names", "batch long 2", options=(LONG_NAMES,)),),
    (Run("send with binary headers", "send binary 3", options=(BINARY,)),),
    (Run("send 4.9", "send old 3", OLD),),
    (Run("batch", "batch orders 3"),),
    (Run("batch 4.9", "batch old 2", OLD),),
    (Run("push", "push billing orders * 13"),),
    (Run("push with binary headers", "push billing binary * 4", options=(BINARY,)),),
    (Run("push of a tag", "push odd orders odd 4"),),
    (Run("push by SQL", "push sql orders SQL:number>6 2"),),
    (Run("push 4.9", "push old old * 6", OLD),),
    (Run("broadcast", "broadcast everyone orders 13"),),
    (Run("lite pull", "litepull puller orders 13"),),
    (Run("lite pull 4.9", "litepull puller49 old 6", OLD),),
    (Run("ordered sends", "ordered lanes 6"),),
    (Run("orderly", "orderly orderly lanes 6"),),
    (Run("orderly 4.9", "orderly orderly49 lanes 6", OLD),),
    (Run("delayed", "delayed late"),),
    (Run("push of delayed", "push latecomer late * 1"),),
    (Run("recall", "recall recalled", program="Drive5"),),
    (Run("transactions", "transactions deals"),),
    (Run("transactions 4.9", "transactions deals49", OLD),),
    (Run("failing", "send doubtful 1"), Run("failing", "failing doubter doubtful")),
    (Run("reply", "reply repliers questions 2"), Run("request", "request questions 2")),
    (Run("reply 4.9", "reply repliers49 questions49 2", OLD, options=(LONG_NAMES,)),
     Run("request 4.9", "request questions49 2", OLD)),
    (Run("trace", "traced tracer traces"),),
    (Run("sends to POP", "send popped 4"),),
    (Run("POP", "pop popper popped * 5", program="Drive5"),),
    (Run("failing POP", "failing popfailer popped", program="Drive5"),),
)  # fmt: skip
CALLS = Run("calls", "tools tooling {client} popped", program="Calls")
FILES = {
    "topics.json": '[{"topicName":"first","readQueueNums":3,"writeQueueNums":3,"perm":6}]',
    "groups.json": '[{"groupName":"readers","retryMaxTimes":2}]',
}
PREPARATIONS = (
    "updateTopic -b {broker} -t orders -r 2 -w 2",
    "updateTopic -b {broker} -t questions -r 1 -w 1",
    "updateTopic -b {broker} -t questions49 -r 1 -w 1",
    "updateTopic -b {broker} -t popped -r 1 -w 1",
    "updateTopic -b {broker} -t doubtful -r 1 -w 1",
    "updateSubGroup -b {broker} -g billing -r 3",
    "updateSubGroup -b {broker} -g popper -r 16",
    "updateSubGroup -b {broker} -g popfailer -r 16",
    "setConsumeMode -b {broker} -t popped -g popper -m POP",
    "setConsumeMode -b {broker} -t popped -g popfailer -m POP",
)
COMMANDS: tuple[str | Run, ...] = (
    "updateTopic -b {broker} -t tools -r 2 -w 2",
    "updateSubGroup -b {broker} -g tooling -r 3",
    "sendMessage -t tools -p one -c paid -k k1 -b kitemq -i 1",
    "consumer-client tooling tools",
    "producer-client senders",
    "clusterList",
    "topicList",
    "topicClusterList -t tools",
    "topicRoute -t tools -l",
    "topicRoute -t nothing",
    "topicStatus -t tools",
    "updateTopicPerm -b {broker} -t tools -p 6",
    "statsAll -t tools",
    "brokerStatus -b {broker}",
    "getBrokerConfig -b {broker}",
    "getNamesrvConfig",
    "brokerConsumeStats -b {broker}",
    "producer -b {broker}",
    "producerConnection -g senders -t tools",
    "consumerConnection -g tooling",
    "consumerProgress -g tooling",
    "consumerStatus -g tooling",
    "consumerStatus -g tooling -i {client}",
    "getConsumerConfig -g tooling",
    "cleanExpiredCQ -b {broker}",
    "cleanUnusedTopic -b {broker}",
    "deleteExpiredCommitLog -b {broker}",
    "queryMsgByKey -t tools -k k1",
    "queryMsgByOffset -t tools -b kitemq -i 1 -o 0",
    "queryCq -t tools -q 1 -i 0 -c 5 -b {broker} -g tooling",
    "consumeMessage -t tools -b kitemq -i 1 -o 0",
    "printMsgByQueue -t tools -a kitemq -i 1 -p true -d true",
    "calls DefaultCluster tools tooling",
    "updateOrderConf -t tools -m get",
    "updateOrderConf -t tools -m put -v kitemq:2",
    "updateOrderConf -t tools -m get",
    "deleteKvConfig -s own -k name",
    "updateNamesrvConfig -k serverWorkerThreads -v 9",
    CALLS,
    "resetOffsetByTime -g tooling -t tools -s 0",
    "updateBrokerConfig -b {broker} -k useServerSideResetOffset -v false",
    "resetOffsetByTime -g tooling -t tools -s 0",
    "skipAccumulatedMessage -g tooling -t tools",
    "cloneGroupOffset -s tooling -d copied -t tools -o true",
    "wipeWritePerm -b kitemq",
    "addWritePerm -b kitemq",
    "deleteSubGroup -b {broker} -g copied",
    "updateTopic -b {broker} -t gone -r 1 -w 1",
    "deleteTopic -c DefaultCluster -t gone",
    "updateTopicList -b {broker} -f topics.json",
    "updateSubGroupList -b {broker} -f groups.json",
    "updateStaticTopic -t static -qn 2 -b kitemq",
    "getBrokerEpoch -b kitemq",
    "haStatus -b {broker}",
    "getColdDataFlowCtrInfo -b {broker}",
)


@dataclass(frozen=True)
class Session:
    """What is recorded into a file, and how the broker is set up for it."""

    file: str
    commands: tuple[str | Run, ...]
    preparations: tuple[str, ...] = ()
    steps: tuple[tuple[Run, ...], ...] = ()
    settings: str = SETTINGS
    options: tuple[str, ...] = ()  # of mqadmin


# Passwords in the order of the users, by which lists are compared.
USERS: tuple[str | Run, ...] = (
    "createUser -b {broker} -u ann -p apple-8-horse -t Normal",
    "createUser -b {broker} -u ann -p apple-8-horse -t Normal",
    "createUser -b {broker} -u tom -p zebra-8-horse -t Super",
    "listUser -b {broker}",
    "listUser -b {broker} -f an",
    "getUser -b {broker} -u ann",
    "getUser -b {broker} -u nobody",
    "updateUser -b {broker} -u ann -p battery-9-staple",
    "updateUser -b {broker} -u tom -t Normal",
    "updateUser -b {broker} -u tom -s disable",
    "getUser -b {broker} -u tom",
    "updateUser -b {broker} -u tom -s enable",
    "updateUser -b {broker} -u nobody -s disable",
    "getAcl -b {broker} -s User:ann",
    "createAcl -b {broker} -s User:ann -r Topic:orders-*,Group:billing -a Pub,Sub -d Allow",
    "createAcl -b {broker} -s User:ann -r Topic:orders-* -a Get -d Allow",
    "createAcl -b {broker} -s User:nobody -r Topic:orders -a Pub -d Allow",
    "createAcl -b {broker} -s ann -r Topic:orders -a Pub -d Allow",
    "createAcl -b {broker} -s User:ann -r Nothing:orders -a Pub -d Allow",
    "createAcl -b {broker} -s User:tom -r Topic:* -a All -d Allow",
    "getAcl -b {broker} -s User:ann",
    "getAcl -b {broker} -s User:nobody",
    "listAcl -b {broker}",
    "listAcl -b {broker} -s ann",
    "listAcl -b {broker} -r orders",
    "updateAcl -b {broker} -s User:ann -r Topic:orders-* -a All -d Allow",
    "updateAcl -b {broker} -s User:ann -r Topic:letters -a Create,Update,Delete -d Allow",
    "getAcl -b {broker} -s User:ann",
    "deleteAcl -b {broker} -s User:ann -r Group:billing",
    "deleteAcl -b {broker} -s User:ann -r Group:none",
    "getAcl -b {broker} -s User:ann",
    "deleteAcl -b {broker} -s User:ann",
    "getAcl -b {broker} -s User:ann",
    "listAcl -b {broker}",
    "updateAcl -b {broker} -s User:ann -r Topic:secrets -a Pub -d Deny",
    "updateAcl -b {broker} -s User:ann -r Topic:letters -a Pub -i 192.0.2.1 -d Allow",
    "updateAcl -b {broker} -s User:ann -r Cluster:* -a Get -d Allow",
    "deleteUser -b {broker} -u ann",
    "deleteUser -b {broker} -u ann",
    "getAcl -b {broker} -s User:ann",
    "createUser -b {broker} -u odd -p apple-8-horse -t Odd",
    "updateTopic -b {broker} -t orders -r 1 -w 1",
    "sendMessage -t orders -p one -c paid -k k1",
    "queryMsgByKey -t orders -k k1",
    Run("unsigned", "batch orders 2"),
    Run("signed with a wrong secret", "batch orders 2", options=(KEYS[0], "-Dsecret=other")),
    Run("signed by nobody", "batch orders 2", options=("-Daccess=nobody", KEYS[1])),
    Run("unsigned consumer", "litepull billing orders 0"),
)
SESSIONS = {
    "frames": Session("frames.jsonl", COMMANDS, PREPARATIONS, STEPS),
    "users": Session("users.jsonl", USERS, settings=SETTINGS + OF_USERS, options=KEYS),
}


class Admin:
    """Apache's mqadmin in one process that stays, through the proxy."""

    def __init__(self, home: Path, options: tuple[str, ...]) -> None:
        command = [*java(NEW, home, options), "Admin", PROXY]
        self._process = subprocess.Popen(
            command, cwd=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.client = ""

    def run(self, command: str) -> str:
        """The output of a command."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        name, *words = command.format(broker=PROXY, client=self.client).split()
        own = ("consumer-client", "producer-client", "calls")
        words = words if name in own else ["-n", PROXY, *words]
        self._process.stdin.write("\t".join((name, *words)) + "\n")
        self._process.stdin.flush()
        lines = []
        while (line := self._process.stdout.readline()) not in ("END\n", ""):
            lines.append(line)
        text = "".join(lines)
        if name == "consumer-client":
            self.client = text.split()[-1]
        return text

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def java(version: str, home: Path, options: tuple[str, ...]) -> list[str]:
    """The beginning of a command that runs a program with a version of the client."""
    own = (
        f"-Duser.home={home}",
        f"-Drocketmq.home.dir={home}",
        f"-Drocketmq.client.logRoot={home}",
    )
    return ["java", "-XX:TieredStopAtLevel=1", "-cp", _classes(version), *own, *options]


def build() -> None:
    """Fetch Apache's jars and compile the programs, where that is not done yet."""
    if not LIB.is_dir():
        pom = ("--file", str(FOLDER / "pom.xml"), "dependency:copy-dependencies")
        maven = ["mvn", "--quiet", "--batch-mode", *pom]
        subprocess.run([*maven, "-DincludeScope=runtime", "-DoutputDirectory=lib"], check=True)
    shutil.rmtree(BUILD, ignore_errors=True)
    for version, model in MODELS.items():
        folder = BUILD / version
        folder.mkdir(parents=True)
        drive = folder / "Drive.java"
        drive.write_text((JAVA / "Drive.java").read_text().replace("@MODEL@", model))
        of_new = [JAVA / "Drive5.java", JAVA / "Admin.java", FOLDER / "Calls.java"]
        sources = [drive, *(of_new if version == NEW else ())]
        compiler = ["javac", "-nowarn", "-cp", _classes(version), "-d", str(folder)]
        subprocess.run([*compiler, *map(str, sources)], check=True)


def _classes(version: str) -> str:
    lib = LIB if version == NEW else JAVA / "lib" / version
    return f"{BUILD / version}{os.pathsep}{lib}/*"


@contextmanager
def apache(home: Path, settings: str) -> Iterator[None]:
    """Name server and broker on the loopback interface, until the `with` ends."""
    names, broker = home / "namesrv.conf", home / "broker.conf"
    names.write_text(f"listenPort={NAME_SERVER_PORT}\nbindAddress=127.0.0.1\n")
    store = f"storePathRootDir={home}/store\nstorePathCommitLog={home}/store/commitlog\n"
    broker.write_text(settings + store)
    environ = {**os.environ, "ROCKETMQ_HOME": str(home), "TZ": "UTC"}
    processes = []
    try:
        for program, config, port in (
            ("namesrv.NamesrvStartup", names, NAME_SERVER_PORT),
            ("broker.BrokerStartup", broker, BROKER_PORT),
        ):
            words = [f"org.apache.rocketmq.{program}", "-c", str(config)]
            memory = ("-Xmx1g", "-XX:MaxDirectMemorySize=1g")
            with (home / "output").open("ab") as output:
                processes.append(
                    subprocess.Popen(
                        [*java(NEW, home, memory), *words],
                        env=environ,
                        stdout=output,
                        stderr=output,
                    )
                )
            _await_port(port)
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _await_port(port: int) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), 0.1).close()
        except OSError:
            subprocess.run(["sleep", "0.1"], check=True)
        else:
            return
    raise TimeoutError(f"nothing listens on port {port}")


async def record(home: Path, session: Session) -> list[dict[str, object]]:
    """Every event of all steps and commands."""
    name_server, broker = f"127.0.0.1:{NAME_SERVER_PORT}", f"127.0.0.1:{BROKER_PORT}"
    for name, text in FILES.items():
        (home / name).write_text(text)
    async with Proxy(PROXY, name_server, broker) as proxy:
        await asyncio.sleep(3)  # the broker registers with the name server
        admin = Admin(home, session.options)
        try:
            for preparation in session.preparations:
                await _run_command(proxy, admin, preparation)
            for step in session.steps:
                await _run_step(proxy, home, step)
            for command in session.commands:
                if isinstance(command, Run):
                    words = command.words.format(client=admin.client)
                    await _run_step(proxy, home, (replace(command, words=words),))
                else:
                    await _run_command(proxy, admin, command)
        finally:
            admin.end()
        return proxy.events


async def _run_command(proxy: Proxy, admin: Admin, command: str) -> None:
    proxy.scenario = f"mqadmin {command.split()[0]}"
    text = await asyncio.wait_for(asyncio.to_thread(admin.run, command), LIMIT_S)
    _say(f"{command}: {' '.join(text.split())[:160]}")
    if command.startswith(("consumer-client", "producer-client")):
        await asyncio.sleep(6)  # it sends its heartbeat, consumes and commits


async def _run_step(proxy: Proxy, home: Path, step: tuple[Run, ...]) -> None:
    processes = []
    for run in step:
        proxy.scenario = run.scenario
        words = [*java(run.version, home, run.options), run.program, PROXY, *run.words.split()]
        processes.append(
            await asyncio.create_subprocess_exec(
                *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
            )
        )
        await asyncio.sleep(6 if len(step) > 1 else 0)
    for run, process in zip(step, processes, strict=True):
        output, _ = await asyncio.wait_for(process.communicate(), LIMIT_S)
        lines = output.decode().splitlines()
        _say(f"{run.scenario}: {lines[-1] if lines else ''} {len(lines)} lines")
        if "DONE" not in lines:
            _say(output.decode()[-2000:])


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - a program that is run by hand


def main() -> None:
    session = SESSIONS[sys.argv[1] if len(sys.argv) > 1 else "frames"]
    build()
    with tempfile.TemporaryDirectory(prefix="rocketmq-") as name:
        home = Path(name)
        with apache(home, session.settings):
            events = asyncio.run(record(home, session))
    origin = {
        "apache": NEW,
        "clients": [OLD, NEW],
        "address": PROXY,
        "start_ms": events[0]["at_ms"],
    }
    found = [origin, *rows(events)]
    lines = [json.dumps(row, separators=(",", ":")) + "\n" for row in found]
    frames = FOLDER / session.file
    frames.write_text("".join(lines))
    _say(f"{len(events)} events, {len(lines) - 1} stored, {frames.stat().st_size} bytes")


if __name__ == "__main__":
    main()
