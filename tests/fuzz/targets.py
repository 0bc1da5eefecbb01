"""What is fuzzed: one function for each decoder of bytes or text that others write.

A target takes any bytes. It lets those errors pass that its decoder promises, and nothing else; and
it asserts what holds for what was read: mostly that writing and reading it again changes nothing.
`tests.fuzz.seeds` has one good input or more for each.
"""

import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import msgspec

from app.api.messages.receive import _receipt as rest_receipt
from app.errors import ProblemError
from app.grpc.call import client_of
from app.grpc.codes import GrpcRefusal
from app.grpc.shapes import receipt_of
from app.grpc.signature import GrpcSignatures
from app.security.hosts import check_host, host_name
from app.security.origins import check_origin
from app.services import topic_files
from app.ui.bodies import avro, bodies
from app.ui.bodies.trees import NotDecodable
from app.ws import shapes as socket_shapes
from engine.clock import ManualClock
from engine.compression import plain_body
from engine.delivery.filter import parse_filter
from engine.errors import Corrupt, EngineError, Invalid
from engine.handover.tables import DELAYS, GROUPS, OFFSETS, TOPICS
from engine.message import BODY_BYTES_MAX, Message, StoredMessage, join_properties, split_properties
from engine.statistics import lag_block
from engine.statistics.lag_files import OPEN_NAME, LagFiles
from engine.store.decoding import decode, decode_run
from engine.store.encode import Encoder, is_own_id, position_of_id
from engine.store.files import write_atomic
from engine.store.record import stored_ms_in, times_in
from engine.store.recovery import LogScan
from engine.trace import client_traces
from engine.trace import record as trace_record
from kitemq.protocol import batches, frames, properties, sends, stream, text, transactions
from kitemq.protocol.columns import ProtocolError
from protocol.remoting import frames as remoting
from protocol.remoting.batches import BatchError, decode_batch, encode_batch
from tests.fuzz.seeds import DATA, disk_files, disk_of, lag_file_name
from tests.simulation.boot import boot

Target = Callable[[bytes], None]
# Frames of the server whose values clients can choose; codes and documents are its own.
RENDERED = (
    batches.DeliverFrame,
    batches.SubscribedFrame,
    frames.ErrorFrame,
    frames.WelcomeFrame,
    transactions.CheckFrame,
)
MESSAGES = (
    {},
    {"a": "1", "b": "x", "TAGS": "paid"},
    {"a": "-7.5e3", "b": "", "c": "TRUE", "TAGS": "新"},
)
NOW_MS = 1_700_000_000_000


# -- what clients send -----------------------------------------------------------------------------


def avro_containers(data: bytes) -> None:
    """Container files are read within bounds, and can be shown; the rest is refused in words."""
    for body in (data, avro.MAGIC + data):
        with suppress(NotDecodable):
            document, is_cut = avro.decode(body)
            assert is_cut or len(document["records"]) < 10_000
        bodies.decode(body).text.encode()


def binary_frames(data: bytes) -> None:
    """Frames of both directions: read, written, read again; clients' ones also become messages."""
    for kinds in (stream.CLIENT_FRAMES, stream.SERVER_FRAMES):
        try:
            found = list(stream.iter_frames(data, kinds))
        except ProtocolError:
            continue
        for request, frame in found:
            if isinstance(frame, stream.UnreadableFrame):
                continue
            _survives(request, frame, kinds)
            if kinds is stream.CLIENT_FRAMES:
                _becomes_ours(frame)
            elif isinstance(frame, RENDERED):
                msgspec.json.decode(text.render(request, frame))


def remoting_frames(data: bytes) -> None:
    """Frames of classic clients: read whole or in pieces alike, written, read again."""
    reader = remoting.FrameReader(frame_bytes_max=1 << 20)
    found: list[remoting.Command] = []
    try:
        for start in range(0, len(data), 7):
            reader.add(data[start : start + 7])
            found += reader.frames()
        assert reader.pending_bytes <= len(data)
    except remoting.FrameError:
        pass
    for command in found:
        with suppress(UnicodeEncodeError):
            _survives_remoting(command)
        with suppress(BatchError):
            batch = decode_batch(command.body, count_max=100)
            assert decode_batch(encode_batch(batch), count_max=100) == batch
    with suppress(BatchError):
        decode_batch(data, count_max=100)


