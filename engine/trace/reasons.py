"""Checks each reason why a journey can be empty or lack deliveries."""

from typing import NamedTuple

from engine.message import StoredMessage
from engine.store.encode import ID_DIGITS, position_of_id
from engine.store.store import Store
from engine.topic.names import TRACE_TOPIC
from engine.trace.finder import JourneyEvidence
from engine.trace.journey import CheckedReason, ReasonCode
from engine.trace.origins import is_waiting
from engine.trace.recorder import Recorder
from engine.trace.sampling import TraceSampler

TRACE_QUEUE = 0


class Reasons(NamedTuple):
    """Checks them all; which of them apply is in the answer."""

    store: Store
    sampler: TraceSampler
    recorder: Recorder

    def check(self, message_id: str, evidence: JourneyEvidence) -> list[CheckedReason]:
        """For the message that was `asked` for."""
        if not evidence.records:
            found_nothing = [self._retention(message_id), _kind(message_id), self._not_indexed()]
            return [*found_nothing, self._tracing(), self._dropped()]
        home = next(
            (each for each in evidence.records if not is_waiting(each)), evidence.records[0]
        )
        checked = [
            self._off(home),
            self._sampled_out(home),
            self._retention_of_traces(home),
            self._dropped(),
        ]
        if not evidence.is_complete:
            detail = "more trace records speak of it than are read for one journey"
            checked.append(CheckedReason(ReasonCode.TOO_MUCH, True, detail))
        return checked

    def _retention(self, message_id: str) -> CheckedReason:
        oldest, written = self.store.oldest, self.store.written
        position = position_of_id(message_id)
        detail = f"the log has the positions {oldest} to {written}"
        if position is None:
            return CheckedReason(ReasonCode.RETENTION, False, f"the id names no position; {detail}")
        return CheckedReason(
            ReasonCode.RETENTION, position < oldest, f"the id names position {position}; {detail}"
        )

    def _not_indexed(self) -> CheckedReason:
        """Whether records wait for their flush: until then they cannot be read or found."""
        readable, written = self.store.readable, self.store.written
        detail = f"the log is indexed up to position {readable} of {written}"
        return CheckedReason(ReasonCode.NOT_INDEXED, readable < written, detail)

    def _tracing(self) -> CheckedReason:
        share = self.sampler.default
        detail = f"topics without a rate of their own are traced at {share:g}; refused sends too"
        return CheckedReason(ReasonCode.TRACING_OFF, share == 0, detail)

    def _off(self, record: StoredMessage) -> CheckedReason:
        share = self.sampler.rate(record.topic)
        detail = f"{record.topic} is traced at {share:g}"
        return CheckedReason(ReasonCode.TRACING_OFF, share == 0, detail)

    def _sampled_out(self, record: StoredMessage) -> CheckedReason:
        share = self.sampler.rate(record.topic)
        is_out = 0 < share < 1 and not self.sampler.is_sampled(record.topic, record.offset)
        detail = f"offset {record.offset} at a rate of {share:g}"
        return CheckedReason(ReasonCode.SAMPLED_OUT, is_out, detail)

    def _retention_of_traces(self, record: StoredMessage) -> CheckedReason:
        """Whether retention took trace records that are younger than the message."""
        first, end = self.store.bounds(TRACE_TOPIC, TRACE_QUEUE)
        entries = self.store.entries(TRACE_TOPIC, TRACE_QUEUE, first, 1) if end > first else []
        if not first:
            return CheckedReason(ReasonCode.RETENTION, False, "every trace record is kept")
        is_gone = not entries or entries[0].position > record.position
        detail = f"the {first} oldest trace records are gone"
        return CheckedReason(ReasonCode.RETENTION, is_gone, detail)

    def _dropped(self) -> CheckedReason:
        recorded = self.recorder.recorded()
        detail = f"{recorded.dropped} events were dropped since the start"
        if recorded.refusal:
            detail = f"{detail}, {recorded.waiting} wait: {recorded.refusal}"
        return CheckedReason(ReasonCode.DROPPED, recorded.dropped > 0, detail)


def _kind(message_id: str) -> CheckedReason:
    """What the id looks like, and what it is not."""
    position = position_of_id(message_id)
    is_hexadecimal = len(message_id) == ID_DIGITS and position is not None
    if is_hexadecimal:
        detail = "it has the form of a message id or an offset id, and nothing has it"
    else:
        detail = "it is not made by the broker: it was looked for among the ids of producers"
    hint = "a key is looked for by topic and key"
    return CheckedReason(ReasonCode.KIND_OF_ID, not is_hexadecimal, f"{detail}; {hint}")
