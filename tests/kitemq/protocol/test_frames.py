"""Frames survive the wire, and garbage raises only the protocol's own error."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitemq.protocol.batches import (
    AckFrame,
    DeliverFrame,
    ExtendFrame,
    NackFrame,
    ReleaseFrame,
    ResultFrame,
    SubscribedFrame,
)
from kitemq.protocol.calls import AnswerFrame, CallFrame
from kitemq.protocol.columns import ProtocolError
from kitemq.protocol.frames import (
    COUNT_MAX,
    HEADER,
    CreditFrame,
    ErrorFrame,
    Frame,
    HelloFrame,
    SubscribeFrame,
    UnsubscribeFrame,
    WelcomeFrame,
    encode,
)
from kitemq.protocol.sends import SendFrame, SentFrame, message_ids
from kitemq.protocol.stream import CLIENT_FRAMES, SERVER_FRAMES, UnreadableFrame, iter_frames

ALL_FRAMES = CLIENT_FRAMES | SERVER_FRAMES

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
u16 = st.integers(0, 2**16 - 1)
u32 = st.integers(0, 2**32 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
maps = st.dictionaries(texts, texts, max_size=3)
receipts = st.lists(st.tuples(texts, i64, i64, i64), max_size=5)


def column(values: st.SearchStrategy, count: int) -> st.SearchStrategy:
    """Each its own, or all the same: both written forms."""
    each = st.lists(values, min_size=count, max_size=count)
    return each | values.map(lambda value: [value] * count)


@st.composite
def times(draw: st.DrawFn, count: int) -> dict[str, list[int]]:
    """The two columns that may be missing; where every one is 0 they are."""
    columns = {name: draw(column(i64, count)) for name in ("delay_ms", "deliver_at_ms")}
    return columns if any(map(any, columns.values())) else {}


@st.composite
def sends(draw: st.DrawFn) -> SendFrame:
    count = draw(st.integers(0, 5))
    return SendFrame(
        topic=draw(texts),
        bodies=draw(column(st.binary(max_size=20), count)),
        tags=draw(column(texts, count)),
        keys=draw(column(texts, count)),
        groups=draw(column(texts, count)),
        properties=draw(column(maps, count)),
        delay_levels=draw(column(i64, count)),
        flags=draw(column(i64, count)),
        born_ms=draw(column(i64, count)),
        durability=draw(st.integers(0, 2)),
        queue=draw(st.integers(-1, 2**31 - 1)),
        id_prefix=draw(texts),
        id_first=draw(u32),
        **draw(st.just({}) | times(count)),
    )


@st.composite
def delivers(draw: st.DrawFn) -> DeliverFrame:
    held = draw(receipts)
    count = len(held)
    numbers = [draw(column(i64, count)) for _ in range(7)]
    blobs = [draw(column(st.binary(max_size=20), count)) for _ in range(2)]
    return DeliverFrame(held, *numbers, *blobs)


@st.composite
def nacks(draw: st.DrawFn) -> NackFrame:
    held = draw(receipts)
    count = len(held)
    return NackFrame(
        draw(texts),
        held,
        draw(column(i64, count)),
        draw(column(i64, count)),
        draw(column(texts, count)),
    )


@st.composite
def sents(draw: st.DrawFn) -> SentFrame:
    count = draw(st.integers(0, 5))
    numbers = [draw(column(i64, count)) for _ in range(3)]
    return SentFrame(draw(st.integers(0, 2)), *numbers, draw(column(texts, count)))


@st.composite
def results(draw: st.DrawFn) -> ResultFrame:
    count = draw(st.integers(0, 5))
    return ResultFrame(draw(column(st.integers(0, 2), count)), draw(column(i64, count)))


frames = st.one_of(
    st.builds(HelloFrame, texts, u16),
    st.builds(WelcomeFrame, texts, texts, u32, u32, u32, u16, u16),
    st.builds(SubscribeFrame, texts, maps, u32, u32),
    st.builds(CreditFrame, u32, u32),
    st.builds(UnsubscribeFrame, u32),
    st.builds(ErrorFrame, texts, texts, texts, texts, u32),
    st.builds(AckFrame, texts, receipts),
    st.builds(ReleaseFrame, texts, receipts),
    st.builds(ExtendFrame, texts, receipts, u32),
    st.builds(SubscribedFrame, receipts),
    st.builds(CallFrame, texts, texts, texts, st.binary(max_size=40)),
    st.builds(AnswerFrame, u16, texts, st.binary(max_size=40)),
    sends(),
    sents(),
    delivers(),
    nacks(),
    results(),
)


@given(st.lists(st.tuples(u32, frames), max_size=4))
def test_frames_in_one_message_come_back_as_they_were(sent: list[tuple[int, Frame]]) -> None:
    message = b"".join(encode(request, frame) for request, frame in sent)
    assert list(iter_frames(message, ALL_FRAMES)) == sent


@given(st.binary(max_size=200))
def test_garbage_raises_only_the_protocols_own_error(data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        list(iter_frames(data, ALL_FRAMES))


@settings(max_examples=400)
@given(st.sampled_from(sorted(ALL_FRAMES)), st.binary(max_size=120))
def test_a_garbage_payload_is_unreadable_or_a_frame(kind: int, payload: bytes) -> None:
    data = HEADER.pack(kind, 7, len(payload)) + payload
    ((request, frame),) = iter_frames(data, ALL_FRAMES)
    assert request == 7
    assert isinstance(frame, (UnreadableFrame, ALL_FRAMES[kind]))


@settings(max_examples=400)
@given(frames, st.data())
def test_a_frame_with_a_byte_changed_or_cut_raises_only_the_protocols_own_error(
    frame: Frame, data: st.DataObject
) -> None:
    whole = bytearray(encode(1, frame))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] = data.draw(st.integers(0, 255))
    cut = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    for broken in (bytes(whole), cut):
        with contextlib.suppress(ProtocolError):
            list(iter_frames(broken, ALL_FRAMES))


def test_a_frame_after_an_unreadable_one_is_still_read() -> None:
    message = HEADER.pack(CreditFrame.TYPE, 3, 2) + b"xx" + encode(4, UnsubscribeFrame(9))
    (_, broken), (request, frame) = iter_frames(message, CLIENT_FRAMES)
    assert isinstance(broken, UnreadableFrame)
    assert (request, frame) == (4, UnsubscribeFrame(9))


def test_a_server_frame_is_unreadable_for_a_server() -> None:
    ((_, frame),) = iter_frames(encode(1, ResultFrame([], [])), CLIENT_FRAMES)
    assert isinstance(frame, UnreadableFrame)


@pytest.mark.parametrize("count", [COUNT_MAX + 1, 2**32 - 1])
def test_a_small_frame_cannot_claim_many_entries(count: int) -> None:
    payload = count.to_bytes(4, "big") + bytes(6)
    data = HEADER.pack(ResultFrame.TYPE, 1, len(payload)) + payload
    ((_, frame),) = iter_frames(data, SERVER_FRAMES)
    assert isinstance(frame, UnreadableFrame)


@pytest.mark.parametrize(
    "frame",
    [
        CreditFrame(1, -1),
        CreditFrame(1, 2**32),
        HelloFrame("x" * 65536),
        HelloFrame("\ud800"),
        ExtendFrame("g", [], 2**32),
    ],
)
def test_values_that_do_not_fit_raise_before_anything_is_sent(frame: Frame) -> None:
    with pytest.raises(ProtocolError):
        encode(1, frame)


def test_the_wire_form_of_a_send_is_pinned() -> None:
    frame = SendFrame("t", [b"ab", b"c"], ["x", "x"], ["", "k"], [""] * 2, [{}, {}], [0, 0], [0, 0],
                 [5, 5], durability=1, id_prefix="P", id_first=1)  # fmt: skip
    assert encode(2, frame).hex(" ", 1).replace(" ", "") == (
        "02" "00000002" "00000035"  # SEND, request 2, 53 bytes
        "01" "ffffffff" "00000002" "00000001"  # stored, any queue, two messages, ids from 1
        "000174" "000150"  # topic, id prefix
        "01000178"  # tags: the same "x"
        "02" "0000" "0001" "6b"  # keys: each, "" and "k"
        "00" "00" "00" "00"  # no group, no properties, no delay, no flag
        "010000000000000005"  # born ms: the same
        "00000002" "00000001" "616263"  # bodies
    )  # fmt: skip


def test_a_send_with_times_is_pinned_and_longer_only_by_them() -> None:
    columns = (["x"], [""], [""], [{}], [0], [0], [0])
    plain = encode(2, SendFrame("t", [b"a"], *columns))
    assert encode(2, SendFrame("t", [b"a"], *columns, delay_ms=[0], deliver_at_ms=[0])) == plain
    timed = encode(2, SendFrame("t", [b"a"], *columns, delay_ms=[7], deliver_at_ms=[0]))
    size = int.from_bytes(plain[5:9], "big") + 10
    assert timed == plain[:5] + size.to_bytes(4, "big") + plain[9:] + bytes.fromhex(
        "01" "0000000000000007" "00"  # delay ms: the same 7; deliver at ms: every one is 0
    )  # fmt: skip
    ((_, back),) = iter_frames(timed, CLIENT_FRAMES)
    assert isinstance(back, SendFrame)
    assert (back.delay_ms, back.deliver_at_ms) == ([7], [0])


def test_the_wire_forms_of_a_call_and_its_answer_are_pinned() -> None:
    assert encode(2, CallFrame("PUT", "/a?b", "c/d", b"xy")).hex() == (
        "0a" "00000002" "00000012"  # CALL, request 2, 18 bytes
        "0003505554" "00042f613f62" "0003632f64" "7879"  # method, path, content type, body
    )  # fmt: skip
    assert encode(2, AnswerFrame(404, "c/d", b"xy")).hex() == (
        "47" "00000002" "00000009" "0194" "0003632f64" "7879"
    )  # fmt: skip


@given(st.integers(0, 2**32 - 1), st.integers(0, 5000))
def test_message_ids_count_up_in_hex(first: int, count: int) -> None:
    if first + count > 2**32:
        with pytest.raises(ProtocolError):
            message_ids("P", first, count)
    else:
        assert message_ids("P", first, count) == [f"P{first + i:08X}" for i in range(count)]


def test_without_a_prefix_the_server_chooses_ids() -> None:
    assert message_ids("", 7, 3) == ["", "", ""]
