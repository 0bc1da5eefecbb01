"""The official clients as a test drives them: a process for each, JSON lines in and out.

The clients are not changed in any way; `drive.py`, `drive.js` and the programs in `java`, `go` and
`rust` only call what they offer. What a client does not offer at all its row in DRIVERS says.
"""

import base64
import itertools
import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from protocol.rocketmq.numbers import Code

FOLDER = Path(__file__).parent
PYTHON = FOLDER / ".venv" / "bin" / "python"
NODE_CLIENT = FOLDER / "node_modules" / "rocketmq-client-nodejs"
JAVA = FOLDER / "java"
GO = FOLDER / "go" / "build" / "drive"
RUST = FOLDER / "rust" / "target" / "debug" / "drive"


@dataclass(frozen=True)
class Driver:
    """How one client is driven, what the server calls it, and what it lacks beside the others.

    A test says what it needs (`@pytest.mark.needs("push")`): "push" consumers, to "change" the
    time of a message in hand, to "recall" a delayed one, to show a "priority", the "offset" in a
    receipt, "plain" text besides TLS, to fail a "refused start" with the reason. What tests work
    around stands in the rows as well: that a "refusal" of an acknowledgement is told, that the
    channel receives more than "4 MiB", that a "subscription" is told to the server before the
    first receive.
    """

    language: str
    version: str
    command: tuple[str, ...]
    parts: tuple[Path, ...]  # what has to be installed or built
    lacks: frozenset[str] = frozenset()
    checks_certificate: bool = True
    born_unit_ms: int = 1  # how exactly it tells when a message was born


def java(version: str, *lacks: str) -> Driver:
    """The Java client of one version; all versions are driven by one program."""
    jar = JAVA / "lib" / f"rocketmq-client-java-{version}.jar"
    classes = JAVA / "build"
    # It logs into the user's home, of which Java does not ask the environment.
    options = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m", "-Duser.home=.")
    command = ("java", *options, "-cp", f"{jar}:{classes}", "Drive")
    return Driver("JAVA", version, command, (jar, classes / "Drive.class"), frozenset(lacks), False)


DRIVERS = {
    "python": Driver(
        "PYTHON",
        "5.1.2",
        (str(PYTHON), "-P", str(FOLDER / "drive.py")),
        (PYTHON,),
        frozenset({"refused start"}),
    ),
    "node": Driver(
        "NODE_JS", "1.0.8", ("node", str(FOLDER / "drive.js")), (NODE_CLIENT,), frozenset({"4 MiB"})
    ),
    "java": java("5.2.0"),
    "java-5.0.4": java("5.0.4", "recall", "priority", "plain", "refused start"),
    "go": Driver(
        "GOLANG",
        "5.1.4",
        (str(GO),),
        (GO,),
        frozenset({"priority", "refusal"}),
        checks_certificate=False,
    ),
    "rust": Driver(
        "RUST",
        "5.0.0",
        (str(RUST),),
        (RUST,),
        frozenset({"push", "change", "recall", "priority", "offset", "4 MiB", "subscription"}),
        born_unit_ms=1000,
    ),
}

# Every other version of Java's client that Apache has published: test_versions.py starts each.
OLDER_JAVA = {
    f"java-{version}": java(version)
    for version in ("5.0.0", "5.0.2", "5.0.3", "5.0.5", "5.0.6", "5.0.7", "5.0.8", "5.1.0")
}


class Way(NamedTuple):
    """A client, and whether it speaks by TLS."""

    client: str
    tls: bool

    def __str__(self) -> str:
        return f"{self.client}-tls" if self.tls else self.client


def clients(needs: Collection[str] = ()) -> list[str]:
    """Those that lack nothing of what is needed."""
    return [name for name, driver in DRIVERS.items() if not driver.lacks & set(needs)]


def ways(needs: Collection[str] = ()) -> list[Way]:
    """The same in plain text and by TLS, for those that can speak plain text."""
    return [
        Way(client, tls)
        for client in clients(needs)
        for tls in (False, True)
        if tls or "plain" not in DRIVERS[client].lacks
    ]


