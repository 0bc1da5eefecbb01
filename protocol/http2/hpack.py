"""Header blocks (HPACK, RFC 7541): decoded for a server, and encoded without a table.

An encoded block is always the same bytes for the same headers, so that it can be kept.
"""

from collections import deque
from collections.abc import Iterable

from protocol.http2 import huffman
from protocol.http2.huffman import HuffmanError

Header = tuple[str, str]

TABLE_BYTES_MAX = 4096  # HTTP/2's default, which no setting of ours changes
ENTRY_BYTES = 32  # what an entry counts besides its texts
INTEGER_BYTES_MAX = 4  # of an integer behind its prefix
_NAMES = """
:authority= :method=GET :method=POST :path=/ :path=/index.html :scheme=http :scheme=https
:status=200 :status=204 :status=206 :status=304 :status=400 :status=404 :status=500
accept-charset= accept-encoding=gzip,_deflate accept-language= accept-ranges= accept=
access-control-allow-origin= age= allow= authorization= cache-control= content-disposition=
content-encoding= content-language= content-length= content-location= content-range= content-type=
cookie= date= etag= expect= expires= from= host= if-match= if-modified-since= if-none-match=
if-range= if-unmodified-since= last-modified= link= location= max-forwards= proxy-authenticate=
proxy-authorization= range= referer= refresh= retry-after= server= set-cookie=
strict-transport-security= transfer-encoding= user-agent= vary= via= www-authenticate=
"""
STATIC: tuple[Header, ...] = tuple(
    (name, value.replace("_", " "))
    for name, _, value in (each.partition("=") for each in _NAMES.split())
)
FIRST_OWN = len(STATIC) + 1  # the index of the newest entry of the connection's own table


class HpackError(ValueError):
    """A header block cannot be decoded: the connection's table is lost."""


class HeadersTooLarge(HpackError):
    """The headers of a block are larger than allowed."""


class HeaderDecoder:
    """Decodes the header blocks of one direction of a connection, in their order."""

    def __init__(self, list_bytes_max: int) -> None:
        """`list_bytes_max` bounds the headers of a block, 32 bytes for each counted in."""
        self._list_bytes_max = list_bytes_max
        self._table: deque[Header] = deque()  # the newest last
        self._table_bytes = 0
        self._table_bytes_max = TABLE_BYTES_MAX

    def decode(self, block: bytes) -> list[Header]:
        """The headers of a block; raises HpackError."""
        try:
            return self._decode(block)
        except (IndexError, HuffmanError) as error:
            raise HpackError(f"a header block cannot be read: {error}") from None

    def _decode(self, block: bytes) -> list[Header]:
        headers: list[Header] = []
        position, end, size_bytes = 0, len(block), 0
        while position < end:
            byte = block[position]
            if byte & 0x80:
                index, position = _integer(block, position, 0x7F)
                header = self._entry(index)
            elif byte & 0x40:
                header, position = self._literal(block, position, 0x3F)
                self._add(header)
            elif byte & 0x20:
                if headers:
                    raise HpackError("the size of the table changes within a block")
                size, position = _integer(block, position, 0x1F)
                self._resize(size)
                continue
            else:
                header, position = self._literal(block, position, 0x0F)
            size_bytes += len(header[0]) + len(header[1]) + ENTRY_BYTES
            if size_bytes > self._list_bytes_max:
                raise HeadersTooLarge(f"headers of more than {self._list_bytes_max} bytes")
            headers.append(header)
        return headers

    def _entry(self, index: int) -> Header:
        if index >= FIRST_OWN:
            return self._table[FIRST_OWN - 1 - index]
        if not index:
            raise HpackError("a header has the index 0")
        return STATIC[index - 1]

    def _literal(self, block: bytes, position: int, mask: int) -> tuple[Header, int]:
        index, position = _integer(block, position, mask)
        if index:
            name = self._entry(index)[0]
        else:
            name, position = _text(block, position)
        value, position = _text(block, position)
        return (name, value), position

    def _add(self, header: Header) -> None:
        self._table.append(header)
        self._table_bytes += len(header[0]) + len(header[1]) + ENTRY_BYTES
        if self._table_bytes > self._table_bytes_max:
            self._shrink()

    def _resize(self, size_bytes: int) -> None:
        if size_bytes > TABLE_BYTES_MAX:
            raise HpackError(f"a table of {size_bytes} bytes; {TABLE_BYTES_MAX} are allowed")
        self._table_bytes_max = size_bytes
        self._shrink()

    def _shrink(self) -> None:
        while self._table_bytes > self._table_bytes_max:
            name, value = self._table.popleft()
            self._table_bytes -= len(name) + len(value) + ENTRY_BYTES


def encode(headers: Iterable[Header]) -> bytes:
    """A block that any decoder reads and whose headers it puts into no table; texts are ASCII."""
    return b"".join(b"\x00%b%b" % (_encoded(name), _encoded(value)) for name, value in headers)


def _encoded(text: str) -> bytes:
    data = text.encode("ascii")
    size, mask = len(data), 0x7F
    if size < mask:
        return bytes((size,)) + data
    head = bytearray((mask,))
    size -= mask
    while size >= 0x80:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return bytes(head) + data


def _integer(block: bytes, position: int, mask: int) -> tuple[int, int]:
    """An integer whose prefix are the bits of `mask`, and where it ends."""
    value = block[position] & mask
    position += 1
    if value < mask:
        return value, position
    for shift in range(0, 7 * INTEGER_BYTES_MAX, 7):
        byte = block[position]
        position += 1
        value += (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise HpackError("an integer is too large")


def _text(block: bytes, position: int) -> tuple[str, int]:
    is_coded = block[position] & 0x80
    size, start = _integer(block, position, 0x7F)
    end = start + size
    if end > len(block):
        raise HpackError("a text ends behind its block")
    data = block[start:end]
    return huffman.decode(data) if is_coded else data.decode("latin-1"), end
