"""An hour of Parquet as the roll writes it: messages, their deliveries, ends and retries.

`write(root, rows, hour)` makes about `rows` trace rows by the roll's own writer: 20 topics with 8
queues, each read by two groups with 8 clients; two attempts in a hundred fail and are made again.
Runs are of one message, which is the dearest case. The same rows for the same number.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from analytics.manifest import FrameManifest
from analytics.partitions import Partitions
from analytics.schemas import LAG, MESSAGES, TRACE, arrow_schema

TOPICS, QUEUES, CLIENTS, TAGS, KEYS = 20, 8, 8, 12, 50_000
GROUPS = ("billing", "search")
ROWS_PER_MESSAGE = 4.08  # of two groups: delivered and acked, and what failed
FAILED_SHARE = 0.02
RECORD_ROWS, RECORD_BYTES, MESSAGE_BYTES = 250, 4_000, 300
PIECE_ROWS = 250_000  # handed to the writer at once, as the roll does
HOUR_MS = 3_600_000
SEED = 5
KINDS = pa.array(["delivered", "acked", "failed"])
SAMPLE_MS, LAG_QUEUES = 10_000, 4
Ints = npt.NDArray[np.int64]
Columns = dict[str, "pa.Array | Ints"]


def write(root: Path, rows: int, hour: int) -> str:
    """Write an hour (its number) of about `rows` trace rows into a new folder; the hour's name.

    A server with an empty log may go on rolling its own into it.
    """
    chance = np.random.default_rng(SEED)
    begin = hour * HOUR_MS
    count = max(1, int(rows / ROWS_PER_MESSAGE))
    stored = np.sort(chance.integers(begin, begin + HOUR_MS * 9 // 10, count))
    sent: dict[str, Ints] = {
        "topic": chance.integers(0, TOPICS, count),
        "queue": chance.integers(0, QUEUES, count),
        "stored_ms": stored,
        "born_ms": stored - chance.integers(0, 50, count),
    }
    sent["offset"] = _numbered(sent["topic"] * QUEUES + sent["queue"])
    events, retries = _lives(chance, sent)
    root.mkdir(parents=True)
    manifest = FrameManifest()
    partitions = Partitions(root, manifest, begin + 2 * HOUR_MS)
    _add(partitions, MESSAGES, _messages(chance, sent, retries))
    _add(partitions, TRACE, _trace(events))
    manifest.at_ms = begin + HOUR_MS + 180_000
    partitions.commit()
    partitions.seal()
    partitions.finish()
    return next(iter(manifest.partitions(TRACE)))


def write_lag(root: Path, rows: int, hour: int) -> str:
    """Write about `rows` samples of one hour: groups that read four queues each and fall behind."""
    rounds = min(HOUR_MS // SAMPLE_MS, max(1, rows // LAG_QUEUES))
    queues = max(1, rows // rounds)
    number = np.repeat(np.arange(rounds), queues)
    queue = np.tile(np.arange(queues), rounds)
    at_ms = hour * HOUR_MS + number * SAMPLE_MS
    lag = number * (queue % 3)
    groups = pa.array([f"group-{each}" for each in range(-(-queues // LAG_QUEUES))])
    columns: Columns = {
        "at_ms": at_ms,
        "group": groups.take(pa.array(queue // LAG_QUEUES)),
        "topic": pa.array(["topic-0"] * len(queue)),
        "queue": queue % LAG_QUEUES,
        "max_offset": 300 * number,
        "committed": 300 * number - lag,
        "cursor": 300 * number,
        "lag": lag,
        "is_matching": pa.array(np.ones(len(queue), dtype=bool)),
        "oldest_ms": at_ms - 33 * lag,
        "members": np.full(len(queue), 2),
        "active_ms": at_ms,
        **{name: np.zeros(len(queue), dtype=np.int64) for name in UNMOVED},
    }
    root.mkdir(parents=True)
    manifest = FrameManifest()
    partitions = Partitions(root, manifest, (hour + 2) * HOUR_MS)
    _add(partitions, LAG, _table(LAG, columns, len(queue)))
    manifest.at_ms = manifest.lag_ms = (hour + 1) * HOUR_MS
    partitions.commit()
    return next(iter(manifest.partitions(LAG)))


UNMOVED = ("min_offset", "inflight", "retry_waiting", "dead", "expired", "resets")


def _numbered(keys: Ints) -> Ints:
    """0, 1, 2 … among those of the same key, in order."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[begins, len(keys)])
    numbers = np.empty(len(keys), dtype=np.int64)
    numbers[order] = np.arange(len(keys)) - np.repeat(begins, lengths)
    return numbers


def _lives(chance: np.random.Generator, sent: dict[str, Ints]) -> tuple[Columns, Columns]:
    """What happened in order of time; and the retries that were stored. Topics are numbers."""
    parts: list[dict[str, Ints]] = []
    stored: list[dict[str, Ints]] = []
    for group in range(len(GROUPS)):
        has_failed = chance.random(len(sent["topic"])) < FAILED_SHARE
        parts += _attempt(chance, sent, group, 1, has_failed)
        origin = {name: column[has_failed] for name, column in sent.items()}
        count = len(origin["topic"])
        again = origin | {
            "origin": origin["topic"],
            "topic": np.full(count, TOPICS + group),
            "queue": np.zeros(count, dtype=np.int64),
            "stored_ms": origin["stored_ms"] + 10_000,
            "offset": np.arange(count),
        }
        stored.append(again)
        parts += _attempt(chance, again, group, 2, np.zeros(count, dtype=bool))
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(joined["at_ms"], kind="stable")
    retries = {name: np.concatenate([part[name] for part in stored]) for name in stored[0]}
    by_time = np.argsort(retries["stored_ms"], kind="stable")
    return (
        {name: column[order] for name, column in joined.items()},
        {name: column[by_time] for name, column in retries.items()},
    )


