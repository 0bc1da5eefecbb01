"""Frames of transactions are read as they were written; what does not fit is refused."""

import pytest

from protocol import text
from protocol.columns import ProtocolError
from protocol.frames import Frame, encode
from protocol.stream import CLIENT_FRAMES, SERVER_FRAMES, Unreadable, iter_frames
from protocol.transactions import Check, ChecksUnwanted, ChecksWanted, Decide, Decided

CHECK = Check("ID", "g", 3, "t", 2, 5, 6, b"TAGS\x01a\x02", b"\xff")
CLIENT = [ChecksWanted("g"), ChecksUnwanted(7), Decide("ID", 1), Decide("ID", 2, "g", True)]
SERVER = [CHECK, Decided("committed")]


@pytest.mark.parametrize("frame", [*CLIENT, *SERVER])
def test_a_frame_is_read_as_it_was_written(frame: Frame) -> None:
    kinds = CLIENT_FRAMES if frame in CLIENT else SERVER_FRAMES
    assert list(iter_frames(encode(9, frame), kinds)) == [(9, frame)]


@pytest.mark.parametrize("frame", [*CLIENT, *SERVER])
def test_a_frame_that_is_cut_short_is_unreadable(frame: Frame) -> None:
    payload = frame.payload()
    cut = 20 if isinstance(frame, Check) else len(payload) - 1
    with pytest.raises(ProtocolError):
        type(frame).parse(payload[:cut], 0)


def test_text_says_the_same() -> None:
    assert text.parse('{"op":"checks_wanted","id":4,"group":"g"}') == (4, ChecksWanted("g"))
    assert text.parse('{"op":"checks_unwanted","wanted":4}') == (0, ChecksUnwanted(4))
    asked = '{"op":"decide","id":5,"transaction_id":"ID","decision":"rollback"}'
    assert text.parse(asked) == (5, Decide("ID", 2))
    assert isinstance(text.parse(asked.replace("rollback", "maybe"))[1], Unreadable)
    shown = text.render(4, CHECK)
    assert '"op":"check","wanted":4' in shown
    assert '"properties":{"TAGS":"a"},"body":"/w==","encoding":"base64"' in shown
    assert text.render(5, Decided("committed")) == '{"op":"decided","id":5,"state":"committed"}'
