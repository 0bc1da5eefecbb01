"""Known faults of official clients, and what we do so that unchanged they neither lose, spin nor
hang. Each stands here with its cause; nowhere else does the door ask which client it talks to.
"""

from protocol.rocketmq.numbers import Language

# Node takes the base of its waits from an exponential policy only; without one its telemetry
# handler throws (`getStrategyCase` of undefined) and `startup()` never returns.
# Source: rocketmq-client-nodejs 1.0.8, src/consumer/PushSubscriptionSettings.ts.
EXPONENTIAL_ONLY = frozenset({Language.NODE_JS})

# Python's push consumer reads a list of waits only; from any other policy it makes 17 attempts
# with one second between them. Source: rocketmq-python-client 5.1.2, v5/consumer/push_consumer.py.
LIST_ONLY = frozenset({Language.PYTHON})

# Node's push consumer does not end a long poll when it is shut down: it waits it out.
# Source: rocketmq-client-nodejs 1.0.8, src/consumer/PushConsumer.ts, `shutdown`.
WAITS_POLLS_OUT = frozenset({Language.NODE_JS})
SHORT_POLL_S = 5.0

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

# Node takes the listeners off its stream before it reconnects as it is told to; the next error of
# that stream, such as the server's end, then ends the client's whole process. It reconnects by
# itself, so it is not told. Source: rocketmq-client-nodejs 1.0.8, src/client/TelemetrySession.ts,
# `refresh`, `release`.
BREAKS_AS_IT_RECONNECTS = frozenset({Language.NODE_JS})

# Node does not process a message that it is asked to: it sends the command itself back, with the
# status NOT_IMPLEMENTED. That is its answer. (To a question for its threads it answers with the
# words "mock stack"; Python's client answers neither question.)
# Source: rocketmq-client-nodejs 1.0.8, src/client/BaseClient.ts, `onVerifyMessageCommand`.
VERIFY_DECLINED = "verify_message_command"

# Node's channel takes messages of at most 4 MiB, which leaves no room for properties beside a body
# of that size. Clients are told a little less than the engine takes.
HEADROOM_BYTES = 64 * 1024


def poll_s(language: Language, default_s: float) -> float:
    """How long a push consumer is told to let a poll wait."""
    return min(default_s, SHORT_POLL_S) if language in WAITS_POLLS_OUT else default_s
