"""Resets by SDK and command line: looked at, asked for, carried out, undone."""

import pytest

from kitemq import Client
from kitemq.errors import Invalid, NotFound, Refused
from kitemq.model.produce import NewMessage
from tests.kitemq.test_cli import OK, REFUSED, documents, inside
from tests.live import LiveServer

pytestmark = pytest.mark.makers


@pytest.fixture
def consumed(server: LiveServer) -> LiveServer:
    """Four messages in queue 0 of `t`, all done by the group `g`."""
    with Client(server.url) as client:
        client.messages.send("t", [NewMessage(f"{number}", queue=0) for number in range(4)])
        got = client.deliveries.receive("g", "t", max=4)
        client.deliveries.ack("g", [each.receipt for each in got])
    return server


def test_a_client_looks_and_moves(consumed: LiveServer) -> None:
    with Client(consumed.url) as client:
        preview = client.groups.preview_reset("g", "t", "shift", by=-3)
        assert (preview.redelivered, preview.queues[0].target) == (3, "1")
        condition = preview.precondition
        reset = client.groups.reset("g", "t", "shift", by=-3, precondition=condition)
        assert client.groups.lag("g").count == 3
        with pytest.raises(Refused) as caught:
            client.groups.reset("g", "t", "shift", by=-3, precondition=condition)
        assert caught.value.code == "offsets_moved"
        assert [each.after for each in reset.queues if each.queue == 0] == ["1"]
        for error, call in (
            (Invalid, lambda: client.groups.preview_reset("g", "t", "noon")),
            (NotFound, lambda: client.groups.preview_reset("g", "x", "latest")),
        ):
            with pytest.raises(error):
                call()


@pytest.mark.capabilities("reset_history")
def test_a_client_takes_a_reset_back(consumed: LiveServer) -> None:
    with Client(consumed.url) as client:
        reset = client.groups.reset("g", "t", "shift", by=-3, force=True)
        assert client.groups.preview_undo("g", reset.id).queues[0].target == "4"
        client.groups.undo_reset("g", reset.id)
        assert client.groups.lag("g").count == 0
        assert [row.id for row in client.groups.resets("g")] == ["2", "1"]
        with pytest.raises(NotFound):
            client.groups.undo_reset("g", "9")


def test_every_kind_of_place_can_be_named_on_the_command_line(
    consumed: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, target in (
        (("earliest",), "0"),
        (("latest",), "4"),
        (("2",), "2"),
        (("offset", "--offset", "3"), "3"),
        (("shift", "--by", "-1"), "2"),
        (("time", "--at", "0"), "0"),
        (("group", "--from-group", "g2"), "4"),
    ):
        if "g2" in words:
            with Client(consumed.url) as client:
                client.groups.create("g2")
                client.groups.commit_offset("g2", "t", 0, 4)
        code, out, _ = inside(
            consumed, capsys, "groups", "reset", "g", "--topic", "t", "--queue", "0",
            "--yes", "--to", *words,
        )  # fmt: skip
        assert code == OK
        assert documents(out)[0]["queues"][0]["after"] == target, words


def test_a_dry_run_shows_the_queues_and_changes_nothing(
    consumed: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = inside(
        consumed, capsys, "groups", "reset", "g", "t", "--to", "earliest", "--dry-run"
    )
    assert code == OK
    first = documents(out)[0]
    assert (first["target"], first["redelivered"]) == ("0", 4)
    assert "nothing was changed" in err
    with Client(consumed.url) as client:
        assert client.groups.lag("g").count == 0
        if client.server.info().capabilities.reset_history:
            assert list(client.groups.resets("g")) == []


@pytest.mark.capabilities("reset_history")
def test_without_a_yes_nothing_moves_and_with_one_it_can_be_undone(
    consumed: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    reset = ("groups", "reset", "g", "t", "--to", "earliest")
    code, _, err = inside(consumed, capsys, *reset)
    assert code == REFUSED
    assert "4 messages are delivered again" in err
    assert inside(consumed, capsys, *reset, "--yes")[0] == OK
    code, out, _ = inside(consumed, capsys, "groups", "undo", "g", "--yes")
    assert (code, documents(out)[0]["undoes"]) == (OK, "1")
    code, _, err = inside(consumed, capsys, "groups", "undo", "g", "--yes")
    assert code == REFUSED, "the only reset is undone"
    code, out, _ = inside(consumed, capsys, "--table", "groups", "resets", "g")
    assert [line.split()[0] for line in out.splitlines()] == ["ID", "2", "1"]


@pytest.mark.parametrize(
    "words", [("--to", "noon"), ("--to", "time"), ("--to", "shift"), ("--to", "time", "--at", "x")]
)
def test_a_place_that_is_none_is_refused_with_what_to_do(
    consumed: LiveServer, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    code, out, err = inside(consumed, capsys, "groups", "reset", "g", "t", *words, "--yes")
    assert (code, out) == (REFUSED, "")
    assert "--" in err