def _survives_remoting(command: remoting.Command) -> None:
    """Written and read again it is the same; a language that is not known becomes OTHER."""
    again = remoting.decode(remoting.encode(command)[4:])
    assert (again.code, again.opaque, again.flag) == (command.code, command.opaque, command.flag)
    assert (again.fields, again.body) == (command.fields, command.body)


def text_frames(data: bytes) -> None:
    """The same requests as JSON; what cannot be read is an `Unreadable`, never an exception."""
    request, frame = text.parse(data.decode("utf-8", "replace"))
    if not isinstance(frame, stream.UnreadableFrame):
        _survives(request & 0xFFFFFFFF, frame, stream.CLIENT_FRAMES)
        _becomes_ours(frame)


def _survives(request: int, frame: frames.Frame, kinds: dict[int, type[frames.Frame]]) -> None:
    """What was read can be written, and is the same when it is read again."""
    try:
        written = frames.encode(request, frame)
    except ProtocolError:  # JSON has numbers that no column has room for
        return
    ((again, same),) = stream.iter_frames(written, kinds)
    assert again == request
    if isinstance(frame, sends.SendFrame) and isinstance(same, sends.SendFrame):
        frame, same = _with_times(frame), _with_times(same)
    assert same == frame, (frame, same)


def _with_times(frame: sends.SendFrame) -> sends.SendFrame:
    """A SEND may leave out columns of times in which every one is 0."""
    zeros = [0] * len(frame.bodies)
    return msgspec.structs.replace(
        frame,
        delay_ms=frame.delay_ms or zeros,
        deliver_at_ms=frame.deliver_at_ms or zeros,
    )


def _becomes_ours(frame: frames.Frame) -> None:
    """The door's next step: values of the engine, or an EngineError that names the field."""
    try:
        if isinstance(frame, sends.SendFrame):
            socket_shapes.build_messages(frame, "127.0.0.1:1", NOW_MS)
        elif isinstance(frame, batches.NackFrame):
            socket_shapes.nacks_of(frame)
        elif isinstance(frame, batches.SettlingFrame | batches.ExtendFrame):
            socket_shapes.receipts_of(frame.receipts)
    except EngineError:
        return


def receipts(data: bytes) -> None:
    """A receipt as each door reads it: the same for all, or refused by all."""
    given = data.decode("utf-8", "replace")
    try:
        found = text.parse_receipt(given)
    except ProtocolError:
        found = None
    if found is not None:
        assert text.parse_receipt(text.receipt_text(found)) == found
    try:
        assert tuple(rest_receipt("receipt", given)) == found
    except Invalid:
        assert found is None
    try:
        assert tuple(receipt_of(given)) == found
    except GrpcRefusal:
        assert found is None


def filters(data: bytes) -> None:
    """Tag expressions and SQL92: Invalid, or a filter that answers for every message."""
    given = data.decode("utf-8", "replace")
    for expression in (given, f"SQL92:{given}"):
        try:
            found = parse_filter(expression)
        except Invalid:
            continue
        for each in MESSAGES:
            message = SimpleNamespace(properties=each, tag=each.get("TAGS", ""))
            assert found.matches(message) in (True, False)  # type: ignore[arg-type]


def headers(data: bytes) -> None:
    """What HTTP and gRPC clients say of themselves before anybody knows them."""
    values = (data.decode("latin-1").split("\n") + [""] * 4)[:4]
    metadata = {
        "authorization": values[0],
        "x-mq-date-time": values[1],
        "x-mq-client-id": values[2],
    }
    keys: Any = SimpleNamespace(secret_key=lambda _: "secret", is_loaded=True)
    with suppress(GrpcRefusal):
        GrpcSignatures(_people(), keys).identify(metadata)
    with suppress(GrpcRefusal):
        assert client_of(metadata).isprintable()
    assert host_name(values[3]) == host_name(values[3]).lower()
    raw = [value.encode("latin-1") for value in values]
    with suppress(ProblemError):
        check_host(raw[3], frozenset({"localhost"}))
    with suppress(ProblemError):
        check_origin(raw[0], raw[1], raw[3], frozenset({b"https://a"}))


