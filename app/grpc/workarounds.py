"""Workarounds for bugs of official clients, which would otherwise lose messages, spin or hang.

Each has its cause beside it; no other module depends on the client's language.
"""

import re

from engine.message import BODY_BYTES_MAX
from protocol.rocketmq.numbers import ClientLanguage, Code, MessageType

Version = tuple[int, ...]

# What the header x-mq-language says where it is not the name that the settings have a number for.
OWN_NAMES = {
    "GO": ClientLanguage.GOLANG,
    "DOTNET": ClientLanguage.DOT_NET,
    "HTTP": ClientLanguage.NODE_JS,
}

# Java and C# turn each message type of a route into an enum of their own and throw at one that they
# do not know: neither a producer nor a consumer starts. These are the first versions that know
# PRIORITY. The others keep any number. Source: rocketmq-client-java 5.1.0 and 5.2.0,
# MessageType.java; csharp-5.2.0-rc1 and 5.2.1, MessageType.cs.
PRIORITY_SINCE: dict[ClientLanguage, Version] = {
    ClientLanguage.JAVA: (5, 2, 0),
    ClientLanguage.DOT_NET: (5, 2, 1),
}
KEEP_ANY_TYPE = frozenset(
    {
        ClientLanguage.CPP,
        ClientLanguage.GOLANG,
        ClientLanguage.RUST,
        ClientLanguage.PYTHON,
        ClientLanguage.PHP,
        ClientLanguage.NODE_JS,
    }
)

# Java asks a status for the number of its code, which throws for one that came later than the
# client: "Can't get the number of an unknown enum value" instead of the reason. Source:
# StatusChecker.java, and the version of rocketmq-proto that each release is built with.
JAVA_CODES_SINCE: dict[Code, Version] = {
    Code.ILLEGAL_POLLING_TIME: (5, 0, 3),
    Code.MESSAGE_BODY_EMPTY: (5, 0, 8),
}

# Node takes the base of its waits from an exponential policy only; without one its telemetry
# handler throws (`getStrategyCase` of undefined) and `startup()` never returns.
# Source: rocketmq-client-nodejs 1.0.8, src/consumer/PushSubscriptionSettings.ts.
EXPONENTIAL_ONLY = frozenset({ClientLanguage.NODE_JS})

# Python's push consumer reads a list of waits only; from any other policy it makes 17 attempts
# with one second between them. Source: rocketmq-python-client 5.1.2, v5/consumer/push_consumer.py.
LIST_ONLY = frozenset({ClientLanguage.PYTHON})

# These push consumers do not end a long poll when they are shut down: they wait it out, and only
# then tell the server that they leave.
# Source: rocketmq-client-nodejs 1.0.8, src/consumer/PushConsumer.ts, `shutdown`; Java 5.1.0,
# PushConsumerImpl.java, and Go 5.1.4, push_consumer.go, `waitingReceiveRequestFinished`; Rust
# 5.0.0, push_consumer.rs, `shutdown`; C#, PushConsumer.cs, `WaitInflightReceiveFinishedAsync`.
WAITS_POLLS_OUT = frozenset(
    {
        ClientLanguage.NODE_JS,
        ClientLanguage.JAVA,
        ClientLanguage.GOLANG,
        ClientLanguage.RUST,
        ClientLanguage.DOT_NET,
    }
)
SHORT_POLL_S = 5.0

# Go's push consumer counts a poll that ended with MESSAGE_NOT_FOUND as under way for ever: when it
# is shut down it waits for those as long as a poll may take at all, its request timeout included.
# With OK and no message it counts right, and polls again as it would have.
# Source: Go 5.1.4, process_queue.go, `receiveMessageImmediatelyWithAttemptId`.
COUNTS_EMPTY_POLLS_FOR_EVER = frozenset({ClientLanguage.GOLANG})

# Node computes the wait of a failed message in seconds and sends it as milliseconds, so that a
# failing consumer spins. What a push consumer names is not used at all: the group's own schedule
# is, which the settings told it anyway (`receiving.change_invisible_duration`).

# Node looks for a writable queue with the id 0 and takes no other; so queue ids begin at 0
# (`routing.py`), and the queue of a receive is not looked at: all of the topic are served
# (`receiving.py`). Python asks one random queue per call and would wait there in vain.

# Every client repeats an acknowledgement once a second for ever, unless it is told that it went
# well or that the handle is worth nothing. So a group that was deleted meanwhile makes its handles
# worthless (`receiving.ack_message`).

