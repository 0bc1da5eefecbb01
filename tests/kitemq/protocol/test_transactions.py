"""Frames of transactions are read as they were written; what does not fit is refused."""

import pytest

from kitemq.protocol import text
from kitemq.protocol.columns import ProtocolError
from kitemq.protocol.frames import Frame, encode
from kitemq.protocol.stream import CLIENT_FRAMES, SERVER_FRAMES, UnreadableFrame, iter_frames
from kitemq.protocol.transactions import (
    CheckFrame,
    ChecksUnwantedFrame,
    ChecksWantedFrame,
    DecidedFrame,
    DecideFrame,
)

CHECK = CheckFrame("ID", "g", 3, "t", 2, 5, 6, b"TAGS\x01a\x02", b"\xff")
CLIENT = [
    ChecksWantedFrame("g"),
    ChecksUnwantedFrame(7),
    DecideFrame("ID", 1),
    DecideFrame("ID", 2, "g", True),
]
SERVER = [CHECK, DecidedFrame("committed")]


@pytest.mark.parametrize("frame", [*CLIENT, *SERVER])
def test_a_frame_is_read_as_it_was_written(frame: Frame) -> None:
    kinds = CLIENT_FRAMES if frame in CLIENT else SERVER_FRAMES
    assert list(iter_frames(encode(9, frame), kinds)) == [(9, frame)]


@pytest.mark.parametrize("frame", [*CLIENT, *SERVER])
def test_a_frame_that_is_cut_short_is_unreadable(frame: Frame) -> None:
    payload = frame.payload()
    cut = 20 if isinstance(frame, CheckFrame) else len(payload) - 1
    with pytest.raises(ProtocolError):
        type(frame).parse(payload[:cut], 0)


def test_text_says_the_same() -> None:
    assert text.parse('{"op":"checks_wanted","id":4,"group":"g"}') == (4, ChecksWantedFrame("g"))
    assert text.parse('{"op":"checks_unwanted","wanted":4}') == (0, ChecksUnwantedFrame(4))
    asked = '{"op":"decide","id":5,"transaction_id":"ID","decision":"rollback"}'
    assert text.parse(asked) == (5, DecideFrame("ID", 2))
    assert isinstance(text.parse(asked.replace("rollback", "maybe"))[1], UnreadableFrame)
    shown = text.render(4, CHECK)
    assert '"op":"check","wanted":4' in shown
    assert '"properties":{"TAGS":"a"},"body":"/w==","encoding":"base64"' in shown
    assert (
        text.render(5, DecidedFrame("committed")) == '{"op":"decided","id":5,"state":"committed"}'
    )
