"""Frames of the protocol: read bit by bit as they arrive, and written.

| field         | bytes | note                                                          |
|---------------|-------|---------------------------------------------------------------|
| total length  | 4     | of what follows                                               |
| header length | 4     | the first byte says how the header is written: 0 JSON, 1 binary |
| header        | n     |                                                               |
| body          | n     | up to the total length                                        |

The binary header: code (2), language (1), version (2), opaque (4), flag (4), remark (4 + n), then
the length of all fields (4) and for each its name (2 + n) and value (4 + n). Integers are
big-endian and signed. An answer is written as its request was, with the same `opaque`.
"""

import struct
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec

from protocol.remoting.codes import LANGUAGES, VERSION, Flag

HEADER_BYTES_MAX = 512 * 1024  # properties of 32 KiB, each character escaped
FIELDS_MAX = 512
COMPACT_BYTES = 64 * 1024  # of consumed input that is kept before the rest is moved up
LENGTHS = struct.Struct(">iI")
INT = struct.Struct(">i")
SHORT = struct.Struct(">h")
BINARY_HEAD = struct.Struct(">hBhiii")  # code, language, version, opaque, flag, length of remark
assert BINARY_HEAD.size == 17
JSON, BINARY = 0, 1
LENGTH_BYTES = 4
INT_MIN, INT_MAX = -(1 << 31), (1 << 31) - 1
SHORT_MAX = 32767
NO_FIELDS: Mapping[str, str] = {}
RESPONSE, ONE_WAY = int(Flag.RESPONSE), int(Flag.ONE_WAY)


class FrameError(ValueError):
    """These bytes are no frames; the connection that brought them cannot go on."""


class Command(msgspec.Struct, gc=False):
    """A request or an answer; `opaque` is the number by which an answer finds its request."""

    code: int
    opaque: int = 0
    flag: int = 0
    fields: dict[str, str] = {}
    body: bytes = b""
    remark: str = ""
    language: str = "JAVA"
    version: int = VERSION
    is_binary: bool = False

    @property
    def is_answer(self) -> bool:
        return self.flag & RESPONSE != 0

    @property
    def is_one_way(self) -> bool:
        """Whether no answer is expected."""
        return self.flag & ONE_WAY != 0


class RawFrame(msgspec.Struct, frozen=True, gc=False):
    """A frame whose header is not read yet; `kind` says how that is written."""

    kind: int
    header: bytes
    body: bytes

    def command(self) -> Command:
        """The command; FrameError where the header is none."""
        read = _from_binary if self.kind == BINARY else _from_json
        return read(self.header, self.body)


Int32 = Annotated[int, msgspec.Meta(ge=INT_MIN, le=INT_MAX)]


class _Header(msgspec.Struct, gc=False):
    code: int
    opaque: int = 0
    flag: int = 0
    language: Any = "OTHER"
    version: int = 0
    remark: str | None = None
    extFields: dict[str, str | int | float | bool | None] | None = None


class _TextHeader(msgspec.Struct, gc=False):
    """The header of most clients: all of its fields are text."""

    code: Int32
    opaque: Int32 = 0
    flag: Int32 = 0
    language: str = "OTHER"
    version: Int32 = 0
    remark: str | None = None
    extFields: dict[str, str] | None = None


_HEADERS = msgspec.json.Decoder(_Header)
_TEXT_HEADERS = msgspec.json.Decoder(_TextHeader)


class FrameReader:
    """Takes bytes in any pieces; `frames` gives what is whole, and keeps the rest."""

    def __init__(self, *, frame_bytes_max: int) -> None:
        """No frame may be longer than `frame_bytes_max`, its length field not counted."""
        self._frame_bytes_max = frame_bytes_max
        self._buffer = bytearray()
        self._at = 0

    @property
    def pending_bytes(self) -> int:
        """Bytes of a frame that is not whole yet."""
        return len(self._buffer) - self._at

    def add(self, data: bytes) -> None:
        self._buffer += data

    def frames(self) -> Iterator[Command]:
        """Whole frames in order; FrameError at the first that is none."""
        while taken := self.take(1):
            yield taken[0].command()

    def take(self, count_max: int) -> list[RawFrame]:
        """At most so many whole frames in order, unread; FrameError if the first is none."""
        buffer, buffer_bytes, taken = self._buffer, len(self._buffer), list[RawFrame]()
        try:
            while len(taken) < count_max and buffer_bytes - self._at >= LENGTHS.size:
                size, word = LENGTHS.unpack_from(buffer, self._at)
                if not LENGTH_BYTES <= size <= self._frame_bytes_max:
                    raise FrameError(f"a frame of {size} bytes")
                kind, length = _check_header(word, size)
                body_at = self._at + LENGTHS.size + length
                end = self._at + LENGTH_BYTES + size
                if end > buffer_bytes:
                    break
                header = bytes(buffer[body_at - length : body_at])
                taken.append(RawFrame(kind, header, bytes(buffer[body_at:end])))
                self._at = end
            else:
                self._check_length()
        except FrameError:
            if not taken:  # else the next call comes upon it
                raise
        self._compact()
        return taken

    def _check_length(self) -> None:
        """Refuse a frame that is too long by its first bytes alone."""
        if self.pending_bytes < LENGTH_BYTES:
            return
        (size,) = INT.unpack_from(self._buffer, self._at)
        if not LENGTH_BYTES <= size <= self._frame_bytes_max:
            raise FrameError(f"a frame of {size} bytes")

    def _compact(self) -> None:
        if self._at == len(self._buffer):
            self._buffer.clear()
            self._at = 0
        elif self._at > COMPACT_BYTES:
            del self._buffer[: self._at]
            self._at = 0


