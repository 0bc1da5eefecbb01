"""The command line, as a person and as a script see it: output, exit codes, errors."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from kitemq import Client, Message
from kitemq.cli import main
from kitemq.commands.completion import VARIABLE
from kitemq.model.produce import NewMessage
from tests.live import LiveServer

pytestmark = pytest.mark.makers

OK, FAILED, REFUSED, PARTIAL, UNREACHABLE = range(5)


def test_the_command_line_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == OK
    assert capsys.readouterr().out.startswith("kitemq, version ")


def test_a_misspelt_command_is_answered_with_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["topic", "list"])
    assert ended.value.code == REFUSED
    assert "Did you mean 'topics'?" in capsys.readouterr().err


def kitemq(server: LiveServer | None, *arguments: str, stdin: str = "") -> Any:
    """Run the command in a process of its own."""
    url = server.url if server else "http://127.0.0.1:9"
    return subprocess.run(
        [sys.executable, "-m", "kitemq", *arguments],
        env={**os.environ, "KITEMQ_SERVER": url},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def documents(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def inside(
    server: LiveServer, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str, str]:
    """Run the command in this process: quicker."""
    code = main(["--server", server.url, *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_lines_of_standard_input_become_messages_and_come_out_again(server: LiveServer) -> None:
    sent = kitemq(server, "produce", "t", "--tag", "a", stdin="one\ntwo\n\nthree\n")
    assert sent.returncode == OK, sent.stderr
    assert documents(sent.stdout)[0] | {"seconds": 0} == {"sent": 3, "failed": 0, "seconds": 0}
    got = kitemq(server, "consume", "g", "t", "--count", "3")
    assert got.returncode == OK, got.stderr
    assert sorted(row["body"] for row in documents(got.stdout)) == ["one", "three", "two"]
    assert "3 received" in got.stderr
    with Client(server.url) as client:
        assert client.groups.lag("g").count == 0


def test_one_body_says_where_it_stands(
    server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = inside(
        server, capsys, "produce", "t", "--body", "x", "--key", "k", "--property", "a=b"
    )
    assert code == OK
    (row,) = documents(out)
    assert (row["topic"], row["offset"], row["durability"]) == ("t", "0", "stored")
    with Client(server.url) as client:
        (found,) = client.messages.find_by_key("t", "k")
    assert (found.message_id, found.properties) == (row["message_id"], {"a": "b"})


@pytest.mark.capabilities("timer_changes")
def test_what_waits_is_listed_recalled_moved_and_delivered(
    server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = []
    for body, when in (("a", ["--delay", "5m"]), ("b", ["--deliver-at", "2999-01-01T00:00Z"]),
                       ("c", ["--delay", "1h"]), ("d", ["--delay", "0.5d"])):  # fmt: skip
        code, out, err = inside(server, capsys, "produce", "t", "--body", body, *when)
        if body == "b":
            assert (code, "year" in err) == (REFUSED, True)
        else:
            ids.append(documents(out)[0]["message_id"])
    code, out, _ = inside(server, capsys, "scheduled", "list", "t")
    assert [row["message_id"] for row in documents(out)] == ids
    code, out, _ = inside(server, capsys, "--table", "scheduled", "list", "t", "--limit", "1")
    assert ids[0] in out
    assert ids[1] not in out
    code, _, err = inside(server, capsys, "scheduled", "recall", ids[0])
    assert (code, "--yes" in err) == (REFUSED, True)
    code, out, _ = inside(server, capsys, "scheduled", "recall", ids[0], "--yes")
    assert documents(out) == [{"message_id": ids[0], "result": "recalled"}]
    _, out, _ = inside(server, capsys, "scheduled", "reschedule", ids[1], "--delay", "2h")
    assert documents(out)[0]["result"] == "rescheduled"
    _, out, _ = inside(server, capsys, "scheduled", "deliver", ids[1])
    assert documents(out)[0]["result"] == "delivered"
    assert inside(server, capsys, "scheduled", "reschedule", ids[2])[0] == REFUSED
    assert inside(server, capsys, "scheduled", "deliver", "none")[0] == REFUSED
    for wrong in (["--delay", "soon"], ["--deliver-at", "tomorrow"]):
        assert inside(server, capsys, "produce", "t", "--body", "x", *wrong)[0] == REFUSED


def test_count_and_file_send_the_same_many_times(
    server: LiveServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "body"
    path.write_bytes(b"\x00\xff")
    code, out, _ = inside(server, capsys, "produce", "t", "--file", str(path), "--count", "5")
    assert code == OK
    assert documents(out)[0]["sent"] == 5


def test_what_the_server_refuses_exits_2_with_field_and_remedy(
    server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = inside(server, capsys, "produce", "t", "--body", "x", "--tag", "a|b")
    assert (code, out) == (REFUSED, "")
    assert "tag" in err
    code, _, err = inside(server, capsys, "topics", "show", "nowhere")
    assert code == REFUSED
    assert "topic_not_found" in err


def test_part_of_the_lines_refused_exits_3(server: LiveServer) -> None:
    with Client(server.url) as client:
        client.topics.create("small")
    long = "x" * (4 * 1024 * 1024 + 1)
    ran = kitemq(server, "produce", "small", stdin=f"fine\n{long}\nfine too\n")
    assert ran.returncode == PARTIAL, ran.stderr
    assert documents(ran.stdout)[0]["sent"] == 2
    assert "1 not sent" in ran.stderr


@pytest.mark.parametrize(
    "arguments",
    [("produce", "t", "--body", "x"), ("topics", "list"), ("consume", "g", "t"), ("tail", "t"),
     ("bench",)],
)  # fmt: skip
def test_without_a_server_it_exits_4_and_says_how_to_start_one(arguments: tuple[str, ...]) -> None:
    ran = kitemq(None, *arguments)
    assert ran.returncode == UNREACHABLE, ran.stderr
    assert "kitemq serve" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    "arguments",
    [(), ("dance",), ("produce",), ("produce", "t", "--body", "x", "--property", "novalue"),
     ("--server", "ftp://x", "topics", "list"), ("serve", "--listen", "8080"),
     ("serve", "--set", "novalue"), ("serve", "--set", "no_such_setting=1")],
)  # fmt: skip
def test_wrong_usage_exits_2(server: LiveServer, arguments: tuple[str, ...]) -> None:
    ran = kitemq(server, *arguments)
    assert ran.returncode == REFUSED, ran.stderr
    assert ran.stderr
    assert "Traceback" not in ran.stderr


def test_topics_can_be_made_shown_changed_listed_and_deleted(
    server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = inside(server, capsys, "topics", "create", "t", "--queues", "2")
    assert (code, documents(out)[0]["read_queues"]) == (OK, 2)
    code, _, err = inside(server, capsys, "topics", "create", "t")
    assert code == REFUSED
    assert "conflict" in err
    code, out, _ = inside(server, capsys, "topics", "change", "t", "--permission", "4")
    assert documents(out)[0]["permission"] == 4
    code, out, _ = inside(server, capsys, "topics", "list")
    assert [row["name"] for row in documents(out)] == ["t"]
    code, _, err = inside(server, capsys, "topics", "delete", "t")
    assert code == REFUSED
    assert "--yes" in err
    code, out, _ = inside(server, capsys, "topics", "delete", "t", "--yes")
    assert (code, documents(out)) == (OK, [{"deleted": "t"}])


def test_groups_can_be_made_looked_at_reset_and_deleted(
    server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    inside(server, capsys, "produce", "t", "--body", "x", "--count", "4")
    inside(server, capsys, "groups", "create", "g", "--retry-max", "3")
    code, out, _ = inside(server, capsys, "groups", "show", "g")
    assert (code, documents(out)[0]["retry_max"]) == (OK, 3)
    code, _, _ = inside(server, capsys, "consume", "g", "t", "--count", "4")
    code, out, _ = inside(server, capsys, "groups", "lag", "g")
    assert documents(out)[0]["count"] == 0
    code, out, _ = inside(server, capsys, "groups", "reset", "g", "t", "--to", "earliest", "--yes")
    assert code == OK
    code, out, _ = inside(server, capsys, "groups", "lag", "g")
    assert documents(out)[0]["count"] == 4
    code, _, err = inside(server, capsys, "groups", "reset", "g", "t", "--to", "noon", "--yes")
    assert code == REFUSED
    assert "earliest" in err
    code, out, _ = inside(server, capsys, "groups", "change", "g", "--paused")
    assert documents(out)[0]["consume_enabled"] is False
    code, out, _ = inside(server, capsys, "groups", "delete", "g", "--yes")
    assert code == OK
    code, out, _ = inside(server, capsys, "groups", "list")
    assert documents(out) == []


def test_tables_are_for_people(server: LiveServer, capsys: pytest.CaptureFixture[str]) -> None:
    inside(server, capsys, "topics", "create", "orders")
    code, out, _ = inside(server, capsys, "--table", "topics", "list")
    assert code == OK
    assert out.splitlines()[0].split()[:2] == ["NAME", "TYPE"]
    assert out.splitlines()[1].startswith("orders")
    _, out, _ = inside(server, capsys, "--table", "topics", "show", "orders")
    assert "QUEUE" in out


@pytest.mark.capabilities("inflight_figures")
def test_no_ack_puts_messages_back(server: LiveServer, capsys: pytest.CaptureFixture[str]) -> None:
    inside(server, capsys, "produce", "t", "--body", "x")
    code, out, _ = inside(server, capsys, "consume", "g", "t", "--count", "1", "--no-ack")
    assert (code, len(documents(out))) == (OK, 1)
    with Client(server.url) as client:
        lag = client.groups.lag("g")
    assert (lag.count, lag.inflight) == (1, 0)


def test_consume_ends_when_nothing_comes(
    server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    inside(server, capsys, "topics", "create", "t")
    code, out, err = inside(server, capsys, "consume", "g", "t", "--timeout", "0.05")
    assert (code, out) == (OK, "")
    assert "0 received" in err


def test_tail_shows_what_is_there_and_what_comes_and_consumes_nothing(
    server: LiveServer,
) -> None:
    with Client(server.url) as client:
        client.messages.send("t", [NewMessage(f"{number}", queue=0) for number in range(3)])
    process = start(server, "tail", "t", "--last", "1", "--count", "2")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["body"] == "2"
    with Client(server.url) as client:
        client.messages.send("t", [NewMessage("new", queue=1)])
        assert json.loads(process.stdout.readline())["body"] == "new"
        assert process.wait(10) == OK
        assert list(client.groups.list()) == []
    process.stdout.close()


@pytest.mark.capabilities("inflight_figures")
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_consume_cleanly_and_puts_back_what_it_held(
    server: LiveServer, stop: signal.Signals
) -> None:
    with Client(server.url) as client:
        client.messages.send("t", [Message(body="x")])
    process = start(server, "consume", "g", "t")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["body"] == "x"
    process.send_signal(stop)
    assert process.wait(30) in (OK, 130)
    process.stdout.close()
    with Client(server.url) as client:
        assert client.groups.lag("g").inflight == 0


def test_a_reader_that_has_enough_is_no_error(server: LiveServer) -> None:
    with Client(server.url) as client:
        client.messages.send("t", [Message(body="x" * 1000) for _ in range(500)])
    process = start(server, "tail", "t", "--from-start")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    timer = threading.Timer(20, process.kill)
    timer.start()
    assert process.wait(30) == OK
    timer.cancel()


def test_bench_measures_and_cleans_up(
    server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = inside(server, capsys, "bench", "--count", "2000", "--size", "10")
    assert code == OK
    rows = documents(out)
    assert [row["line"] for row in rows] == ["produce", "consume", "send and wait"]
    assert all(row["messages_per_s"] > 0 for row in rows)
    with Client(server.url) as client:
        assert list(client.topics.list()) == []


@pytest.mark.capabilities("log_figures")
def test_a_store_is_verified_while_its_server_runs(
    server: LiveServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    inside(server, capsys, "produce", "t", "--body", "x", "--count", "7")
    code, out, _ = inside(server, capsys, "store", "verify", str(tmp_path / "data"))
    (report,) = documents(out)
    assert (code, report["sound"], report["records"]) == (OK, True, 7)


@pytest.mark.capabilities("log_figures")
def test_a_damaged_store_exits_1_and_a_missing_one_2(
    server: LiveServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    inside(server, capsys, "produce", "t", "--body", "original", "--count", "3")
    server.stop()
    (segment,) = (tmp_path / "data" / "commitlog").iterdir()
    with segment.open("r+b") as file:
        at = file.read(4096).index(b"original")
        file.seek(at)
        file.write(b"tampered")
    code, out, err = inside(server, capsys, "store", "verify", str(tmp_path / "data"))
    assert (code, documents(out)[0]["sound"]) == (FAILED, False)
    assert err
    code, _, err = inside(server, capsys, "store", "verify", str(tmp_path / "nothing"))
    assert code == REFUSED
    assert "no commit log" in err


@pytest.mark.capabilities("log_figures")
def test_two_stores_are_compared_and_what_differs_is_named(
    server: LiveServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    inside(server, capsys, "produce", "t", "--body", "original", "--count", "3")
    server.stop()
    data, copy = tmp_path / "data", tmp_path / "copy"
    shutil.copytree(data, copy)
    words = ("store", "verify", str(copy), "--against", str(data))
    code, out, _ = inside(server, capsys, *words)
    (report,) = documents(out)
    assert (code, report["equal"], report["differences"]) == (OK, True, 0)
    (segment,) = (copy / "commitlog").iterdir()
    with segment.open("r+b") as file:
        at = file.read(4096).index(b"original")
        file.seek(at)
        file.write(b"tampered")
    code, out, err = inside(server, capsys, *words)
    assert (code, documents(out)[0]["differences"]) == (FAILED, 1)
    assert f"commitlog/{segment.name} differs at {at}" in err
    code, _, err = inside(server, capsys, *words[:-1], str(tmp_path / "nothing"))
    assert code == REFUSED
    assert "no commit log" in err


@pytest.mark.capabilities("log_figures")
def test_a_store_whose_server_runs_is_not_repaired_and_a_sound_one_stays_as_it_is(
    server: LiveServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    inside(server, capsys, "produce", "t", "--body", "x", "--count", "3")
    code, _, err = inside(server, capsys, "store", "repair", "--data", str(tmp_path / "data"))
    assert code != OK
    assert "a server uses" in err
    server.stop()
    code, out, _ = inside(server, capsys, "store", "repair", "--data", str(tmp_path / "data"))
    assert (code, documents(out)) == (OK, [{"repaired": 0, "kept": 0, "missing": 0}])


def start(server: LiveServer, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "kitemq", *arguments],
        env={**os.environ, "KITEMQ_SERVER": server.url},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def test_the_server_may_be_named_after_the_command(
    server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topics", "list", "--json", "--server", server.url]) == OK
    assert capsys.readouterr().err == ""
    assert main(["topics", "list", "--server", "http://127.0.0.1:9"]) == 4


def test_tail_shows_its_token_as_every_command_does(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KITEMQ_TOKEN", "kite_the_token")
    heads: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                heads.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\n{}")

        thread = threading.Thread(target=answer)
        thread.start()
        main(["--server", f"http://127.0.0.1:{listener.getsockname()[1]}", "tail", "t"])
        thread.join(60)
    capsys.readouterr()
    assert b"Authorization: Bearer kite_the_token" in heads[0]


def test_json_and_a_table_at_once_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--json", "topics", "list", "--table"])
    assert ended.value.code == REFUSED
    assert "--table" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "completions"),
    [("kitemq ret", {"retention"}), ("kitemq topics cr", {"create"}),
     ("kitemq topics create t --trace", {"--trace-sample"}),
     ("kitemq dead list g --state ", {"open", "resent", "dismissed", "all"})],
)  # fmt: skip
def test_a_shell_completes_commands_options_and_choices(line: str, completions: set[str]) -> None:
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    ran = subprocess.run(
        [sys.executable, "-m", "kitemq"],
        env={**os.environ, **words, VARIABLE: "bash_complete"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert {each.partition(",")[2] for each in ran.stdout.splitlines()} == completions


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell_asks_the_command(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == OK
    assert f"{VARIABLE}={shell}_complete" in capsys.readouterr().out
