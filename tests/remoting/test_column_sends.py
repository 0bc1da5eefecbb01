"""Sends of one read as columns and one by one: equal answers, records, counts."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.remoting import plain_sends
from app.remoting.column_sends import ColumnSends
from app.remoting.signature import RemotingSignatures
from engine.broker import TopicConfig, TopicType
from protocol.remoting.batches import BatchMessage, encode_batch
from protocol.remoting.codes import Flag, RequestCode, ResponseCode
from protocol.remoting.frames import Command, encode
from tests.engine.store.kernel.twins import TWINS, using
from tests.remoting.port import Client, Running, opened, sending

COUNT_MIN = 4  # sends of one read that travel as columns, with either twin of the kernel
ID = "7F0000010BE4C4A1C4A1{:012X}"
LONG_NAMES = {
    "a": "producerGroup", "b": "topic", "e": "queueId", "f": "sysFlag", "g": "bornTimestamp",
    "h": "flag", "i": "properties", "m": "batch",
}  # fmt: skip
TOPICS = ("orders", "orders", "orders", "one", "new")
ODD_TOPICS = ("fifo", "shut", "%RETRY%g", "", "a b", "\u00fc")
ODD_FIELDS: Sequence[tuple[str, Any]] = (
    ("f", 1), ("f", 4), ("f", "x"), ("g", ""), ("g", -5), ("g", 1 << 62), ("g", 1 << 80), ("h", -7),
    ("h", 1 << 40), ("h", "\u0663"), ("e", ""), ("e", 99), ("e", "01"), ("m", "true"), ("m", "x"),
    ("i", "half \ud83d"),
)  # fmt: skip
PLAIN_PROPERTIES = (
    "", "", "WAIT\x01true\x02", "TAGS\x01a\x02", "TAGS\x01b\x02WAIT\x01true\x02",
    "KEYS\x01k1 k2\x02", "colour\x01blue\x02", "\u00fc\x01n \u00df\x02n\x01v", "no value\x01\x02",
)  # fmt: skip
ODD_PROPERTIES = (
    "DELAY\x011\x02", "WAIT\x01false\x02", "TAGS\x01a|b\x02", "TAGS\x01\u00e9\x02",
    "KEYS\x01k1  k2\x02", "__SHARDINGKEY\x01g\x02", "UNIQ_KEY\x01twice\x02", "n\x01\0\x02",
    "TRAN_MSG\x01true\x02PGROUP\x01p\x02", "MSG_REGION\x01x\x02", " \x01blank\x02",
    "n\x01a\x01b\x02", "TAGS\x01c\x02TAGS\x01d\x02", "\u00a0\x01v\x02", "\x85\x01v\x02",
    "TIMER_DELAY_MS\x01900\x02", "DELAY\x01x\x02",
)  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def count_min() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_sends, "COLUMNS_COUNT_MIN", COUNT_MIN)
        yield


@st.composite
def properties(draw: st.DrawFn, number: int, *, is_odd: bool) -> str:
    """The properties of a message with an id of its own; odd ones may be special or in error."""
    text = draw(st.sampled_from(PLAIN_PROPERTIES))
    if is_odd:
        text += draw(st.sampled_from(("", *ODD_PROPERTIES)))
        ids = ("UNIQ_KEY\x01a-b\x02", f"UNIQ_KEY\x01{ID.format(number)}\x02")
        return text + draw(st.sampled_from(ids))
    return f"UNIQ_KEY\x01{ID.format(number)}\x02{text}"


@st.composite
def requests(draw: st.DrawFn, number: int) -> Command:
    """Mostly a plain send."""
    is_odd = draw(st.integers(0, 5)) == 0
    topic = draw(st.sampled_from((*TOPICS, *(ODD_TOPICS * is_odd))))
    queue = draw(st.sampled_from((0, 0, 1, 2, *((3, 99) * is_odd)))) if topic != "one" else 0
    if topic == "one" and is_odd:
        queue = draw(st.sampled_from((0, -1)))
    bodies = st.binary(min_size=0 if is_odd else 1, max_size=40)
    fields = sending(topic, queue=queue, g=draw(st.sampled_from((0, 5, 1_700_000_000_000))))
    fields["h"] = draw(st.sampled_from((0, 0, 0, 7)))
    if draw(st.integers(0, 4)) == 0:
        batch = [
            BatchMessage(flag, body, draw(properties(100 * number + index, is_odd=is_odd)))
            for index, (flag, body) in enumerate(
                draw(st.lists(st.tuples(st.sampled_from((0, 9)), bodies), max_size=5))
            )
        ]
        fields |= {"i": draw(st.sampled_from(("", "UNIQ_KEY\x01BATCH\x02"))), "m": "true"}
        code, body = RequestCode.SEND_BATCH_MESSAGE, encode_batch(batch)
        body = body[: len(body) - is_odd * draw(st.sampled_from((0, 0, 1)))]
    else:
        fields["i"] = draw(properties(number, is_odd=is_odd))
        code, body = RequestCode.SEND_MESSAGE_V2, draw(bodies)
    if is_odd and draw(st.booleans()):
        fields |= dict([draw(st.sampled_from(ODD_FIELDS))])
        # An id that the store makes says where a message lies, which is not the same on both roads.
        missing = draw(st.sampled_from(sorted({*fields, "none"} - {"i"})))
        fields.pop(missing, None)
    if code == RequestCode.SEND_MESSAGE_V2 and draw(st.integers(0, 5)) == 0:
        code = RequestCode.SEND_MESSAGE
        fields = {LONG_NAMES.get(name, name): value for name, value in fields.items()}
    flag = Flag.ONE_WAY if draw(st.integers(0, 9)) == 0 else 0
    texts = {name: str(value) for name, value in fields.items()}
    if is_odd and draw(st.booleans()):
        code, texts = RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": "0"}
    return Command(code, number, flag, texts, body, is_binary=is_odd and draw(st.booleans()))


@st.composite
def reads(draw: st.DrawFn) -> list[list[Command]]:
    """What comes in some reads of one connection."""
    counts = draw(st.lists(st.integers(1, 14), min_size=1, max_size=4))
    starts = [1 + sum(counts[:index]) for index in range(len(counts))]
    return [
        [draw(requests(start + number)) for number in range(count)]
        for start, count in zip(starts, counts, strict=True)
    ]


def frames_of(read: list[Command]) -> bytes:
    parts = []
    for command in read:
        try:
            parts.append(encode(command))
        except UnicodeEncodeError:  # half a character has no frame
            parts.append(encode(msgspec.structs.replace(command, fields={})))
    return b"".join(parts)


async def answers_to(client: Client, read: list[Command]) -> dict[int, Command]:
    """Send all at once; the answers by number."""
    client.writer.write(frames_of(read))
    numbers = [command.opaque for command in read if not command.is_one_way]
    return {number: await client.answer(number) for number in numbers}


def stored(running: Running) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """What all queues hold, but for what differs by itself."""
    broker, content = running.broker, {}
    for topic in broker.topics(system=True):
        for queue in range(max(topic.write_queues, topic.read_queues)):
            first, end = broker.queue_bounds(topic.name, queue)
            records = [
                msgspec.structs.asdict(broker.message(topic.name, queue, offset))
                for offset in range(first, end)
            ]
            for record in records:
                record["born_host"] = record["born_host"].partition(":")[0]
                del record["position"]
            content[topic.name, queue] = records
    return content


class Outcome(msgspec.Struct):
    """What one road did."""

    answers: list[dict[int, Command]]
    stored: dict[tuple[str, int], list[dict[str, Any]]]
    figures: dict[tuple[int, int], int]


async def run(data: Path, sent: list[list[Command]], occupied: int = 0, **changes: Any) -> Outcome:
    """Send all reads to a new server."""
    async with opened(data, **changes) as running:
        for config in (
            TopicConfig("orders", write_queues=3, read_queues=3),
            TopicConfig("one", write_queues=1, read_queues=1),
            TopicConfig("fifo", type=TopicType.FIFO),
            TopicConfig("shut", permission=4),
        ):
            running.broker.create_topic(config)
        client = await running.connect()
        limits = running.app.services.request_limits
        for _ in range(occupied):
            limits.enter("127.0.0.1")
        answers = []
        for read in sent:
            answered = await answers_to(client, read)
            for answer in answered.values():
                ids = filter(None, answer.fields.pop("msgId", "").split(","))
                found = [running.broker.message_at(int(each[-16:], 16)) for each in ids]
                answer.body = b"|".join([answer.body, *(each.body for each in found)])
            answers.append(answered)
        for _ in range(occupied):
            limits.leave("127.0.0.1")
        await client.ask(RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": "0"})
        assert (limits.requests, limits.budget.used_bytes) == (0, 0)
        figures = dict(running.app.services.remoting_figures.requests)
        return Outcome(answers, stored(running), figures)


@contextmanager
def counted() -> Iterator[list[int]]:
    """How many requests travelled as columns, each time."""
    counts: list[int] = []
    submit = ColumnSends.submit

    def count(sends: ColumnSends) -> None:
        counts.append(len(sends._run.frames))
        submit(sends)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ColumnSends, "submit", count)
        yield counts


@contextmanager
def one_by_one() -> Iterator[None]:
    """Let no send travel as columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RemotingSignatures, "anybody", None)
        yield


