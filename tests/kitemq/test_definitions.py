"""`kitemq topics export` and `import`: definitions in a file, there and back."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from kitemq import Client
from kitemq.cli import main
from kitemq.commands import definitions
from tests.live import LiveServer

OK, FAILED, REFUSED, PARTIAL = range(4)


@pytest.fixture
def run(server: LiveServer, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    with Client(server.url) as client:
        client.topics.create("def-orders", read_queues=3, write_queues=2, durability="flushed")
        client.topics.create("-def", type="FIFO", retention_ms=0)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["--server", server.url, "topics", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    yield run
    with Client(server.url) as client:
        for topic in list(client.topics.list(q="def")):
            client.topics.delete(topic.name)


@pytest.mark.parametrize("name", ["topics.csv", "topics.json"])
def test_topics_go_into_a_file_and_come_back(run, server: LiveServer, tmp_path: Path, name: str):  # type: ignore[no-untyped-def]
    file = str(tmp_path / name)
    code, _, err = run("export", file, "--q", "def")
    assert (code, "2 topics" in err) == (OK, True)
    with Client(server.url) as client:
        before = [replace(topic, created_ms=0) for topic in client.topics.list(q="def")]
        client.topics.delete("def-orders")
        client.topics.change("-def", permission=4)
        code, out, err = run("import", file, "--dry-run")
        assert [json.loads(line)["outcome"] for line in out.splitlines()] == ["change", "create"]
        assert (code, "nothing was changed" in err) == (OK, True)
        assert client.topics.get("-def").permission == 4
        code, _, err = run("import", file)
        assert (code, "create or change 2 topics" in err) == (REFUSED, True)
        code, out, _ = run("import", file, "--yes")
        assert [json.loads(line)["outcome"] for line in out.splitlines()] == ["changed", "created"]
        assert code == OK
        assert [replace(topic, created_ms=0) for topic in client.topics.list(q="def")] == before


def test_a_topic_that_changed_while_one_was_asked_is_left_alone(  # type: ignore[no-untyped-def]
    run, server: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "topics.csv"
    file.write_text("name,permission\ndef-orders,4\ndef-other,4\ndef-bad,9\n")
    with Client(server.url) as client:

        def confirmed(what: str, *, yes: bool) -> None:
            client.topics.change("def-orders", retention_ms=60_000)

        monkeypatch.setattr(definitions, "confirmed", confirmed)
        code, out, err = run("import", str(file))
        rows = {row["topic"]: row for row in map(json.loads, out.splitlines())}
        assert rows["def-orders"]["outcome"] == "refused"
        assert "changed since" in rows["def-orders"]["detail"]
        assert [(row["number"], row["topic"]) for row in rows.values()] == [
            (1, "def-orders"), (2, "def-other"), (3, "def-bad"),
        ]  # fmt: skip
        assert (rows["def-other"]["outcome"], rows["def-bad"]["outcome"]) == ("created", "refused")
        assert (code, "2 refused, 1 created" in err) == (PARTIAL, True)
        assert client.topics.get("def-orders").permission == 6


def test_what_is_refused_makes_it_partly_done_or_refused(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "topics.csv"
    file.write_text("name,read_queues\ndef-new,2\ndef-bad,0\n")
    code, out, err = run("--table", "import", str(file), "--yes")
    assert (code, "read_queues" in out, "1 refused" in err) == (PARTIAL, True, True)
    file.write_text("name,read_queues\ndef-bad,0\n")
    assert run("import", str(file), "--yes")[0] == REFUSED
    code, _, err = run("import", str(tmp_path / "nothing.csv"))
    assert (code, "No such file" in err) == (REFUSED, True)
    code, out, _ = run("export", "--format", "csv", "--q", "def")
    assert (code, out.splitlines()[0].split(",")[0], "'-def,FIFO" in out) == (OK, "name", True)