def decode(frame: bytes) -> Command:
    """The command of one frame, without its total length; FrameError where it is none."""
    if len(frame) < LENGTH_BYTES:
        raise FrameError("a frame without a header")
    (word,) = INT.unpack_from(frame)
    kind, length = _check_header(word, len(frame))
    end = LENGTH_BYTES + length
    header, body = frame[LENGTH_BYTES:end], frame[end:]
    return _from_binary(header, body) if kind == BINARY else _from_json(header, body)


def encode(command: Command) -> bytes:
    """The whole frame of a command, written as `is_binary` says where its code fits into that."""
    if command.is_binary and abs(command.code) <= SHORT_MAX:
        kind, header = BINARY, _to_binary(command)
    else:
        kind, header = JSON, _to_json(command)
    size = LENGTH_BYTES + len(header) + len(command.body)
    return b"".join((LENGTHS.pack(size, kind << 24 | len(header)), header, command.body))


def _check_header(word: int, frame_bytes: int) -> tuple[int, int]:
    """How the header is written, and its length."""
    kind, length = word >> 24 & 0xFF, word & 0xFFFFFF
    if kind not in (JSON, BINARY):
        raise FrameError(f"a header of kind {kind}")
    if length > frame_bytes - LENGTH_BYTES or length > HEADER_BYTES_MAX:
        raise FrameError(f"a header of {length} bytes in a frame of {frame_bytes}")
    return kind, length


def _from_json(header: bytes, body: bytes) -> Command:
    try:
        document = _TEXT_HEADERS.decode(header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _from_other_json(header, body)
    fields = document.extFields or {}
    if len(fields) > FIELDS_MAX:
        raise FrameError(f"a header with {len(fields)} fields")
    return Command(
        document.code,
        document.opaque,
        document.flag,
        fields,
        body,
        document.remark or "",
        document.language[:32],
        document.version,
    )


def _from_other_json(header: bytes, body: bytes) -> Command:
    """The same where fields are numbers or booleans, or where it is no header at all."""
    try:
        document = _HEADERS.decode(header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(f"a header that is no JSON of a command: {str(error)[:200]}") from None
    for number in (document.code, document.opaque, document.flag, document.version):
        if not INT_MIN <= number <= INT_MAX:
            raise FrameError("a number of more than 32 bits in a header")
    ext_fields = document.extFields or {}
    if len(ext_fields) > FIELDS_MAX:
        raise FrameError(f"a header with {len(ext_fields)} fields")
    fields = {name: _text(value) for name, value in ext_fields.items() if value is not None}
    language = document.language if isinstance(document.language, str) else "OTHER"
    return Command(
        document.code,
        document.opaque,
        document.flag,
        fields,
        body,
        document.remark or "",
        language[:32],
        document.version,
    )


def _text(value: str | int | float | bool) -> str:
    """As Java writes it: clients of other languages send numbers and booleans as they are."""
    if isinstance(value, bool):
        return "true" if value else "false"
    try:
        return str(value)
    except ValueError:  # Python refuses to spell out numbers of thousands of digits
        raise FrameError("a number of too many digits in a header") from None


def _to_json(command: Command) -> bytes:
    header: dict[str, Any] = {
        "code": command.code,
        "flag": command.flag,
        "language": command.language,
        "opaque": command.opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": command.version,
        "extFields": command.fields,
    }
    if command.remark:
        header["remark"] = command.remark
    return msgspec.json.encode(header)


def _from_binary(header: bytes, body: bytes) -> Command:
    try:
        code, language, version, opaque, flag, length = BINARY_HEAD.unpack_from(header)
        remark, at = _piece(header, BINARY_HEAD.size, length)
        (length,) = INT.unpack_from(header, at)
        rest, _ = _piece(header, at + INT.size, length)
        fields = dict(_binary_fields(rest))
        text = remark.decode()
    except (struct.error, UnicodeDecodeError) as error:
        raise FrameError(f"a binary header that breaks off or is no text: {error}") from None
    name = LANGUAGES[language] if language < len(LANGUAGES) else "OTHER"
    return Command(code, opaque, flag, fields, body, text, name, version, True)


def _piece(data: bytes, at: int, length: int) -> tuple[bytes, int]:
    """`length` bytes from `at` on, and where they end."""
    end = at + length
    if length < 0 or end > len(data):
        raise FrameError(f"{length} bytes are announced, {len(data) - at} are left")
    return data[at:end], end


def _binary_fields(data: bytes) -> Iterator[tuple[str, str]]:
    at = count = 0
    while at < len(data):
        count += 1
        if count > FIELDS_MAX:
            raise FrameError(f"a header with more than {FIELDS_MAX} fields")
        name, at = _piece(data, at + SHORT.size, SHORT.unpack_from(data, at)[0])
        value, at = _piece(data, at + INT.size, INT.unpack_from(data, at)[0])
        yield name.decode(), value.decode()


def _to_binary(command: Command) -> bytes:
    remark = command.remark.encode()
    fields = b"".join(
        part
        for name, value in command.fields.items()
        for part in _field(name.encode(), value.encode())
    )
    language = LANGUAGES.index(command.language) if command.language in LANGUAGES else 7
    head = BINARY_HEAD.pack(
        command.code, language, command.version, command.opaque, command.flag, len(remark)
    )
    return b"".join((head, remark, INT.pack(len(fields)), fields))


def _field(name: bytes, value: bytes) -> tuple[bytes, ...]:
    return SHORT.pack(len(name)), name, INT.pack(len(value)), value