def send(number: int, *, queue: int = 0, topic: str = "orders", **more: Any) -> Command:
    fields = sending(topic, queue=queue, properties=f"UNIQ_KEY\x01{ID.format(number)}\x02") | more
    texts = {name: str(value) for name, value in fields.items()}
    return Command(RequestCode.SEND_MESSAGE_V2, number, 0, texts, b"%d" % number)


def both(folder: Path, sent: list[list[Command]], **changes: Any) -> tuple[Outcome, list[int]]:
    """What both roads did alike, and how many requests went as columns each time."""
    with counted() as counts:
        columns = asyncio.run(run(folder / "columns", sent, **changes))
    with one_by_one():
        single = asyncio.run(run(folder / "single", sent, **changes))
    assert columns.answers == single.answers
    assert columns.stored == single.stored
    assert columns.figures == single.figures
    return columns, counts


@settings(max_examples=20, deadline=None)
@given(sent=reads())
@pytest.mark.parametrize("name", sorted(TWINS))
def test_both_roads_store_and_answer_the_same(name: str, sent: list[list[Command]]) -> None:
    with TemporaryDirectory() as folder, using(name):
        both(Path(folder), sent)


def test_sends_to_each_queue_travel_together_in_order(tmp_path: Path) -> None:
    sent = [send(number, queue=number % 3, g=number) for number in range(1, 31)]
    outcome, counts = both(tmp_path, [sent])
    assert counts == [10, 10, 10]
    for queue in range(3):
        bodies = [record["body"] for record in outcome.stored["orders", queue]]
        assert bodies == [each.body for each in sent if int(each.fields["e"]) == queue]


