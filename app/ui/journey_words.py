"""What the stages of a journey are called, and what they say as sentences. Pure."""

from collections.abc import Mapping, Sequence

from engine.broker import GroupState, ReasonCode, Stage, StageName, StageOutcome

LABELS: Mapping[StageName, str] = {
    StageName.PRODUCE: "Produce",
    StageName.REFUSED: "Refused",
    StageName.DELAY: "Scheduled",
    StageName.TRANSACTION: "Transaction",
    StageName.CHECK: "Check",
    StageName.STORE: "Store",
    StageName.WAIT: "Wait",
    StageName.DELIVERY: "Attempt",
    StageName.RETRY_WAIT: "Retry wait",
    StageName.DEAD_LETTER: "Dead letter",
    StageName.REPLAY: "Replay",
    StageName.REQUEST: "Request",
    StageName.REPLY: "Reply",
    StageName.CLIENT_SEND: "Client: send",
    StageName.CLIENT_CONSUME: "Client: consume",
    StageName.CLIENT_TRANSACTION: "Client: transaction",
    StageName.CLIENT_RECALL: "Client: recall",
}
NUMBERED = frozenset({StageName.CHECK, StageName.DELIVERY, StageName.CLIENT_CONSUME})
# An outcome as it stands beside its bar, its mark, and its tone.
OUTCOMES: Mapping[StageOutcome, tuple[str, str, str]] = {
    StageOutcome.STORED: ("stored", "", "plain"),
    StageOutcome.REFUSED: ("refused", "✕", "bad"),
    StageOutcome.WAITING: ("goes on", "…", "open"),
    StageOutcome.RELEASED: ("released", "", "wait"),
    StageOutcome.RECALLED: ("recalled", "↩", "warn"),
    StageOutcome.RESCHEDULED: ("moved to another time", "↷", "wait"),
    StageOutcome.COMMITTED: ("committed", "✓", "ok"),
    StageOutcome.ROLLED_BACK: ("rolled back", "↩", "warn"),
    StageOutcome.GIVEN_UP: ("given up", "✕", "bad"),
    StageOutcome.ASKED: ("producer asked", "?", "plain"),
    StageOutcome.NOBODY_TO_ASK: ("nobody to ask", "!", "warn"),
    StageOutcome.DELIVERED: ("handed out", "", "wait"),
    StageOutcome.INFLIGHT: ("in flight", "…", "open"),
    StageOutcome.ACKED: ("done", "✓", "ok"),
    StageOutcome.FAILED: ("failed", "✕", "bad"),
    StageOutcome.EXPIRED: ("timed out", "✕", "bad"),
    StageOutcome.DEAD: ("given up", "✕", "bad"),
    StageOutcome.RETURNED: ("put back unused", "↩", "plain"),
    StageOutcome.PULLED: ("read", "✓", "plain"),
    StageOutcome.PASSED: ("passed", "→", "plain"),
    StageOutcome.REPLAYED: ("sent again", "↻", "replay"),
    StageOutcome.LEFT_OUT: ("not sent again", "!", "warn"),
    StageOutcome.REPLIED: ("replied", "✓", "ok"),
    StageOutcome.LATE: ("too late", "!", "warn"),
    StageOutcome.SUCCESS: ("success", "✓", "ok"),
    StageOutcome.UNKNOWN: ("end not recorded", "?", "plain"),
}
# A group's verdict and its tone.
VERDICTS: Mapping[GroupState, tuple[str, str]] = {
    GroupState.WAITING: ("not consumed yet", ""),
    GroupState.INFLIGHT: ("in flight", "warn"),
    GroupState.RETRY_WAITING: ("waiting for retry", "warn"),
    GroupState.DONE: ("done", "ok"),
    GroupState.DEAD: ("dead", "bad"),
    GroupState.PASSED: ("passed", ""),
    GroupState.PULLED: ("read", ""),
    GroupState.UNKNOWN: ("unknown", ""),
}
OPEN_STATES = frozenset({GroupState.WAITING, GroupState.INFLIGHT, GroupState.RETRY_WAITING})
FILTERED_OUT = "filtered out"
FAILED = frozenset({StageOutcome.FAILED, StageOutcome.EXPIRED, StageOutcome.DEAD})
QUESTIONS: Mapping[ReasonCode, str] = {
    ReasonCode.TRACING_OFF: "Is tracing off for the topic?",
    ReasonCode.SAMPLED_OUT: "Was it left out of the sample?",
    ReasonCode.RETENTION: "Is it older than what is kept?",
    ReasonCode.KIND_OF_ID: "Is it the wrong kind of id?",
    ReasonCode.NOT_INDEXED: "Is it not indexed yet?",
    ReasonCode.DROPPED: "Were trace events dropped?",
    ReasonCode.TOO_MUCH: "Is there more than is read?",
}


