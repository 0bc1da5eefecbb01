"""Header blocks: RFC 7541's own examples, what may not be, and what stays bounded."""

import pytest

from protocol.http2 import huffman
from protocol.http2.hpack import HeaderDecoder, HeadersTooLarge, HpackError, encode
from protocol.http2.huffman import HuffmanError

LIST_MAX = 16 * 1024
FIRST = [
    (":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com"),
]  # fmt: skip
SECOND = [*FIRST, ("cache-control", "no-cache")]
THIRD = [
    (":method", "GET"),
    (":scheme", "https"),
    (":path", "/index.html"),
    (":authority", "www.example.com"),
    ("custom-key", "custom-value"),
]


@pytest.mark.parametrize(
    "blocks",
    [
        (  # appendix C.3: without Huffman's code
            "828684410f7777772e6578616d706c652e636f6d",
            "828684be58086e6f2d6361636865",
            "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
        ),
        (  # appendix C.4: with it
            "828684418cf1e3c2e5f23a6ba0ab90f4ff",
            "828684be5886a8eb10649cbf",
            "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
        ),
    ],
)
def test_the_examples_of_the_specification_are_read(blocks: tuple[str, str, str]) -> None:
    decoder = HeaderDecoder(LIST_MAX)
    for block, headers in zip(blocks, (FIRST, SECOND, THIRD), strict=True):
        assert decoder.decode(bytes.fromhex(block)) == headers


def test_the_table_forgets_its_oldest_entries() -> None:
    """The example of appendix C.6, whose table has 256 bytes: the fourth entry pushes one out."""
    block = (
        "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff"
        "6e919d29ad171863c78f0b97c8e9ae82ae43d3"
    )
    decoder = HeaderDecoder(LIST_MAX)
    read = decoder.decode(bytes.fromhex("3fe101" + block))  # the size of the table first
    assert read == [
        (":status", "302"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("location", "https://www.example.com"),
    ]
    assert decoder.decode(bytes.fromhex("4883640effc1c0bf")) == [
        (":status", "307"), *read[1:],
    ]  # fmt: skip
    with pytest.raises(HpackError):  # ":status: 302" was pushed out
        decoder.decode(bytes((62 + 4 | 0x80,)))


@pytest.mark.parametrize(
    "block",
    [
        "80",  # the index 0
        "be",  # an entry of a table that is empty
        "ffffffffff7f",  # an integer without an end
        "0005616263",  # a text behind its block
        "008361",  # a coded text behind its block
        "0081ff0161",  # padding of eight bits
        "8220",  # the table's size behind a header
        "3fe2ff03",  # a table that is too large
        "0084ffffffff0161",  # the end of a string within it
        "40",
    ],
)
def test_what_is_no_header_block_is_refused(block: str) -> None:
    with pytest.raises(HpackError):
        HeaderDecoder(LIST_MAX).decode(bytes.fromhex(block))


def test_a_small_block_cannot_become_many_headers() -> None:
    decoder = HeaderDecoder(LIST_MAX)
    decoder.decode(encode_indexed("x", "y" * 3000))
    with pytest.raises(HeadersTooLarge):
        decoder.decode(b"\xbe" * 10_000)


def test_what_is_written_is_read_as_it_was() -> None:
    headers = [("grpc-status", "0"), ("grpc-message", "m" * 1000), ("x", "")]
    assert HeaderDecoder(LIST_MAX).decode(encode(headers)) == headers


def test_each_character_has_a_code() -> None:
    """The codes are those of the lengths: a decoder that knows the code finds each character."""
    for symbol in range(256):
        code, length = code_of(symbol)
        padded = (code << (-length % 8)) | ((1 << (-length % 8)) - 1)
        assert huffman.decode(padded.to_bytes((length + 7) // 8, "big")) == chr(symbol)
    with pytest.raises(HuffmanError):
        huffman.decode(b"\xff\xff\xff\xff")


def code_of(symbol: int) -> tuple[int, int]:
    """A symbol's canonical code and its length, computed as RFC 1951 says."""
    lengths = list(huffman.LENGTHS)
    code, previous = 0, 0
    for length, each in sorted((length, index) for index, length in enumerate(lengths)):
        code = (code + (previous > 0)) << (length - previous if previous else 0)
        previous = length
        if each == symbol:
            return code, length
    raise AssertionError(symbol)


def encode_indexed(name: str, value: str) -> bytes:
    """A header that goes into the table."""
    return b"\x40" + encode([(name, value)])[1:]