# The clients scan for their queues once a second to five; the rest is a machine's slowness.
LIMIT_S = 60.0
WAIT_S = 1  # of a long poll
# Where clients that check certificates look for roots: those of gRPC's C core and Node, and Rust.
ROOTS = ("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "SSL_CERT_FILE")


class ClientError(Exception):
    """What an official client raised: its exception's name, RocketMQ's code if any, its text."""

    def __init__(self, name: str, code: int | None, text: str) -> None:
        super().__init__(f"{name}, code {code}: {text}")
        self.name = name
        self.code = code
        self.text = text


class Event(NamedTuple):
    """A call of a listener ("message") or of a checker ("check")."""

    kind: str
    client: str
    message: dict[str, Any]
    answer: str  # of a checker
    at_s: float  # of a listener: when it was called, by the wall clock


class Official:
    """One process with any number of clients of one language in it.

    Of what the clients inherit from this process only the path is left; their logs go to `home`.
    """

    def __init__(self, client: str, address: str, home: Path, **options: Any) -> None:
        self.client = client
        self.driver = (DRIVERS | OLDER_JAVA)[client]
        if "plain" in self.driver.lacks:
            options["tls"] = True
        environ = {"PATH": os.environ["PATH"], "HOME": str(home), "TZ": "UTC"}
        if roots := options.pop("roots", ""):
            environ |= dict.fromkeys(ROOTS, str(roots))
        self._log = (home / f"{client}.err").open("ab")
        self._process = subprocess.Popen(
            [*self.driver.command, address, json.dumps(options)],
            cwd=home,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self._numbers = itertools.count()
        self._names: list[str] = []
        self._answers: dict[int, queue.Queue[dict[str, Any]]] = {}
        self._changed = threading.Condition()
        self._events: list[Event] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    # -- commands ----------------------------------------------------------------------------------

    def ask(self, do: str, *, limit_s: float = LIMIT_S, **arguments: Any) -> Any:
        """What the driver answered; ClientError where the client raised."""
        return self.begin(do, **arguments)(limit_s)

    def begin(self, do: str, **arguments: Any) -> Callable[[float], Any]:
        """Give a command; what is returned waits for its answer."""
        number = next(self._numbers)
        answers = self._answers[number] = queue.Queue(1)
        assert self._process.stdin is not None
        line = json.dumps({"id": number, "do": do, **arguments}) + "\n"
        self._process.stdin.write(line.encode())
        self._process.stdin.flush()

        def result(limit_s: float = LIMIT_S) -> Any:
            answer = answers.get(timeout=limit_s)
            if error := answer.get("error"):
                raise ClientError(error["type"], _number(error["code"]), error["text"])
            return answer["ok"]

        return result

    def producer(
        self, *topics: str, name: str = "", checks: dict[str, str] | None = None
    ) -> "Client":
        """A producer that was started; `checks` says what it answers, by body."""
        found = self._named(name)
        self.ask("producer", name=found.name, topics=topics, checks=checks)
        return found

    def simple(self, group: str, subscriptions: dict[str, str], name: str = "") -> "Client":
        """A SimpleConsumer; of each topic its tags, or "SQL: ..."."""
        found = self._named(name)
        self.ask("simple", name=found.name, group=group, subscriptions=subscriptions, wait_s=WAIT_S)
        return found

    def push(
        self,
        group: str,
        subscriptions: dict[str, str],
        name: str = "",
        *,
        fails: dict[str, int] | None = None,
        slow_s: float = 0.0,
    ) -> "Client":
        """A PushConsumer that fails each body as often as `fails` says."""
        found = self._named(name)
        self.ask(
            "push",
            name=found.name,
            group=group,
            subscriptions=subscriptions,
            fails=fails or {},
            slow_s=slow_s,
        )
        return found

    def assert_runs(self) -> None:
        """AssertionError with its exit status, where its process has ended."""
        status = self._process.poll()
        assert status is None, f"the {self.client} driver ended with {status}, see {self._log.name}"

    def leave(self) -> None:
        """Shut down all clients, without waiting: some take as long as a poll."""
        for name in self._names:
            self.begin("shutdown", name=name)
        self._names.clear()

    def forget(self, name: str) -> None:
        """That client is shut down already."""
        self._names.remove(name)

    def _named(self, name: str) -> "Client":
        """A client to be; a name that nobody chose is a number."""
        self._names.append(name or str(next(self._numbers)))
        return Client(self, self._names[-1])

    # -- what listeners and checkers heard ---------------------------------------------------------

    def events(self, client: str, kind: str = "message") -> list[Event]:
        """Calls so far, in order."""
        with self._changed:
            return [each for each in self._events if (each.client, each.kind) == (client, kind)]

    def wait_events(
        self, client: str, count: int, kind: str = "message", limit_s: float = LIMIT_S
    ) -> list[Event]:
        """The same once there are `count`; AssertionError after the limit."""
        until_s = time.monotonic() + limit_s
        with self._changed:
            while True:
                found = [
                    each for each in self._events if (each.client, each.kind) == (client, kind)
                ]
                if len(found) >= count:
                    return found
                left_s = until_s - time.monotonic()
                assert left_s > 0, f"{len(found)} of {count} after {limit_s:g} s: {found}"
                self._changed.wait(left_s)

    # -- the process -------------------------------------------------------------------------------

    def close(self) -> None:
        """End it at once; whether the server noticed is the server's affair."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            assert stream is not None
            try:
                stream.close()
            except BrokenPipeError:
                continue  # a command that it did not read any more

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if "id" in said:
                self._answers.pop(said["id"]).put(said)
                continue
            event = Event(
                said["event"],
                said["client"],
                said["message"],
                said.get("answer", ""),
                said.get("at_s", 0.0),
            )
            with self._changed:
                self._events.append(event)
                self._changed.notify_all()
        gone = {"error": {"type": "Gone", "code": None, "text": "the client's process ended"}}
        for answers in list(self._answers.values()):
            answers.put(gone)


def _number(code: int | str | None) -> int | None:
    """A code of RocketMQ's, which Rust calls by its name."""
    return Code[code].value if isinstance(code, str) else code


class Client:
    """One producer or consumer in a driver."""

    def __init__(self, official: Official, name: str) -> None:
        self._official = official
        self.name = name

    def send(self, topic: str, body: str | bytes, *, transaction: str = "", **fields: Any) -> Any:
        """The receipt of a message that was sent."""
        return self.sending(topic, body, transaction=transaction, **fields)(LIMIT_S)

    def sending(
        self, topic: str, body: str | bytes, *, transaction: str = "", **fields: Any
    ) -> Callable[[float], Any]:
        """The same, without waiting for it yet."""
        message = {"topic": topic, "body": encoded(body), **fields}
        return self._official.begin(
            "send", name=self.name, message=message, transaction=transaction
        )

    def recall(self, topic: str, handle: str) -> Any:
        return self._official.ask("recall", name=self.name, topic=topic, handle=handle)

    def receive(self, count: int = 16, invisible_s: int = 60) -> list[dict[str, Any]]:
        """What one receive brought; it waits up to WAIT_S."""
        found: list[dict[str, Any]] = self._official.ask(
            "receive", name=self.name, max=count, invisible_s=invisible_s
        )
        return found

    def take(self, count: int, invisible_s: int = 60) -> list[dict[str, Any]]:
        """Receive and acknowledge until there were `count`; AssertionError after the limit."""
        taken: list[dict[str, Any]] = []
        until_s = time.monotonic() + LIMIT_S
        while len(taken) < count:
            assert time.monotonic() < until_s, f"only {bodies(taken)} of {count}"
            for message in self.receive(invisible_s=invisible_s):
                self.ack(message)
                taken.append(message)
        return taken

    def ack(self, message: dict[str, Any]) -> None:
        self._official.ask("ack", name=self.name, handle=message["handle"])

    def change(self, message: dict[str, Any], invisible_s: int) -> str:
        """The new handle."""
        return str(
            self._official.ask(
                "change", name=self.name, handle=message["handle"], invisible_s=invisible_s
            )
        )

    def heard(self, count: int, limit_s: float = LIMIT_S) -> list[dict[str, Any]]:
        """What a push consumer's listener was called with, once it was so often."""
        events = self._official.wait_events(self.name, count, limit_s=limit_s)
        return [event.message for event in events]

    def shutdown(self) -> None:
        self._official.ask("shutdown", name=self.name)
        self._official.forget(self.name)


def encoded(body: str | bytes) -> str:
    data = body.encode() if isinstance(body, str) else body
    return base64.b64encode(data).decode()


def body_of(message: dict[str, Any]) -> str:
    return base64.b64decode(message["body"]).decode()


def bodies(messages: list[dict[str, Any]]) -> list[str]:
    return [body_of(message) for message in messages]