def test_messages_with_different_properties_stay_in_order_within_a_queue(tmp_path: Path) -> None:
    def with_more(number: int) -> Command:
        more = ("", "colour\x01blue\x02", "TAGS\x01a\x02", "KEYS\x01k\x02", "DELAY\x010\x02")[
            number % 5
        ]
        return send(number, i=f"UNIQ_KEY\x01{ID.format(number)}\x02{more}", h=number % 2)

    sent = [with_more(number) for number in range(1, 31)]
    outcome, counts = both(tmp_path, [sent])
    assert counts == [3, 4, 4, 4, 4, 4, 1]
    bodies = [record["body"] for record in outcome.stored["orders", 0]]
    assert bodies == [each.body for each in sent]


def test_a_request_of_another_kind_stays_between_the_sends_around_it(tmp_path: Path) -> None:
    sent = [send(number) for number in range(1, 13)]
    for command in sent[2::4]:
        command.is_binary = True
    outcome, counts = both(tmp_path, [sent])
    assert counts == [2, 3, 3, 1]
    assert [record["body"] for record in outcome.stored["orders", 0]] == [
        each.body for each in sent
    ]


def test_a_batch_and_the_messages_around_it_stay_in_order(tmp_path: Path) -> None:
    properties = "UNIQ_KEY\x01{}\x02"
    batch = send(50, m="true", i="")
    batch.code = RequestCode.SEND_BATCH_MESSAGE
    batch.body = encode_batch(
        [BatchMessage(0, b"b%d" % each, properties.format(ID.format(each))) for each in range(3)]
    )
    sent = [*(send(number) for number in range(1, 6)), batch, send(60), send(61)]
    outcome, counts = both(tmp_path, [sent])
    assert counts == [5, 1, 2]
    assert [record["body"] for record in outcome.stored["orders", 0]] == [
        b"1", b"2", b"3", b"4", b"5", b"b0", b"b1", b"b2", b"60", b"61"
    ]  # fmt: skip