def span(length_ms: int) -> str:
    """A length of time to two places: 850 ms, 3.2 s, 2 min 5 s, 1 h 20 min, 3 d 4 h."""
    if length_ms < 1000:
        return f"{max(0, length_ms)} ms"
    if length_ms < 60_000:
        return f"{length_ms // 100 / 10:g} s"
    minutes, seconds = divmod(length_ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    pairs = ((days, "d", hours, "h"), (hours, "h", minutes, "min"), (minutes, "min", seconds, "s"))
    big, unit, small, part = next(pair for pair in pairs if pair[0])
    return f"{big} {unit} {small} {part}" if small else f"{big} {unit}"


def label(stage: Stage) -> str:
    """The name of a stage, with its number where it has one."""
    name = LABELS[stage.name]
    return f"{name} {stage.attempt}" if stage.name in NUMBERED and stage.attempt else name


def goes_on(stage: Stage) -> bool:
    """Whether it has begun and not ended."""
    is_open = stage.outcome in (StageOutcome.WAITING, StageOutcome.INFLIGHT)
    return is_open and stage.until_ms is None


def tone(stage: Stage) -> str:
    """The colour that a stage is drawn in."""
    if stage.name is StageName.DEAD_LETTER:
        return "bad"
    return OUTCOMES[stage.outcome][2]


def outcome(stage: Stage) -> str:
    """How it ended, in the table's words."""
    if stage.name is StageName.DEAD_LETTER:
        return "dead letter"
    if stage.outcome is StageOutcome.WAITING and stage.name is StageName.WAIT:
        return "not consumed yet"
    return OUTCOMES[stage.outcome][0]


def took(stage: Stage, now_ms: int) -> str:
    """Its length; empty for a moment."""
    if goes_on(stage):
        return f"{span(now_ms - stage.at_ms)} so far"
    if stage.until_ms is None or stage.until_ms == stage.at_ms:
        return "" if stage.name is not StageName.DELIVERY or stage.until_ms is None else "0 ms"
    return span(stage.until_ms - stage.at_ms)


def note(stage: Stage, now_ms: int) -> str:
    """What stands beside its bar: mark, outcome, length."""
    mark = "✕" if stage.name is StageName.DEAD_LETTER else OUTCOMES[stage.outcome][1]
    length = took(stage, now_ms)
    word = outcome(stage)
    if stage.outcome in (StageOutcome.DELIVERED, StageOutcome.RELEASED):
        word = ""
    if goes_on(stage):
        word = "" if stage.name in (StageName.WAIT, StageName.RETRY_WAIT) else word
    if stage.name is StageName.PRODUCE:
        word = "" if length else "sent"
    return " ".join(filter(None, (mark, word, length)))


def sentence(stage: Stage, now_ms: int) -> str:
    """What happened, as a person would tell it, without a full stop."""
    length = took(stage, now_ms) or "0 ms"
    told = TELLING.get(stage.name)
    text = told(stage, length) if told else f"{label(stage).lower()}: {outcome(stage)}"
    return text[:1].upper() + text[1:]


def _attempt(stage: Stage, length: str) -> str:
    by = f" on client {stage.client}" if stage.client else ""
    begun = f"attempt {stage.attempt or '(number not recorded)'}"
    ends = {
        StageOutcome.ACKED: f"{begun} was done after {length}{by}",
        StageOutcome.FAILED: f"{begun} failed after {length}{by}",
        StageOutcome.EXPIRED: f"{begun} timed out after {length}{by}: no answer came",
        StageOutcome.DEAD: f"{begun} failed after {length}{by} and was the last",
        StageOutcome.RETURNED: f"{begun} was put back unused after {length}{by}",
        StageOutcome.INFLIGHT: f"{begun} is under way{by}, {length}",
        StageOutcome.PULLED: f"was read{by} by a group that keeps its own place",
        StageOutcome.UNKNOWN: f"{begun} began{by}; how it ended is not recorded",
    }
    text = ends.get(stage.outcome, f"{begun}{by}: {outcome(stage)}")
    return f"{text}: {stage.detail}" if stage.detail else text


def _wait(stage: Stage, length: str) -> str:
    if stage.outcome is StageOutcome.WAITING:
        return f"has waited in the queue for {length.removesuffix(' so far')}, and nobody has it"
    if stage.outcome is StageOutcome.PASSED:
        return stage.detail or "the group is past it without a recorded hand-out"
    return f"waited {length} in the queue"


def _retry_wait(stage: Stage, length: str) -> str:
    before = f" before attempt {stage.attempt}" if stage.attempt else ""
    if goes_on(stage):
        return f"waits{before}, {length}"
    return f"waited {length}{before}"


def _dead_letter(stage: Stage, _: str) -> str:
    return f"became a dead letter: {stage.detail}" if stage.detail else "became a dead letter"


def _produced(stage: Stage, length: str) -> str:
    sender = f" by {stage.client}" if stage.client else ""
    if stage.until_ms is None:
        return f"was produced{sender}; the record that it was first stored as is gone"
    extra = f"; {stage.detail}" if stage.detail else ""
    return f"was produced{sender} and in the log {length} later{extra}"


def _stored(stage: Stage, _: str) -> str:
    return f"was stored in {stage.topic}, queue {stage.queue}, offset {stage.offset}"


def _refused(stage: Stage, _: str) -> str:
    return f"was refused by {stage.topic or 'the broker'}: {stage.detail}"


def _delay(stage: Stage, length: str) -> str:
    if goes_on(stage):
        return f"waits for its time, {length}"
    return f"waited {length} for its time and was {outcome(stage)}"


def _transaction(stage: Stage, length: str) -> str:
    if goes_on(stage):
        return f"its transaction is undecided, {length}"
    by = f" {stage.detail}" if stage.detail else ""
    return f"its transaction was {outcome(stage)}{by} after {length}"


def _check(stage: Stage, _: str) -> str:
    number = stage.attempt or ""
    if stage.outcome is StageOutcome.NOBODY_TO_ASK:
        return f"check {number} found no producer of {stage.group or 'the group'} to ask"
    return f"check {number} asked a producer what became of the transaction"


def _replay(stage: Stage, _: str) -> str:
    if stage.outcome is StageOutcome.LEFT_OUT:
        return f"replay job {stage.client} did not send it again: {stage.detail}"
    to = f" to {stage.topic}" if stage.topic else ""
    return f"replay job {stage.client} sent it again{to}, {stage.detail}".rstrip(", ")


def _request(stage: Stage, length: str) -> str:
    ends = {
        StageOutcome.REPLIED: f"client {stage.client} had its reply after {length}",
        StageOutcome.EXPIRED: f"client {stage.client} got no reply within {length}",
        StageOutcome.WAITING: f"client {stage.client} waits for a reply, {length}",
    }
    gone = f"client {stage.client} stopped waiting for a reply; when is not recorded"
    return ends.get(stage.outcome, gone)


def _reply(stage: Stage, _: str) -> str:
    late = ", after nobody waited any more" if stage.outcome is StageOutcome.LATE else ""
    return f"a reply came from {stage.client or 'a consumer'}{late}"


TELLING = {
    StageName.PRODUCE: _produced,
    StageName.REFUSED: _refused,
    StageName.DELAY: _delay,
    StageName.TRANSACTION: _transaction,
    StageName.CHECK: _check,
    StageName.STORE: _stored,
    StageName.WAIT: _wait,
    StageName.DELIVERY: _attempt,
    StageName.RETRY_WAIT: _retry_wait,
    StageName.DEAD_LETTER: _dead_letter,
    StageName.REPLAY: _replay,
    StageName.REQUEST: _request,
    StageName.REPLY: _reply,
}


def balance(stages: Sequence[Stage], now_ms: int) -> str:
    """Where a group's time went: in the queue, with clients, between attempts."""
    sums: dict[str, int] = {}
    names = {
        StageName.WAIT: "in the queue",
        StageName.DELIVERY: "with clients",
        StageName.RETRY_WAIT: "waiting for a retry",
    }
    for stage in stages:
        until_ms = now_ms if goes_on(stage) else stage.until_ms
        if stage.name in names and until_ms is not None:
            word = names[stage.name]
            sums[word] = sums.get(word, 0) + max(0, until_ms - stage.at_ms)
    return ", ".join(f"{span(length)} {word}" for word, length in sums.items())