def _people() -> Any:
    """People of whom everybody has one access key, `key`."""
    nobody = SimpleNamespace(
        principal_of_token=lambda _: None, principal_of_hash=lambda _: "somebody"
    )
    known = {"is_known": True, "is_open": False}
    return SimpleNamespace(
        **known, **vars(nobody), token_hash_of=lambda key: "hash" if key == "key" else None
    )


def message_ids(data: bytes) -> None:
    """Ids of messages, ours, RocketMQ's and made-up ones: a position in the log, or none."""
    given = data.decode("utf-8", "replace")
    for each in (given, given[:32].ljust(32, "0")):
        position = position_of_id(each)
        if position is not None:
            assert 0 <= position < 1 << 64, each
            assert is_own_id(each.upper(), position)


def definitions(data: bytes) -> None:
    """Files of topic definitions: Invalid as a whole, or rows that each say what is wrong."""
    given = data.decode("utf-8", "replace")
    for form in ("", "json", "csv"):
        try:
            rows = topic_files.read(given, form)
        except Invalid:
            continue
        for row in rows:
            if row.definition is not None:
                (again,) = topic_files.read(topic_files.line(row.definition), "json")
                assert again.definition == row.definition


# -- what lies in the log --------------------------------------------------------------------------


def records(data: bytes) -> None:
    """Log records: Corrupt, or a message; and a scan over them that comes to its end."""
    times_in(data, 0)
    stored_ms_in(data, 0)
    found = decode_run(data, (0, len(data) // 2, len(data)))
    assert all(isinstance(each, StoredMessage | Corrupt) for each in found)
    try:
        message = decode(data)
    except Corrupt:
        pass
    else:
        assert 0 < message.size_bytes <= len(data)
    scan = LogScan(_OneSegment(data), 0, len(data))
    last = -1
    for message in scan.records():
        assert message.position > last
        last = message.position
    assert last < max(scan.end, 1) <= max(len(data), 1)


class _OneSegment:
    """A log that is one piece of memory."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.segment_bytes = len(data)

    def bases(self) -> tuple[int, ...]:
        return (0,)

    def read(self, position: int, size_bytes: int) -> bytes:
        return self._data[position : position + size_bytes]


def record_fields(data: bytes) -> None:
    """A message of any texts comes out of its record as it went in."""
    parts = [part.decode("utf-8", "ignore") for part in data.split(b"\n", 5)] + [""] * 6
    clean = ["".join(c for c in part if c > "\x02") for part in parts]
    sent = Message(
        "orders",
        parts[0].encode(),
        tag=clean[1],
        keys=tuple(clean[2].split()),
        properties={clean[3]: clean[4]} if clean[3] and clean[4] else {},
        queue=0,
        message_group=clean[5].strip(),
        born_ms=NOW_MS,
    )
    if set(sent.properties) & properties.RESERVED:
        return
    queue: Any = SimpleNamespace(next_offset=7)
    encoder = Encoder("127.0.0.1:8080", "0" * 16, lambda *_: queue, {})
    try:
        written = encoder.encode([sent], 0, NOW_MS)
    except Invalid:
        return
    got = decode(written.data)
    assert (got.body, got.tag, got.keys) == (sent.body, sent.tag, sent.keys)
    assert (got.message_group, got.offset) == (sent.message_group, 7)
    assert sent.properties.items() <= got.properties.items()


def property_strings(data: bytes) -> None:
    """Property blocks: never an error, and what was read once stays what it is."""
    found = properties.split_properties(data)
    assert found == split_properties(data.decode("utf-8", "replace"))
    assert split_properties(join_properties(found)) == found


def traces(data: bytes) -> None:
    """Trace records of ours and trace texts of clients, also compressed."""
    for body in (data, *_repacked_trace(data)):
        try:
            rows = trace_record.decode(body)
        except Corrupt:
            continue
        columns = trace_record.TraceColumns(body)
        assert len(rows) == columns.count
        trace_record.rows_about(columns, "t", 0, 0)
        trace_record.rows_of_id(columns, "0")
    found, bad = client_traces.parse(data)
    assert len(found) + bad <= client_traces.CONTEXTS_MAX
    for flags in (0, 1, 1 | 1 << 8, 1 | 3 << 8, 0xFFFF):
        plain = plain_body(data, flags, bytes_max=BODY_BYTES_MAX)
        told: Any = SimpleNamespace(body=data, sys_flag=flags, plain=plain)
        client_traces.traces_of(told)


def _repacked_trace(data: bytes) -> list[bytes]:
    """The same with the rest compressed, so that what lies behind it is reached."""
    head = trace_record.HEAD.size
    return [data[:head] + zlib.compress(data[head:], 1)] if len(data) > head else []


# -- what lies on the disk -------------------------------------------------------------------------


def lag_files(data: bytes) -> None:
    """Files of the lag history, open and sealed, with a checksum that is right or wrong."""
    for blob in (data, _with_lag_crc(data)):
        files = disk_of({}).boot()
        files.make_directory(Path("/lag"))
        for name in (OPEN_NAME, lag_file_name()):
            write_atomic(files, Path("/lag") / name, blob)
        kept = LagFiles(files, Path("/lag"), 1 << 20)
        sealed, rounds = kept.load()
        for block in sealed:
            kept.read_block(block)
        for one in rounds:
            (again,) = lag_block.Block(lag_block.encode([one])).rounds()
            assert (again.at_ms, again.values) == (one.at_ms, one.values)
        kept.close()


def _with_lag_crc(data: bytes) -> bytes:
    crc = struct.pack("<I", crc32(data[lag_block.CRC_FROM :]))
    return data[: lag_block.CRC_FROM - 4] + crc + data[lag_block.CRC_FROM :]


def directories(data: bytes) -> None:
    """A data directory of which one file was changed: it opens, or says what is wrong with it.

    The first byte names the file; then come three bytes of place and what is put there. If it opens
    once, it opens again, and every topic that there was then is there still.
    """
    if len(data) < 4:
        return
    whole = disk_files()
    path = sorted(whole)[data[0] % len(whole)]
    content = bytearray(whole[path])
    at = int.from_bytes(data[1:4], "big") % (len(content) + 1)
    content[at : at + len(data) - 4] = data[4:]
    disk = disk_of(whole | {path: bytes(content)})
    try:
        broker = boot(disk, ManualClock(), segment_bytes=8192, queue_file_entries=10)
    except EngineError:
        return
    names = {topic.name for topic in broker.topics(system=True)}
    disk.kill()
    again = boot(disk, ManualClock(), segment_bytes=8192, queue_file_entries=10)
    assert {topic.name for topic in again.topics(system=True)} == names


def rocketmq_tables(data: bytes) -> None:
    """What Apache RocketMQ's broker might leave beside the log: a start takes it over, or not."""
    checkpoint, config = DATA / "checkpoint", DATA / "config"
    touched = bytearray(disk_files()[checkpoint])
    touched[0] ^= 1
    tables = {config / name: data for name in (TOPICS, GROUPS, OFFSETS, DELAYS, "timercheck")}
    disk = disk_of(disk_files() | {checkpoint: bytes(touched)} | tables)
    broker = boot(disk, ManualClock(), segment_bytes=8192, queue_file_entries=10)
    assert broker.health().damages == []


TARGETS: dict[str, Target] = {
    target.__name__: target
    for target in (
        avro_containers,
        binary_frames,
        text_frames,
        remoting_frames,
        receipts,
        filters,
        headers,
        message_ids,
        definitions,
        records,
        record_fields,
        property_strings,
        traces,
        lag_files,
        directories,
        rocketmq_tables,
    )
}
