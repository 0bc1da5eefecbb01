"""Replay jobs over REST, the SDK and the command line."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kitemq import Client, Message, Refused
from kitemq.cli import main
from tests.app.api.dead_letters.test_dead_letters import bury, trail
from tests.app.conftest import App
from tests.crash.process import ServerProcess
from tests.live import LiveServer
from tests.patience import until

asked = pytest.mark.anyio
OK, REFUSED, PARTIAL = 0, 2, 3


@asked
async def test_a_dry_run_then_the_same_in_earnest(running: App) -> None:
    await running.post("/topics", {"name": "copies", "read_queues": 1, "write_queues": 1}, 201)
    await running.send("orders", "a", "b", queue=0, tag="x")
    await running.send("orders", "c", queue=0)
    new = {"source": "orders", "to": "topic", "to_name": "copies", "filter": "x", "rate": 0}
    dry = await running.post("/replays", {**new, "dry_run": True, "name": "try"}, 201)
    running.advance(0)
    done = await running.get(f"/replays/{dry['id']}")
    assert (done["dry_run"], done["state"], done["name"]) == (True, "finished", "try")
    assert done["totals"] == {"filtered": 1, "eligible": 2}
    assert (await running.get("/topics/copies"))["messages"] == 0
    await running.send("orders", "late", queue=0, tag="x")
    await running.post(f"/replays/{dry['id']}/begin", {})
    running.advance(0)
    done = await running.get(f"/replays/{dry['id']}")
    assert (done["dry_run"], done["totals"]) == (False, {"filtered": 1, "sent": 2})
    assert (await running.get("/topics/copies"))["messages"] == 2
    outcomes = await running.get(f"/replays/{dry['id']}/outcomes?limit=2")
    assert [row["outcome"] for row in outcomes["items"]] == ["sent", "sent"]
    rest = await running.get(f"/replays/{dry['id']}/outcomes?cursor={outcomes['next_cursor']}")
    assert [row["outcome"] for row in rest["items"]] == ["filtered"]
    only = await running.get(f"/replays/{dry['id']}/outcomes?outcome=filtered")
    assert [(row["queue"], row["offset"]) for row in only["items"]] == [(0, "2")]
    await running.get(f"/replays/{dry['id']}/outcomes?outcome=lost", 422)


@asked
async def test_each_order_changes_the_job_and_is_in_the_trail(running: App) -> None:
    await bury(running, *map(str, range(20)))
    new = {"source": "%DLQ%billing", "to": "origin", "rate": 1}
    job = await running.post("/replays", new, 201)
    running.advance(0)
    path = f"/replays/{job['id']}"
    assert (await running.post(f"{path}/pause", {}))["state"] == "paused"
    running.advance(10)
    paused = await running.get(path)
    assert paused["totals"] == {"sent": 1, "pending": 19}
    assert (await running.post(f"{path}/pause", {}, 409))["code"] == "conflict"
    assert (await running.post(f"{path}/resume", {}))["state"] == "running"
    answer = await running.http.patch(f"/api/v1{path}", json={"rate": 10})
    assert answer.json()["rate"] == 10
    running.advance(1)
    stopped = await running.post(f"{path}/stop", {})
    assert stopped["state"] == "stopped"
    assert sum(stopped["totals"].values()) == 20
    assert stopped["totals"]["stopped"] > 0
    assert [entry["action"] for entry in reversed(await trail(running))] == [
        "replay.create",
        "replay.pause",
        "replay.pause",
        "replay.resume",
        "replay.change_rate",
        "replay.stop",
    ]


@asked
async def test_jobs_are_listed_by_source_and_state(running: App) -> None:
    await running.send("orders", "a", queue=0)
    new = {"source": "orders", "to": "origin"}
    jobs = [await running.post("/replays", new, 201) for _ in range(3)]
    running.advance(1)
    first = await running.get("/replays?limit=2")
    assert [job["id"] for job in first["items"]] == [jobs[2]["id"], jobs[1]["id"]]
    rest = await running.get(f"/replays?limit=2&cursor={first['next_cursor']}")
    assert [job["id"] for job in rest["items"]] == [jobs[0]["id"]]
    assert (await running.get("/replays?source=bills"))["items"] == []
    await running.get("/replays/nonsense", 404)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    live = LiveServer(tmp_path / "data")
    live.start()
    yield live
    live.stop()


def kill(client: Client, count: int) -> None:
    client.topics.create("orders", read_queues=1, write_queues=1)
    client.groups.create("billing")
    client.messages.send("orders", [Message(body=str(number)) for number in range(count)])
    for each in client.deliveries.receive("billing", "orders", max=count):
        client.deliveries.reject("billing", [each.receipt], error="bad")


def test_the_sdk_redrives_and_a_restart_in_the_middle_loses_and_repeats_nothing(
    server: LiveServer,
) -> None:
    with Client(server.url) as client:
        kill(client, 60)
        job = client.dead_letters.redrive("billing", to="origin", rate=100, name="again")
        while not client.replays.get(job.id).totals.get("sent"):
            pass
        server.stop()
        server.start()
        done = client.replays.wait(job.id, timeout_s=20)
        assert (done.state, done.totals) == ("finished", {"sent": 60})
        pulled = client.messages.pull("orders", 0, 60, limit=160).messages
        assert [int(each.body) for each in pulled] == list(range(60))
        assert len(list(client.replays.outcomes(job.id, outcome="sent"))) == 60
        assert {
            each.redriven_by[0] for each in client.dead_letters.list("billing", state="all")
        } == {job.id}
        assert client.dead_letters.count("billing").redriven == 60
        assert client.dead_letters.get("billing", 0).error == "bad"
        assert [each.id for each in client.replays.list()] == [job.id]
        with pytest.raises(Refused):
            client.replays.pause(job.id)


def test_the_command_line_lists_redrives_and_steers(
    server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str) -> tuple[int, list[dict[str, object]], str]:
        code = main(["--server", server.url, *arguments])
        captured = capsys.readouterr()
        return code, [json.loads(line) for line in captured.out.splitlines()], captured.err

    with Client(server.url) as client:
        kill(client, 20)
        code, rows, _ = run("dead", "list", "billing", "--reason", "rejected", "--limit", "5")
        assert (code, len(rows), rows[0]["error"]) == (OK, 5, "bad")
        assert run("dead", "show", "billing", "3")[1][0]["origin_topic"] == "orders"
        assert run("dead", "count", "billing")[1][0]["reasons"] == {"rejected": 20}
        code, (dry,), err = run("dead", "redrive", "billing", "1", "2", "--dry-run")
        assert (code, dry["totals"]) == (OK, {"eligible": 2})
        assert "nothing was sent" in err
        run("replay", "begin", str(dry["id"]))
        assert client.replays.wait(str(dry["id"])).totals == {"sent": 2}
        code, (job,), _ = run("dead", "redrive", "billing", "--fresh", "--rate", "0", "--wait")
        assert (code, job["totals"]) == (OK, {"sent": 18, "sent_before": 2})
        client.topics.delete("orders")
        code, (job,), _ = run("dead", "redrive", "billing", "--to", "origin", "--wait")
        assert (code, job["totals"]) == (PARTIAL, {"topic_gone": 20})
        code, rows, _ = run("replay", "outcomes", str(job["id"]), "--outcome", "topic_gone")
        assert (code, len(rows)) == (OK, 20)

        client.topics.create("copies", read_queues=1, write_queues=1)
        client.messages.send("bills", [Message(body="a")] * 9)
        code, (job,), _ = run(
            "replay", "start", "bills", "--to-name", "copies", "--rate", "0.01", "--from", "0"
        )
        for word, state in (("pause", "paused"), ("resume", "running"), ("stop", "stopped")):
            code, (told,), _ = run("replay", word, str(job["id"]))
            assert (code, told["state"]) == (OK, state)
        assert run("replay", "rate", str(job["id"]), "5")[0] == REFUSED
        assert run("replay", "show", str(job["id"]))[1][0]["state"] == "stopped"
        assert len(run("replay", "list")[1]) == 4
        assert run("replay", "start", "bills", "--to-name", "copies", "--range", "x")[0] == REFUSED
    assert main(["--server", server.url, "--table", "replay", "list"]) == OK
    assert "topic gone" in capsys.readouterr().out
    table = ("--server", server.url, "--table", "dead", "list", "billing", "--state", "resent")
    assert main(table) == OK
    assert "bad" in capsys.readouterr().out


@pytest.fixture
def process(tmp_path: Path) -> Iterator[ServerProcess]:
    server = ServerProcess(tmp_path / "data")
    server.start()
    yield server
    server.kill()


@pytest.mark.crash
def test_a_server_that_is_killed_in_the_middle_of_20000_sends_each_once(
    process: ServerProcess,
) -> None:
    count, server = 20_000, process
    with server.client() as client:
        client.topics.create("copies", read_queues=1, write_queues=1)
        client.groups.create("billing", retry_max=0)
        client.topics.create("orders", read_queues=1, write_queues=1)
        for start in range(0, count, 1000):
            client.messages.send(
                "orders", [Message(body=str(start + each)) for each in range(1000)]
            )
        while deliveries := client.deliveries.receive("billing", "orders", max=256):
            client.deliveries.nack("billing", [each.receipt for each in deliveries], error="bad")
        new = {"to": "topic", "to_name": "copies", "rate": 8000}
        job = client.dead_letters.redrive("billing", **new)
        assert job.selected == count

    def sent() -> int:
        with server.client() as client:
            return int(client.replays.get(job.id).totals.get("sent", 0))

    for enough in (4000, 9000, 14_000):
        until(lambda enough=enough: sent() >= enough)
        server.kill()
        server.start()
    with server.client() as client:
        done = client.replays.wait(job.id, timeout_s=60)
        assert (done.state, done.totals) == ("finished", {"sent": count})
        bodies: list[int] = []
        while len(bodies) < count:
            page = client.messages.pull("copies", 0, len(bodies), limit=160).messages
            assert page, "some are missing"
            bodies += [int(each.body) for each in page]
        assert client.topics.get("copies").messages == count
        assert bodies == list(range(count))
        assert (
            sum(bool(each.redriven_by) for each in client.dead_letters.list("billing", state="all"))
            == count
        )
    server.kill()
    assert server.verify() == ""
