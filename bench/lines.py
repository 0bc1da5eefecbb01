"""Every line of the benchmark, in the order in which they are run.

To add one: a `RateLine` with ours first and its peers after it, and its targets as `Check`s.
"""

from pathlib import Path

from bench.alone import (
    APPEND_COLUMNS,
    APPEND_SINGLE,
    OFF,
    ON,
    RECEIVE_COLUMNS,
    RECEIVE_SINGLE,
    TRACED,
    EngineLine,
    TraceLine,
)
from bench.clients.grpc import sending_by_client, sending_by_stub, start_kite_for_client
from bench.clients.java import classic_client, grpc_client, sending_by_java
from bench.clients.peers_sdk import (
    sending_by_nats,
    sending_by_redis,
    taking_by_nats,
    taking_by_redis,
)
from bench.clients.remoting import pulling_frames, sending_frames
from bench.clients.rest import RestSend
from bench.clients.sdk import sending_by_sdk, taking_by_sdk
from bench.clients.websocket import SocketSend, SocketTake
from bench.console import CONSOLE
from bench.figures import Check
from bench.gateway import GATEWAY
from bench.life import BacklogLine, Keeper, QueuesLine, StartLine, queues_title
from bench.line import Contestant, Line, MakeSend, RateLine, sending, taking, travelling
from bench.part_lines import PART_LINES
from bench.peers import nats, redis, rocketmq
from bench.process import Process
from bench.report_lines import REPORTS
from bench.server import Server
from bench.standby import STANDBY
from kitemq.protocol.sends import DurabilityCode

BODY = b"x" * 256
BODY_1K = b"x" * 1024
BATCH = 256  # messages of one SEND; four of them are 1024 in flight
SMALL_BATCH = 16  # four of them are 64 in flight
DELAY_LEVEL_1S = 1
DELAY_LEVEL_2H = 18
GROUP = "bench"
KITE, REST, SDK = "KiteMQ WebSocket", "KiteMQ REST", "KiteMQ SDK"
REMOTING, APACHE = "KiteMQ remoting", "Apache RocketMQ"
NATS_PY, REDIS_PY = "NATS JetStream, nats-py", "Redis everysec, redis-py"
GRPC_PORT, PROXY = "KiteMQ gRPC", "Apache RocketMQ's proxy"
KITE_SINGLE = "KiteMQ WebSocket, 1 per frame"
EVERYSEC, ALWAYS, NATS = "Redis everysec", "Redis always", "NATS JetStream"


def start_kite(data: Path) -> Process | None:
    return Server(data)


def start_everysec(data: Path) -> Process | None:
    return redis.RedisServer(data, "everysec") if redis.is_installed() else None


def start_always(data: Path) -> Process | None:
    return redis.RedisServer(data, "always") if redis.is_installed() else None


def start_apache(data: Path) -> Process | None:
    return rocketmq.RocketMQServer(data) if rocketmq.is_installed() else None


def start_proxy(data: Path) -> Process | None:
    return rocketmq.RocketMQProxy(data) if rocketmq.has_proxy() else None


def by_java(name: str, threads_text: str, threads: int) -> RateLine:
    """Apache's classic Java client against both brokers."""
    work = sending_by_java(classic_client(), BODY, threads=threads)
    return RateLine(
        name,
        f"Classic RocketMQ protocol: Java client, {threads_text}, 256 B, stored",
        (
            Contestant(REMOTING, start_kite, work),
            Contestant(APACHE, start_apache, work),
        ),
    )


def by_java_over_grpc(
    name: str, threads_text: str, threads: int, checks: tuple[Check, ...] = ()
) -> RateLine:
    """The Java client of RocketMQ 5 against our port and Apache's proxy."""
    work = sending_by_java(grpc_client(), BODY, threads=threads)
    return RateLine(
        name,
        f"RocketMQ 5 clients: Java client, {threads_text}, 256 B, stored",
        (
            Contestant(GRPC_PORT, start_kite, work),
            Contestant(PROXY, start_proxy, work),
        ),
        checks,
    )


