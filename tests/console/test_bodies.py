"""Bodies as people can read them."""

import json

from app.ui import bodies


def tried(body: bodies.Body) -> dict[str, bool]:
    return {step.name: step.is_ok for step in body.tried}


def test_json_is_shown_as_a_tree_with_its_order_kept() -> None:
    body = bodies.decode(b'{"b": [1, true], "a": null}')
    assert body.view == "json"
    assert body.views == ("json", "text", "hex")
    assert body.tree is not None
    assert [node.label for node in body.tree.children] == ["b", "a"]
    assert [node.text for node in body.tree.children[0].children] == ["1", "true"]


def test_text_that_is_no_json_says_why() -> None:
    body = bodies.decode(b"{broken")
    assert body.view == "text"
    assert tried(body) == {"text": True, "json": False, "hex": True}


def test_bytes_that_are_no_text_are_shown_in_hex_with_the_byte_at_fault() -> None:
    body = bodies.decode(b"ok\xff")
    assert body.views == ("hex",)
    assert body.tried[0].detail == "byte 2 (0xff) is not UTF-8"
    assert (body.rows[0].octets, body.rows[0].text) == ("6f 6b ff", "ok.")


def test_a_view_that_does_not_fit_falls_back_to_one_that_does() -> None:
    assert bodies.decode(b"\x00\x01", view="json").view == "hex"


def test_a_large_body_is_cut_and_says_so() -> None:
    body = bodies.decode(b"x" * 300_000)
    assert body.is_cut
    assert body.shown_bytes == len(body.text) == bodies.SHOWN_BYTES_MAX
    assert not bodies.decode(b"x" * 300_000, is_all=True).is_cut


def test_a_cut_never_splits_a_character() -> None:
    body = bodies.decode("ä".encode() * bodies.SHOWN_BYTES_MAX + b"x", view="text")
    assert set(body.text) == {"ä"}


def test_a_tree_is_bounded_in_width_and_depth() -> None:
    wide = bodies.decode(json.dumps(list(range(5000))).encode())
    assert wide.tree_cut
    assert wide.tree is not None
    assert len(wide.tree.children) < bodies.TREE_NODES_MAX
    deep = bodies.decode(b"[" * 200 + b"]" * 200)
    assert deep.tree_cut
    assert bodies.decode(b"[" * 100_000).view == "text"


def test_a_preview_is_one_line_of_text_or_the_first_bytes() -> None:
    assert bodies.preview(b'{\n  "a": 1\n}') == '{ "a": 1 }'
    assert bodies.preview(b"\x00\xff") == "00 ff"
    assert bodies.preview(b"") == ""
    assert len(bodies.preview(b"y" * 5000)) == bodies.PREVIEW_CHARS + 1