def test_few_sends_in_one_read_go_one_by_one(tmp_path: Path) -> None:
    _, counts = both(tmp_path, [[send(number) for number in range(COUNT_MIN - 1)]])
    assert counts == []


def test_sends_over_a_limit_are_refused_one_by_one(tmp_path: Path) -> None:
    sent = [send(number) for number in range(1, 11)]
    outcome, counts = both(tmp_path, [sent], occupied=34, client_requests_max=40)
    codes = [answer.code for answer in outcome.answers[0].values()]
    assert codes == [ResponseCode.SUCCESS] * 6 + [ResponseCode.SYSTEM_BUSY] * 4
    assert counts == [10]


def test_a_frame_that_is_none_leaves_the_sends_before_it(tmp_path: Path) -> None:
    async def sent() -> int:
        async with opened(tmp_path / "data") as running:
            client = await running.connect()
            client.writer.write(frames_of([send(number) for number in range(1, 9)]) + b"\xff" * 9)
            await client.is_closed()
            return running.broker.queue_bounds("orders", 0)[1]

    with counted() as counts:
        assert asyncio.run(sent()) == 8
    assert counts == [8]


@pytest.mark.parametrize("count", [1, 8])
def test_the_clock_of_a_client_that_sends_is_shown(tmp_path: Path, count: int) -> None:
    async def shown() -> tuple[str, str]:
        async with opened(tmp_path / "data") as running:
            client = await running.connect()
            await client.beat("10.0.0.9@7", producers=("payers",))
            born_ms = running.clock.now_ms() + 90_000
            await answers_to(client, [send(number, g=born_ms) for number in range(count)])
            pages = [await running.http.get(path) for path in ("/clients", "/clients/10.0.0.9@7")]
            return pages[0].text, pages[1].text

    with counted() as counts:
        of_all, of_one = asyncio.run(shown())
    assert counts == ([] if count == 1 else [count])
    assert "clock 90 s ahead" in of_all
    assert "clock 90 s ahead" in of_one


def test_messages_sent_as_columns_are_found_by_id_and_by_key(tmp_path: Path) -> None:
    async def sent() -> list[tuple[list[bytes], list[bytes]]]:
        async with opened(tmp_path / "data") as running:
            client = await running.connect()
            numbers = range(1, 9)
            texts = [
                f"KEYS\x01k{number} all\x02UNIQ_KEY\x01{ID.format(number)}\x02"
                for number in numbers
            ]
            read = [send(number, i=text) for number, text in zip(numbers, texts, strict=True)]
            await answers_to(client, read)
            by_id, by_key = running.broker.messages_by_id, running.broker.messages_by_key
            return [
                (
                    [each.body for each in by_id(ID.format(number))],
                    [each.body for each in by_key("orders", f"k{number}")],
                )
                for number in numbers
            ] + [([], [each.body for each in by_key("orders", "all")])]

    with counted() as counts:
        *each, (_, of_all) = asyncio.run(sent())
    assert counts == [8]
    assert each == [([b"%d" % number], [b"%d" % number]) for number in range(1, 9)]
    assert len(of_all) == 8