def start_nats(data: Path) -> Process | None:
    return nats.NatsServer(data) if nats.is_installed() else None


def socket_send(
    body: bytes = BODY, *, batch: int = 1, flushed: bool = False, delay_level: int = 0
) -> MakeSend:
    durability = DurabilityCode.FLUSHED if flushed else DurabilityCode.STORED
    return lambda turn: SocketSend(
        turn.port,
        turn.topic,
        body,
        per_request=batch,
        durability=durability,
        delay_level=delay_level,
    )


def rest_send(*, batch: int = 0, flushed: bool = False) -> MakeSend:
    durability = "flushed" if flushed else "stored"
    return lambda turn: RestSend(
        turn.port, turn.topic, BODY, per_request=batch, durability=durability
    )


def redis_send(body: bytes = BODY) -> MakeSend:
    return lambda turn: redis.RedisSend(turn.topic, body)


def nats_send(body: bytes = BODY) -> MakeSend:
    return lambda turn: nats.NatsSend(turn.topic, body)


def peers(window: int, *, flushed: bool = False, body: bytes = BODY) -> tuple[Contestant, ...]:
    """Peers of the same durability, with as many messages unanswered."""
    if flushed:
        return (Contestant(ALWAYS, start_always, sending(redis_send(body), window=window)),)
    return (
        Contestant(EVERYSEC, start_everysec, sending(redis_send(body), window=window)),
        Contestant(NATS, start_nats, sending(nats_send(body), window=window)),
    )


def kite(name: str, send: MakeSend, *, window: int = 1, connections: int = 1) -> Contestant:
    return Contestant(name, start_kite, sending(send, window=window, connections=connections))


def by_client(threads: int) -> Contestant:
    """The official Python client."""
    name = f"official Python client, {threads} thread{'s' if threads > 1 else ''}"
    return Contestant(name, start_kite_for_client, sending_by_client(BODY, threads=threads))


def by_stub(window: int, *, batch: int = 1) -> Contestant:
    """gRPC without a client library around it."""
    return Contestant(
        f"gRPC stub, {window} calls", start_kite, sending_by_stub(BODY, window=window, batch=batch)
    )


ENGINE = (
    EngineLine(
        "engine-256",
        "Engine alone, 256 B, stored: append of 100 and of one; receive and ack of 256 and of one",
        256,
        (
            Check(APPEND_COLUMNS, "broker_us", 1.0),
            Check(APPEND_SINGLE, "broker_us", 9),
            Check(RECEIVE_COLUMNS, "broker_us", 1.5),
            Check(RECEIVE_SINGLE, "broker_us", 20),
        ),
    ),
    EngineLine("engine-1k", "The same with 1 KiB", 1024),
    TraceLine(
        "engine-traced",
        "The same with 256 B, and one by one, with every message traced and with none",
        256,
        tuple(
            Check(f"{name}, {ON}", "broker_us", 1.1, peer=f"{name}, {OFF}")
            for name in TRACED.values()
        ),
    ),
)

ONE = (
    RateLine(
        "one-stored",
        "One message at a time, each waited for, 256 B, stored",
        (kite(KITE, socket_send()), kite(REST, rest_send()), *peers(1)),
        (
            Check(KITE, "broker_us", 1.5, peer=NATS),
            Check(REST, "broker_us", 2.0, peer=NATS),
            Check(KITE, "p50_us", 1.5, peer=NATS),
            Check(REST, "p50_us", 1.8, peer=NATS),
        ),
    ),
    RateLine(
        "one-flushed",
        "One message at a time, each waited for, 256 B, flushed",
        (
            kite(KITE, socket_send(flushed=True)),
            kite(REST, rest_send(flushed=True)),
            *peers(1, flushed=True),
        ),
        tuple(Check(name, "broker_us", 2.0, peer=ALWAYS) for name in (KITE, REST)),
    ),
)

