"""HPACK's Huffman code, decoded a byte at a time (RFC 7541, section 5.2 and appendix B).

The code is canonical: the lengths alone define it. What a byte means in a state of the decoder is
computed when it is first met; there are at most 256 states of 256 bytes.
"""

END = 256  # the symbol that ends a string, and whose bits pad its last byte
# The length in bits of the code of each byte, and of END.
LENGTHS = bytes.fromhex(
    "0d171c1c1c1c1c1c1c181e1c1c1e1c1c1c1c1c1c1c1c1e1c1c1c1c1c1c1c1c1c060a0a0c0d06080b0a0a080b"
    "080606060505050606060606060607080f060c0a0d0607070707070707070707070707070707070707070707"
    "0807080d130d0e060f05060506050606060507070606060506070605050607070707070f0b0e0d1c14161414"
    "1616161716171717171718171818161718171717171516171617171816151416161717151716161815161717"
    "151516151716171714161616171616171a1a1413161716191a1a1a1b1b1a181913151a1b1b1a1b1815151a1a"
    "1c1b1b1b14181415161515171616191918181a171a1b1a1a1b1b1b1b1b1c1b1b1b1b1b1a1e"
)
PAD_BITS_MAX = 7
Node = list[int]  # for each bit the next node; ~symbol where a code ends


class HuffmanError(ValueError):
    """A string is not in HPACK's Huffman code."""


def decode(data: bytes) -> str:
    """The text of a Huffman-coded string, each byte as one character; raises HuffmanError."""
    state, pieces, steps = 0, [], _STEPS
    for byte in data:
        step = steps.get(state | byte)
        if step is None:
            step = steps[state | byte] = _step(state >> 8, byte)
        state, text = step
        pieces.append(text)
    if state >> 8 not in _PADDING:
        raise HuffmanError("the padding is none")
    return "".join(pieces)


def _step(node: int, byte: int) -> tuple[int, str]:
    """Where a byte leads from a node, as the key of a state, and the characters on the way."""
    text = ""
    for shift in range(7, -1, -1):
        node = _TREE[node][byte >> shift & 1]
        if node < 0:
            if ~node == END:
                raise HuffmanError("the end of the string stands within it")
            text += chr(~node)
            node = 0
    return node << 8, text


def _tree() -> list[Node]:
    tree: list[Node] = [[0, 0]]
    code = length = 0
    for symbol in sorted(range(len(LENGTHS)), key=lambda each: (LENGTHS[each], each)):
        code <<= LENGTHS[symbol] - length
        length = LENGTHS[symbol]
        node = 0
        for shift in range(length - 1, 0, -1):
            bit = code >> shift & 1
            if not tree[node][bit]:
                tree.append([0, 0])
                tree[node][bit] = len(tree) - 1
            node = tree[node][bit]
        tree[node][code & 1] = ~symbol
        code += 1
    return tree


def _padding() -> frozenset[int]:
    """The nodes that a string may end in: behind at most seven bits of END."""
    nodes = [0]
    for _ in range(PAD_BITS_MAX):
        nodes.append(_TREE[nodes[-1]][1])
    return frozenset(nodes)


_TREE = _tree()
_PADDING = _padding()
_STEPS: dict[int, tuple[int, str]] = {}
