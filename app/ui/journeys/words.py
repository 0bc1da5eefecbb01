"""The words of a journey: names of stages, outcomes, and sentences. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from app.ui.framework.language import N_, _, ngettext, translated
from engine.broker import GroupState, ReasonCode, Stage, StageName, StageOutcome

LABELS: Mapping[StageName, str] = {
    StageName.PRODUCE: N_("Produce"),
    StageName.REFUSED: N_("Refused"),
    StageName.DELAY: N_("Scheduled"),
    StageName.TRANSACTION: N_("Transaction"),
    StageName.CHECK: N_("Check"),
    StageName.STORE: N_("Store"),
    StageName.WAIT: N_("Wait"),
    StageName.DELIVERY: N_("Attempt"),
    StageName.RETRY_WAIT: N_("Retry wait"),
    StageName.DEAD_LETTER: N_("Dead letter"),
    StageName.REPLAY: N_("Replay"),
    StageName.REQUEST: N_("Request"),
    StageName.REPLY: N_("Reply"),
    StageName.CLIENT_SEND: N_("Client: send"),
    StageName.CLIENT_CONSUME: N_("Client: consume"),
    StageName.CLIENT_TRANSACTION: N_("Client: transaction"),
    StageName.CLIENT_RECALL: N_("Client: recall"),
}
# Reasons that the engine writes as codes.
CODES: Mapping[str, str] = {"attempts_exhausted": N_("attempts exhausted")}
NUMBERED = frozenset({StageName.CHECK, StageName.DELIVERY, StageName.CLIENT_CONSUME})
# The text beside a bar, its mark and its tone, by outcome.
OUTCOMES: Mapping[StageOutcome, tuple[str, str, str]] = {
    StageOutcome.STORED: (N_("stored"), "", "plain"),
    StageOutcome.REFUSED: (N_("refused"), "✕", "bad"),
    StageOutcome.WAITING: (N_("in progress"), "…", "open"),
    StageOutcome.RELEASED: (N_("released"), "", "wait"),
    StageOutcome.RECALLED: (N_("recalled"), "↩", "warn"),
    StageOutcome.RESCHEDULED: (N_("rescheduled"), "↷", "wait"),
    StageOutcome.COMMITTED: (N_("committed"), "✓", "ok"),
    StageOutcome.ROLLED_BACK: (N_("rolled back"), "↩", "warn"),
    StageOutcome.GIVEN_UP: (N_("given up"), "✕", "bad"),
    StageOutcome.ASKED: (N_("producer checked"), "?", "plain"),
    StageOutcome.NOBODY_TO_ASK: (N_("no producer connected"), "!", "warn"),
    StageOutcome.DELIVERED: (N_("delivered"), "", "wait"),
    StageOutcome.INFLIGHT: (N_("in flight"), "…", "open"),
    StageOutcome.ACKED: (N_("done"), "✓", "ok"),
    StageOutcome.FAILED: (N_("failed"), "✕", "bad"),
    StageOutcome.EXPIRED: (N_("timed out"), "✕", "bad"),
    StageOutcome.DEAD: (N_("given up"), "✕", "bad"),
    StageOutcome.RETURNED: (N_("returned unused"), "↩", "plain"),
    StageOutcome.PULLED: (N_("read"), "✓", "plain"),
    StageOutcome.PASSED: (N_("read"), "→", "plain"),
    StageOutcome.REPLAYED: (N_("resent"), "↻", "replay"),
    StageOutcome.LEFT_OUT: (N_("not resent"), "!", "warn"),
    StageOutcome.REPLIED: (N_("replied"), "✓", "ok"),
    StageOutcome.LATE: (N_("too late"), "!", "warn"),
    StageOutcome.SUCCESS: (N_("success"), "✓", "ok"),
    StageOutcome.UNKNOWN: (N_("outcome not recorded"), "?", "plain"),
}
# A group's verdict and its tone.
VERDICTS: Mapping[GroupState, tuple[str, str]] = {
    GroupState.WAITING: (N_("not consumed yet"), ""),
    GroupState.INFLIGHT: (N_("in flight"), "warn"),
    GroupState.RETRY_WAITING: (N_("waiting for retry"), "warn"),
    GroupState.DONE: (N_("done"), "ok"),
    GroupState.DEAD: (N_("dead"), "bad"),
    GroupState.PASSED: (N_("read"), ""),
    GroupState.PULLED: (N_("read"), ""),
    GroupState.UNKNOWN: (N_("unknown"), ""),
}
OPEN_STATES = frozenset({GroupState.WAITING, GroupState.INFLIGHT, GroupState.RETRY_WAITING})
FILTERED_OUT = N_("filtered out")
FAILED = frozenset({StageOutcome.FAILED, StageOutcome.EXPIRED, StageOutcome.DEAD})
QUESTIONS: Mapping[ReasonCode, str] = {
    ReasonCode.TRACING_OFF: N_("Is tracing off for the topic?"),
    ReasonCode.SAMPLED_OUT: N_("Was it left out of the sample?"),
    ReasonCode.RETENTION: N_("Is it older than the retention time?"),
    ReasonCode.KIND_OF_ID: N_("Is the id of another kind?"),
    ReasonCode.NOT_INDEXED: N_("Is it not indexed yet?"),
    ReasonCode.DROPPED: N_("Were trace events dropped?"),
    ReasonCode.TOO_MUCH: N_("Are there more records than a journey reads?"),
    ReasonCode.NOT_TOLD: N_("Are deliveries not recorded?"),
    ReasonCode.UNREACHABLE: N_("Is a broker not reachable?"),
}


def span(length_ms: int) -> str:
    """A length of time in two units: 850 ms, 3.2 s, 2 min 5 s, 1 h 20 min, 3 d 4 h."""
    if length_ms < 1000:
        return _("%(n)s ms", n=max(0, length_ms))
    if length_ms < 60_000:
        return _("%(n)s s", n=f"{length_ms // 100 / 10:g}")
    minutes, seconds = divmod(length_ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    units = (days, "%(n)s d"), (hours, "%(n)s h"), (minutes, "%(n)s min"), (seconds, "%(n)s s")
    first = next(place for place, (n, __) in enumerate(units) if n)
    two = units[first : first + 2]
    return " ".join(translated(text) % {"n": n} for n, text in two if n)


def verdict(state: GroupState, *, is_filtered: bool) -> tuple[str, str]:
    """A group's verdict in words, and its tone.

    `is_filtered` if the filters of its members exclude the message.
    """
    text, colour = VERDICTS[state]
    if is_filtered and state is GroupState.PASSED:
        text = FILTERED_OUT
    return translated(text), colour


def label(stage: Stage) -> str:
    """The name of a stage, with its attempt number if it has one."""
    name = translated(LABELS[stage.name])
    return f"{name} {stage.attempt}" if stage.name in NUMBERED and stage.attempt else name


def goes_on(stage: Stage) -> bool:
    """Whether a stage has begun and not ended."""
    is_open = stage.outcome in (StageOutcome.WAITING, StageOutcome.INFLIGHT)
    return is_open and stage.until_ms is None


def end_ms(stage: Stage, now_ms: int) -> int:
    """The end of a stage: now while it goes on, its beginning if its end is unknown."""
    until_ms = now_ms if goes_on(stage) else stage.until_ms
    return stage.at_ms if until_ms is None else max(stage.at_ms, until_ms)


def tone(stage: Stage) -> str:
    """The colour of a stage."""
    if stage.name is StageName.DEAD_LETTER:
        return "bad"
    return OUTCOMES[stage.outcome][2]


def outcome(stage: Stage) -> str:
    """The outcome of a stage in words."""
    if stage.name is StageName.DEAD_LETTER:
        return _("dead letter")
    if stage.outcome is StageOutcome.WAITING and stage.name is StageName.WAIT:
        return _("not consumed yet")
    return translated(OUTCOMES[stage.outcome][0])


def detail(stage: Stage) -> str:
    """The cause that a stage has kept, with its code in words."""
    code, colon, error = stage.detail.partition(":")
    return translated(CODES[code]) + colon + error if code in CODES else stage.detail


def took(stage: Stage, now_ms: int) -> str:
    """The length of a stage in words; "" for a moment."""
    if goes_on(stage):
        return _("%(span)s so far", span=span(now_ms - stage.at_ms))
    if stage.until_ms is None or stage.until_ms == stage.at_ms:
        return "" if stage.name is not StageName.DELIVERY or stage.until_ms is None else span(0)
    return span(stage.until_ms - stage.at_ms)


def note(stage: Stage, now_ms: int) -> str:
    """The text beside a bar: mark, outcome, length."""
    mark = "✕" if stage.name is StageName.DEAD_LETTER else OUTCOMES[stage.outcome][1]
    length = took(stage, now_ms)
    word = outcome(stage)
    if stage.outcome in (StageOutcome.DELIVERED, StageOutcome.RELEASED):
        word = ""
    if goes_on(stage):
        word = "" if stage.name in (StageName.WAIT, StageName.RETRY_WAIT) else word
    if stage.name is StageName.PRODUCE:
        word = "" if length else _("sent")
    return " ".join(filter(None, (mark, word, length)))


# How an attempt and a request ended.
ATTEMPTS: Mapping[StageOutcome, str] = {
    StageOutcome.ACKED: N_("%(begun)s succeeded after %(length)s%(by)s"),
    StageOutcome.FAILED: N_("%(begun)s failed after %(length)s%(by)s"),
    StageOutcome.EXPIRED: N_("%(begun)s timed out after %(length)s%(by)s without an answer"),
    StageOutcome.DEAD: N_("%(begun)s, the last, failed after %(length)s%(by)s"),
    StageOutcome.RETURNED: N_("%(begun)s was returned unused after %(length)s%(by)s"),
    StageOutcome.INFLIGHT: N_("%(begun)s in progress%(by)s for %(length)s"),
    StageOutcome.PULLED: N_("read%(by)s by a group that tracks its own offsets"),
    StageOutcome.UNKNOWN: N_("%(begun)s started%(by)s; outcome not recorded"),
}
REQUESTS: Mapping[StageOutcome, str] = {
    StageOutcome.REPLIED: N_("client %(client)s received its reply after %(length)s"),
    StageOutcome.EXPIRED: N_("client %(client)s received no reply within %(length)s"),
    StageOutcome.WAITING: N_("client %(client)s waiting for a reply for %(length)s"),
}
NO_LONGER_WAITING = N_("client %(client)s stopped waiting for a reply; time not recorded")

Values = Mapping[str, Any]  # the fields of a stage, its length and its outcome in words


def sentence(stage: Stage, now_ms: int) -> str:
    """A stage as a sentence without a full stop."""
    phrase = PHRASES.get(stage.name)
    text = f"{label(stage).lower()}: {outcome(stage)}"
    if phrase:
        length = took(stage, now_ms) or span(0)
        values = msgspec.structs.asdict(stage) | {"length": length, "outcome": outcome(stage)}
        text = phrase(stage, values)
    return text[:1].upper() + text[1:]


def _attempt(stage: Stage, values: Values) -> str:
    by = _(" on client %(client)s", **values) if stage.client else ""
    begun = _("attempt %(number)s", number=stage.attempt or _("(number not recorded)"))
    text = f"{begun}{by}: {outcome(stage)}"
    if stage.outcome in ATTEMPTS:
        text = _(ATTEMPTS[stage.outcome], **values, begun=begun, by=by)
    return f"{text}: {detail(stage)}" if stage.detail else text


def _wait(stage: Stage, values: Values) -> str:
    if stage.outcome is StageOutcome.WAITING:
        length = values["length"].removesuffix(_("%(span)s so far", span=""))
        return _("in the queue for %(length)s, not delivered yet", length=length)
    if stage.outcome is StageOutcome.PASSED:
        return stage.detail or _("the group's offset is past it without a recorded delivery")
    return _("in the queue for %(length)s", **values)


def _retry_wait(stage: Stage, values: Values) -> str:
    before = _(" before attempt %(attempt)s", **values) if stage.attempt else ""
    if goes_on(stage):
        return f"waits{before}, {values['length']}"
    return _("waited %(length)s%(before)s", **values, before=before)


def _dead_letter(stage: Stage, values: Values) -> str:
    if not stage.detail:
        return _("moved to dead letters")
    return _("moved to dead letters: %(detail)s", detail=detail(stage))


def _produced(stage: Stage, values: Values) -> str:
    sender = _(" by %(client)s", **values) if stage.client else ""
    if stage.until_ms is None:
        return _("produced%(sender)s; the original record has expired", sender=sender)
    extra = f"; {stage.detail}" if stage.detail else ""
    return _(
        "produced%(sender)s and stored %(length)s later%(extra)s",
        **values,
        sender=sender,
        extra=extra,
    )


def _stored(stage: Stage, values: Values) -> str:
    return _("stored in %(topic)s, queue %(queue)s, offset %(offset)s", **values)


def _refused(stage: Stage, values: Values) -> str:
    broker = stage.topic or "the broker"
    return _("refused by %(broker)s: %(detail)s", **values, broker=broker)


def _delay(stage: Stage, values: Values) -> str:
    if goes_on(stage):
        return _("scheduled, waiting for %(length)s", **values)
    return _("waited %(length)s for its due time, then %(outcome)s", **values)


def _transaction(stage: Stage, values: Values) -> str:
    if goes_on(stage):
        return _("transaction undecided for %(length)s", **values)
    by = f" {stage.detail}" if stage.detail else ""
    return _("transaction %(outcome)s%(by)s after %(length)s", **values, by=by)


def _check(stage: Stage, __: Values) -> str:
    number = stage.attempt or ""
    if stage.outcome is StageOutcome.NOBODY_TO_ASK:
        group = stage.group or "the group"
        return _("check %(number)s: no producer of %(group)s connected", number=number, group=group)
    return _("check %(number)s: producer asked for the transaction state", number=number)


def _replay(stage: Stage, values: Values) -> str:
    if stage.outcome is StageOutcome.LEFT_OUT:
        return _("replay job %(client)s did not resend it: %(detail)s", **values)
    to = _(" to %(topic)s", **values) if stage.topic else ""
    text = _("replay job %(client)s resent it%(to)s, %(detail)s", **values, to=to)
    return text.rstrip(", ")


def _request(stage: Stage, values: Values) -> str:
    return _(REQUESTS.get(stage.outcome, NO_LONGER_WAITING), **values)


def _reply(stage: Stage, __: Values) -> str:
    late = _(", after the request timed out") if stage.outcome is StageOutcome.LATE else ""
    consumer = stage.client or "a consumer"
    return _("reply from %(consumer)s%(late)s", consumer=consumer, late=late)


PHRASES = {
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
    """A sentence on the time in the queue, with clients, and between attempts."""
    sums: dict[str, int] = {}
    names = {
        StageName.WAIT: _("in the queue"),
        StageName.DELIVERY: _("processing"),
        StageName.RETRY_WAIT: _("waiting for a retry"),
    }
    for stage in stages:
        until_ms = now_ms if goes_on(stage) else stage.until_ms
        if stage.name in names and until_ms is not None:
            word = names[stage.name]
            sums[word] = sums.get(word, 0) + max(0, until_ms - stage.at_ms)
    return ", ".join(f"{span(length)} {word}" for word, length in sums.items())


def hops(stages: Sequence[Stage]) -> str:
    """The end of a sentence on what followed the deliveries; "" for nothing."""
    dead = sum(each.name is StageName.DEAD_LETTER for each in stages)
    replayed = sum(each.outcome is StageOutcome.REPLAYED for each in stages)
    parts = []
    if dead:
        parts.append(
            _("moved to dead letters")
            if dead == 1
            else _("moved to dead letters %(n)s times", n=dead)
        )
    if replayed:
        parts.append(ngettext("resent once", "resent %(num)s times", replayed))
    return _("; %(parts)s", parts=_(" and ").join(parts)) if parts else ""