HTTP = (
    RateLine(
        "rest-64",
        "REST: one message per request on 64 connections, 256 B, stored",
        (kite(REST, rest_send(), connections=64),),
        (Check(REST, "broker_us", 35),),
    ),
    RateLine(
        "rest-64-flushed",
        "REST: one message per request on 64 connections, 256 B, flushed",
        (kite(REST, rest_send(flushed=True), connections=64),),
    ),
    RateLine(
        "rest-batch",
        "REST: JSON batches of 100 on 4 connections, 256 B, stored",
        (kite(REST, rest_send(batch=100), connections=4),),
        (Check(REST, "broker_us", 3),),
    ),
    RateLine(
        "rest-batch-flushed",
        "REST: JSON batches of 100 on 4 connections, 256 B, flushed",
        (kite(REST, rest_send(batch=100, flushed=True), connections=4),),
    ),
)

GRPC = (
    RateLine(
        "grpc-1",
        "RocketMQ 5 clients: one message at a time, each waited for, 256 B, stored",
        (
            by_client(1),
            by_stub(1),
            kite(REST, rest_send()),
            kite(KITE, socket_send()),
        ),
    ),
    RateLine(
        "grpc-64",
        "RocketMQ 5 clients: 64 messages in flight (the official client: 16), 256 B, stored",
        (
            by_client(16),
            by_stub(64),
            kite(REST, rest_send(), connections=64),
            kite(KITE_SINGLE, socket_send(), window=64),
        ),
    ),
    RateLine(
        "grpc-batch",
        "RocketMQ 5 clients: batches of 50, four under way, 256 B, stored",
        (
            by_stub(4, batch=50),
            kite(REST, rest_send(batch=50), connections=4),
            kite(KITE, socket_send(batch=50), window=4),
        ),
    ),
    *(
        (
            by_java_over_grpc("grpc-java-1", "one thread", 1),
            by_java_over_grpc(
                "grpc-java-64",
                "64 threads",
                64,
                (
                    Check(GRPC_PORT, "broker_us", 200),
                    Check(GRPC_PORT, "rate", 0.6, is_most=False, peer=PROXY),
                ),
            ),
        )
        if grpc_client().is_installed
        else ()
    ),
)

CLASSIC = (
    RateLine(
        "classic-1024",
        "Classic RocketMQ protocol: SEND_MESSAGE_V2 with 1024 in flight, 256 B, stored",
        (
            Contestant(REMOTING, start_kite, sending_frames(BODY, window=1024)),
            Contestant(APACHE, start_apache, sending_frames(BODY, window=1024)),
        ),
        (Check(REMOTING, "rate", 80_000, is_most=False),),
    ),
    RateLine(
        "classic-batch",
        "Classic RocketMQ protocol: batches of 256 with 1024 messages in flight, 256 B, stored",
        (
            Contestant(REMOTING, start_kite, sending_frames(BODY, window=4, batch=BATCH)),
            Contestant(APACHE, start_apache, sending_frames(BODY, window=4, batch=BATCH)),
        ),
    ),
    RateLine(
        "classic-pull",
        "Classic RocketMQ protocol: pull a backlog of one queue by 32 and commit it, 256 B",
        (
            Contestant(REMOTING, start_kite, pulling_frames(BODY)),
            Contestant(APACHE, start_apache, pulling_frames(BODY)),
        ),
    ),
    *(
        (
            by_java("classic-java-1", "one thread", 1),
            by_java("classic-java-64", "64 threads", 64),
        )
        if classic_client().is_installed
        else ()
    ),
)