def _attempt(
    chance: np.random.Generator,
    sent: dict[str, Ints],
    group: int,
    attempt: int,
    has_failed: npt.NDArray[np.bool_],
) -> list[dict[str, Ints]]:
    """Each message delivered to a group, and that attempt's end."""
    count = len(sent["topic"])
    delivered_ms = sent["stored_ms"] + chance.exponential(200, count).astype(np.int64)
    ended = delivered_ms + chance.exponential(50, count).astype(np.int64)
    client = chance.integers(0, CLIENTS, count)
    place = {name: sent[name] for name in ("topic", "queue", "offset", "born_ms", "stored_ms")}
    place |= {"group": np.full(count, group), "client": client}
    last = (int(sent["stored_ms"][0]) // HOUR_MS + 1) * HOUR_MS - 1 if count else 0
    return [
        place
        | {
            "at_ms": np.minimum(at_ms, last),
            "kind": np.asarray(kind, dtype=np.int64),
            "attempt": np.full(count, attempt),
        }
        for at_ms, kind in ((delivered_ms, np.zeros(count)), (ended, 1 + has_failed))
    ]


def _names() -> "pa.Array":
    """Of all topics by their numbers, the groups' retry topics last."""
    topics = [f"topic-{number}" for number in range(TOPICS)]
    return pa.array([*topics, *(f"%RETRY%{group}" for group in GROUPS)])


def _trace(events: Columns) -> "pa.Table":
    rows = np.arange(len(events["at_ms"]))
    is_delivery = pa.array(events["kind"] == 0)
    clients = pa.array([f"{group}-{number}" for group in GROUPS for number in range(CLIENTS)])
    client = clients.take(pa.array(events["group"] * CLIENTS + events["client"]))
    of_delivery = {"client": client, "attempt": pa.array(events["attempt"])}
    of_delivery |= {name: pa.array(events[name]) for name in ("born_ms", "stored_ms")}
    columns: Columns = {
        name: pc.if_else(is_delivery, column, "" if name == "client" else None)
        for name, column in of_delivery.items()
    }
    columns |= {
        "log_position": rows // RECORD_ROWS * RECORD_BYTES,
        "row_number": rows % RECORD_ROWS,
        "at_ms": events["at_ms"],
        "kind": KINDS.take(pa.array(events["kind"])),
        "group": pa.array(GROUPS).take(pa.array(events["group"])),
        "topic": _names().take(pa.array(events["topic"])),
        "queue": events["queue"],
        "first_offset": events["offset"],
        "message_count": np.ones(len(rows), dtype=np.int64),
        "wait_ms": np.zeros(len(rows), dtype=np.int64),
        "sample": np.full(len(rows), 10_000),
    }
    failed = pa.array(events["kind"] == 2)
    columns["detail"] = pc.if_else(failed, "it broke", "")
    return _table(TRACE, columns, len(rows))


def _messages(chance: np.random.Generator, sent: dict[str, Ints], retries: Columns) -> "pa.Table":
    count, again = len(sent["topic"]), len(retries["topic"])
    rows = count + again
    both = {name: np.concatenate([sent[name], retries[name]]) for name in sent}
    origin = np.concatenate([sent["topic"], retries["origin"]])
    numbers = [f"7F000001{number:024X}" for number in range(count)]
    group = pa.array([*GROUPS, ""]).take(
        pa.array(np.concatenate([np.full(count, len(GROUPS)), retries["topic"] - TOPICS]))
    )
    ids = pa.array(numbers).take(pa.array(np.arange(rows) % count))
    columns: Columns = {
        "log_position": np.arange(rows) * MESSAGE_BYTES,
        "topic": _names().take(pa.array(both["topic"])),
        "queue": both["queue"],
        "offset": both["offset"],
        "role": pa.array(["message", "retry"]).take(pa.array((np.arange(rows) >= count) * 1)),
        "stored_ms": both["stored_ms"],
        "born_ms": both["born_ms"],
        "size_bytes": np.full(rows, MESSAGE_BYTES),
        "body_bytes": np.full(rows, MESSAGE_BYTES - 100),
        "tag": pa.array([f"tag-{n}" for n in range(TAGS)]).take(
            pa.array(chance.integers(0, TAGS, rows))
        ),
        "keys": pa.array([f"key-{n}" for n in range(KEYS)]).take(
            pa.array(chance.integers(0, KEYS, rows))
        ),
        "message_id": ids,
        "attempt": 1 + (np.arange(rows) >= count),
        "group": group,
        "origin_topic": _names().take(pa.array(origin)),
        "is_transaction": pa.array(np.zeros(rows, dtype=bool)),
    }
    return _table(MESSAGES, columns, rows)


def _table(frame: str, columns: Columns, rows: int) -> "pa.Table":
    """With NULL or "" in every column that has nothing."""
    arrays = []
    for each in arrow_schema(frame):
        column = columns.get(each.name)
        if column is None:
            nothing = pa.scalar("" if each.type == pa.string() else None, each.type)
            column = pa.repeat(nothing, rows)
        arrays.append(pa.array(column).cast(each.type))
    return pa.Table.from_arrays(arrays, schema=arrow_schema(frame))


def _add(partitions: Partitions, frame: str, table: "pa.Table") -> None:
    for begin in range(0, table.num_rows, PIECE_ROWS):
        partitions.add(frame, table.slice(begin, PIECE_ROWS))