# Node takes no notice of how its telemetry stream ends: it opens another one each second, and
# `startup()` never returns. A command with nothing but a status makes it fail; so a refusal is
# written to the stream before the stream ends with it (`service.py`).
# Source: rocketmq-client-nodejs 1.0.8, src/client/BaseClient.ts, `onUnknownCommand`.

# Java writes its settings once it has opened its stream, and fails with "Stream is already
# completed" where that was refused meanwhile; nobody sees the reason. So a refusal for want of a
# right waits for the first command (`service.py`).
# Source: rocketmq-client-java 5.1.0, ClientSessionImpl.java, `onError`, `release`.

# Java's start asks for routes again where its settings were refused, at most three times, and then
# writes to the stream that has ended. So a route is refused as well, with the same reason
# (`routing.py`). Before 5.1.0 the reason is lost in any case, and the start ends after 8 s with
# "Task was cancelled"; Python's push consumer ends after 10 s with an AttributeError. Those are let
# start: they log the reason, with which each of their receives is refused (`telemetry.settle`).
# Source: rocketmq-client-java 5.0.8 and 5.1.0, ClientSessionImpl.java, `onError`; ClientImpl.java,
# `startUp`; rocketmq-python-client 5.1.2.
JAVA_TELLS_REFUSALS_SINCE: Version = (5, 1, 0)

# Node takes the listeners off its stream before it reconnects as it is told to; the next error of
# that stream, such as the server's end, then ends the client's whole process. It reconnects by
# itself, so it is not told. Source: rocketmq-client-nodejs 1.0.8, src/client/TelemetrySession.ts,
# `refresh`, `release`.
BREAKS_AS_IT_RECONNECTS = frozenset({ClientLanguage.NODE_JS})

# Node does not process a message that it is asked to: it sends the command itself back, with the
# status NOT_IMPLEMENTED. That is its answer. (To a question for its threads it answers with the
# words "mock stack"; Python's client answers neither question.)
# Source: rocketmq-client-nodejs 1.0.8, src/client/BaseClient.ts, `onVerifyMessageCommand`.
VERIFY_DECLINED = "verify_message_command"

# Node's channel receives messages of at most 4 MiB, which leaves no room for properties beside a
# body of that size. So its producers are told a little less than the engine takes.
HEADROOM_BYTES = 64 * 1024


def language_of(text: str) -> ClientLanguage:
    """The language that a client names in the header of a call."""
    name = text.upper()
    language = OWN_NAMES.get(name) or ClientLanguage.__members__.get(name)
    return language or ClientLanguage.LANGUAGE_UNSPECIFIED


def known_types(
    types: tuple[MessageType, ...], language: ClientLanguage, version: str
) -> tuple[MessageType, ...]:
    """Those of `types` that a client can parse; without PRIORITY if uncertain."""
    since = PRIORITY_SINCE.get(language)
    if language in KEEP_ANY_TYPE or (since is not None and is_since(version, since)):
        return types
    return tuple(each for each in types if each is not MessageType.PRIORITY)


def known_code(code: Code, language: ClientLanguage, version: str) -> Code:
    """`code`, or BAD_REQUEST for a client that is known to be older than this code."""
    since = JAVA_CODES_SINCE.get(code)
    if since is None or language is not ClientLanguage.JAVA or not version:
        return code
    return code if is_since(version, since) else Code.BAD_REQUEST


def is_since(version: str, since: Version) -> bool:
    """Whether a version, such as "5.2.1+0123abcd", is not before `since`.

    "5.2.0-SNAPSHOT" and "5.2.0-rc1" are before 5.2.0; what is no version is before everything.
    """
    match = re.match(r"(\d{1,9}(?:\.\d{1,9}){0,3})(-?)", version, re.ASCII)
    if match is None:
        return False
    numbers = tuple(int(number) for number in match[1].split("."))
    padded = numbers + (0,) * (len(since) - len(numbers))
    return padded > since if match[2] else padded >= since


def tells_refusals(language: ClientLanguage, version: str) -> bool:
    """Whether a client that starts tells its program why its settings were refused."""
    if language is ClientLanguage.JAVA:
        return is_since(version, JAVA_TELLS_REFUSALS_SINCE)
    return language is not ClientLanguage.PYTHON


def body_bytes_max(language: ClientLanguage) -> int:
    """The body limit in the answer to a producer's settings."""
    return BODY_BYTES_MAX - (HEADROOM_BYTES if language is ClientLanguage.NODE_JS else 0)


def poll_s(language: ClientLanguage, default_s: float) -> float:
    """The poll wait in the answer to a push consumer's settings, in seconds."""
    return min(default_s, SHORT_POLL_S) if language in WAITS_POLLS_OUT else default_s