AHEAD_OF_BOTH = (
    Check(KITE, "broker_us", 0.6, peer=NATS),
    Check(KITE, "broker_us", 1.0, peer=EVERYSEC),
    Check(KITE, "rate", 1.0, is_most=False, peer=NATS),
    Check(KITE, "rate", 1.0, is_most=False, peer=EVERYSEC),
)
PIPELINED = (
    RateLine(
        "ws-64",
        "64 messages in flight, 256 B, stored",
        (
            kite(KITE_SINGLE, socket_send(), window=64),
            kite(KITE, socket_send(batch=SMALL_BATCH), window=4),
            *peers(64),
        ),
        (Check(KITE_SINGLE, "broker_us", 10), Check(KITE, "broker_us", 1.0, peer=NATS)),
    ),
    RateLine(
        "ws-64-flushed",
        "64 messages in flight, 256 B, flushed",
        (
            kite(KITE_SINGLE, socket_send(flushed=True), window=64),
            kite(KITE, socket_send(batch=SMALL_BATCH, flushed=True), window=4),
            *peers(64, flushed=True),
        ),
        (Check(KITE, "rate", 1.0, is_most=False, peer=ALWAYS),),
    ),
    RateLine(
        "ws-1024",
        "1024 messages in flight, 256 B, stored",
        (kite(KITE, socket_send(batch=BATCH), window=4), *peers(1024)),
        AHEAD_OF_BOTH,
    ),
    RateLine(
        "ws-1024-1k",
        "1024 messages in flight, 1 KiB, stored",
        (
            kite(KITE, socket_send(BODY_1K, batch=BATCH), window=4),
            *peers(1024, body=BODY_1K),
        ),
        AHEAD_OF_BOTH,
    ),
    RateLine(
        "ws-1024-flushed",
        "1024 messages in flight, 256 B, flushed",
        (kite(KITE, socket_send(batch=BATCH, flushed=True), window=4), *peers(1024, flushed=True)),
    ),
    RateLine(
        "sdk-1024",
        "1024 messages in flight, 256 B, stored, through each broker's Python client",
        (
            Contestant(SDK, start_kite, sending_by_sdk(BODY, batch=BATCH, tasks=4)),
            kite(KITE, socket_send(batch=BATCH), window=4),
            Contestant(REDIS_PY, start_everysec, sending_by_redis(BODY, batch=BATCH, tasks=4)),
            Contestant(NATS_PY, start_nats, sending_by_nats(BODY, window=1024)),
        ),
        (
            Check(SDK, "rate", 0.6, is_most=False, peer=KITE),
            Check(SDK, "client_us", 1.0, peer=NATS_PY),
            Check(SDK, "client_us", 1.0, peer=REDIS_PY),
        ),
    ),
)

