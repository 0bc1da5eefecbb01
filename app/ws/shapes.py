"""Between the engine's values and the columns of frames; no message costs a call of its own."""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import repeat
from operator import attrgetter

from app.send_batcher import BatchSlice
from engine.broker import AckResult, Nack, Receipt
from engine.errors import Busy, EngineError, Invalid
from engine.message import Durability, Message
from engine.message_columns import ColumnsResult
from kitemq.protocol import batches, frames, sends
from kitemq.protocol.columns import ProtocolError

DURABILITIES = {
    sends.DurabilityCode.DEFAULT: None,
    sends.DurabilityCode.STORED: Durability.STORED,
    sends.DurabilityCode.FLUSHED: Durability.FLUSHED,
    sends.DurabilityCode.REPLICATED: Durability.REPLICATED,
}
DURABILITY_CODES = {
    Durability.STORED: sends.DurabilityCode.STORED,
    Durability.FLUSHED: sends.DurabilityCode.FLUSHED,
    Durability.REPLICATED: sends.DurabilityCode.REPLICATED,
}
RESULT_CODES = {
    AckResult.DONE: batches.ResultCode.DONE,
    AckResult.ALREADY: batches.ResultCode.ALREADY,
    AckResult.STALE: batches.ResultCode.STALE,
}
_queue, _message_id = attrgetter("queue"), attrgetter("message_id")
_receipt = partial(tuple.__new__, Receipt)


def build_messages(frame: sends.SendFrame, remote: str, now_ms: int) -> list[Message]:
    """The messages of a SEND; what they say is checked by the engine. None costs a call here.

    `now_ms` is what relative delays are counted from.
    """
    try:
        ids = frame.message_ids()
    except ProtocolError as error:
        raise Invalid(str(error), field="id_first") from None
    _check_width(frame.flags, 31, "flag")
    _check_width(frame.born_ms, 63, "born_ms")
    deliver_at_ms = _times(frame, now_ms)
    return list(
        map(
            Message,
            repeat(frame.topic),
            frame.bodies,
            frame.tags,
            _keys(frame.keys),
            frame.properties,
            frame.groups,
            ids,
            repeat(frame.queue),
            frame.delay_levels,
            frame.flags,
            repeat(0),
            repeat(1),
            frame.born_ms,
            repeat(remote),
            deliver_at_ms,
        )
    )


def _times(frame: sends.SendFrame, now_ms: int) -> Iterable[int]:
    """The due time of each message: 0 for at once, or if a delay level gives it."""
    if not any(frame.delay_ms) and not any(frame.deliver_at_ms):
        return repeat(0)
    times = []
    none = [0] * len(frame.delay_levels)  # a column without numbers may be left out
    rows = zip(frame.delay_levels, frame.delay_ms or none, frame.deliver_at_ms or none, strict=True)
    for index, (level, delay_ms, deliver_at_ms) in enumerate(rows):
        for field, value in (("delay_ms", delay_ms), ("deliver_at_ms", deliver_at_ms)):
            if value < 0:
                raise Invalid(
                    f"{field} is {value}",
                    field=f"messages[{index}].{field}",
                    remedy="give 0 or more milliseconds",
                )
        if sum(map(bool, (level, delay_ms, deliver_at_ms))) > 1:
            raise Invalid(
                "more than one delay is given",
                field=f"messages[{index}].delay_ms",
                remedy="give one of delay_level, delay_ms and deliver_at_ms",
            )
        times.append(now_ms + delay_ms if delay_ms else deliver_at_ms)
    return times


def _check_width(values: list[int], bits: int, field: str) -> None:
    """Refuse numbers that the record of the log has no room for."""
    if any(values) and not -(1 << bits) <= min(values) <= max(values) < 1 << bits:
        index = next(i for i, value in enumerate(values) if not -(1 << bits) <= value < 1 << bits)
        raise Invalid(
            f"{values[index]} does not fit into {bits + 1} bits",
            field=f"messages[{index}].{field}",
            remedy="give a smaller number",
        )


def receipts_of(wire: Iterable[batches.Receipt]) -> list[Receipt]:
    """The engine's receipts of those of a frame."""
    return list(map(_receipt, wire))


def nacks_of(frame: batches.NackFrame) -> list[Nack]:
    """Convert a client's NACKs to the engine's form."""
    rows = zip(
        receipts_of(frame.receipts), frame.delay_ms, frame.delay_levels, frame.errors, strict=True
    )
    return [
        Nack(receipt, ms / 1000 if ms >= 0 else None, _level(level), error)
        for receipt, ms, level, error in rows
    ]


def _level(level: int) -> int | None:
    if level == batches.TO_DEAD_LETTERS:
        return -1
    return level if level >= 0 else None


def sent_frame(part: BatchSlice | ColumnsResult, *, with_ids: bool) -> sends.SentFrame:
    """The answer to a SEND; its ids only where the client does not know them."""
    if isinstance(part, ColumnsResult):
        count = len(part.offsets)
        return sends.SentFrame(
            DURABILITY_CODES[part.durability],
            [part.queue] * count,
            list(part.offsets),
            part.positions,
            part.message_ids() if with_ids else [""] * count,
        )
    return sends.SentFrame(
        DURABILITY_CODES[part.durability],
        list(map(_queue, part.messages)),
        part.offsets,
        part.positions,
        list(map(_message_id, part.messages)) if with_ids else [""] * len(part.offsets),
    )


def result_frame(results: Sequence[AckResult]) -> batches.ResultFrame:
    """The answer to receipts that were settled."""
    return batches.ResultFrame(list(map(RESULT_CODES.__getitem__, results)), [0] * len(results))


def error_frame(error: EngineError) -> frames.ErrorFrame:
    """The answer to a request that was turned down."""
    retry_after_ms = round(error.retry_after_s * 1000) if isinstance(error, Busy) else 0
    return frames.ErrorFrame(error.code, error.detail, error.field, error.remedy, retry_after_ms)


def _keys(texts: list[str]) -> Iterable[tuple[str, ...]]:
    if any(texts):
        return [tuple(keys.split()) for keys in texts]
    return repeat(())