TAKING = (
    RateLine(
        "consume",
        "Take a backlog and acknowledge it in batches of up to 256, 256 B",
        (
            Contestant(
                KITE,
                start_kite,
                taking(
                    socket_send(batch=BATCH),
                    lambda turn: SocketTake(turn.port, turn.topic, GROUP),
                    window=4,
                ),
            ),
            Contestant(
                EVERYSEC,
                start_everysec,
                taking(
                    redis_send(),
                    lambda turn: redis.RedisTake(turn.topic, GROUP, len(BODY)),
                    window=1024,
                ),
            ),
            Contestant(
                NATS,
                start_nats,
                taking(nats_send(), lambda turn: nats.NatsTake(turn.topic, GROUP), window=1024),
            ),
        ),
        (
            Check(KITE, "broker_us", 0.6, peer=NATS),
            Check(KITE, "broker_us", 1.0, peer=EVERYSEC),
        ),
    ),
    RateLine(
        "sdk-consume",
        "The same through each broker's Python client",
        (
            Contestant(SDK, start_kite, taking_by_sdk(BODY)),
            Contestant(REDIS_PY, start_everysec, taking_by_redis(BODY)),
            Contestant(NATS_PY, start_nats, taking_by_nats(BODY)),
        ),
        (
            Check(SDK, "client_us", 1.0, peer=NATS_PY),
            Check(SDK, "client_us", 1.0, peer=REDIS_PY),
        ),
    ),
    RateLine(
        "end-to-end",
        "From sending to having received, 500 messages per second, 256 B, stored",
        (
            Contestant(
                KITE,
                start_kite,
                travelling(
                    socket_send(),
                    lambda turn: SocketTake(turn.port, turn.topic, GROUP),
                    rate=500,
                ),
            ),
            Contestant(
                EVERYSEC,
                start_everysec,
                travelling(
                    redis_send(),
                    lambda turn: redis.RedisTake(turn.topic, GROUP, len(BODY), blocks=True),
                    rate=500,
                ),
            ),
            Contestant(
                NATS,
                start_nats,
                travelling(nats_send(), lambda turn: nats.NatsTake(turn.topic, GROUP), rate=500),
            ),
        ),
        (Check(KITE, "p50_us", 1.3, peer=NATS), Check(KITE, "broker_us", 1.0, peer=NATS)),
    ),
    RateLine(
        "delayed",
        "Lateness of delayed messages (level 1: 1 s), 1,000 due per second, 256 B",
        (
            Contestant(
                KITE,
                start_kite,
                travelling(
                    socket_send(delay_level=DELAY_LEVEL_1S),
                    lambda turn: SocketTake(turn.port, turn.topic, GROUP),
                    rate=1000,
                    less_s=1.0,
                ),
            ),
        ),
        (Check(KITE, "p99_us", 3_000),),
    ),
)

LIFE = (
    StartLine(
        "start",
        "Start to ready with nothing stored; memory then, with the console looked at",
        {"KiteMQ": start_kite, EVERYSEC: start_everysec, NATS: start_nats},
        (Check("KiteMQ", "ready_s", 0.4), Check("KiteMQ", "memory_mib", 100)),
    ),
    StartLine(
        "idle",
        "Memory with nothing stored and nothing asked for, all ports open",
        {"KiteMQ": start_kite, EVERYSEC: start_everysec, NATS: start_nats},
        (Check("KiteMQ", "memory_mib", 70),),
        is_used=False,
    ),
    BacklogLine(
        "backlog",
        "Memory with 1 M messages of 256 B; ready again after SIGKILL",
        {
            "KiteMQ": Keeper(
                start_kite, lambda port, topic: SocketSend(port, topic, BODY, per_request=BATCH), 4
            ),
            EVERYSEC: Keeper(start_everysec, lambda _, topic: redis.RedisSend(topic, BODY), 1024),
            NATS: Keeper(start_nats, lambda _, topic: nats.NatsSend(topic, BODY), 1024),
        },
        (Check("KiteMQ", "memory_mib", 90), Check("KiteMQ", "ready_s", 1.5)),
    ),
    QueuesLine(
        "start-queues",
        "Ready again after SIGKILL with 1,000 and 10,000 topics of 8 queues",
        (1_000, 10_000),
        (
            Check(queues_title(1_000), "ready_s", 3.0),
            Check(queues_title(10_000), "ready_s", 15.0),
        ),
    ),
    BacklogLine(
        "delayed-backlog",
        "Memory that 1 M pending delayed messages add (level 18: 2 h)",
        {
            "KiteMQ": Keeper(
                start_kite,
                lambda port, topic: SocketSend(
                    port, topic, BODY, per_request=BATCH, delay_level=DELAY_LEVEL_2H
                ),
                4,
            )
        },
        (Check("KiteMQ", "memory_mib", 50),),
        is_killed=False,
    ),
)

LINES: tuple[Line, ...] = (
    *ENGINE,
    *PART_LINES,
    *LIFE[:1],
    *ONE,
    *HTTP,
    *GRPC,
    *CLASSIC,
    *PIPELINED,
    *TAKING,
    *LIFE[1:],
    *STANDBY,
    *GATEWAY,
    CONSOLE,
    *REPORTS,
)
