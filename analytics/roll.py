"""Turns what the engine recorded into Parquet: `python -m analytics.roll --data DIR --upto …`.

Reads the log once, from where the manifest says that the last run ended up to the position that the
server confirms to be on disk: every record of users' messages, retries, dead letters, delayed and
half messages becomes a row of the frame `messages` (without its body), every trace record its rows
of `trace`; whole blocks of lag samples become rows of `lag`. A killed run is repeated by the next
one without a double or a missing row. Nothing here starts a Java machine or disturbs the server: it
only reads its files, in the idle scheduling class.
"""

import argparse
import fcntl
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from analytics.errors import AnalyticsError, Refused, ServerFailed, StoreUnreadable
from analytics.frames import TraceTable, by_role, lag_table, messages_table
from analytics.log import STEP_BYTES, LogChunk, LogView, walk
from analytics.manifest import Counters, FrameManifest, load
from analytics.partitions import Partitions
from analytics.quiet import become_idle
from analytics.records import LogRecords
from analytics.schemas import FRAMES, LAG, MESSAGES, TRACE
from engine.errors import Corrupt
from engine.statistics import lag_block
from engine.statistics.lag_block import Block

if TYPE_CHECKING:
    from analytics.brokers import ClusterAccess

COMMIT_BYTES = 512 * 1024 * 1024  # of the log: so much is read again at most after a kill
KEEP_DAYS = 90
OPEN_LAG, LAG_SUFFIX, LAG_DIGITS = "open.lag", ".lag", 20
PATIENCE_S = 5.0  # with a broker that does not answer
EXIT_FAILED, EXIT_REFUSED, EXIT_BUSY, EXIT_CLUSTER = 1, 2, 4, 5
FILE_URL = "file://"


class ConfirmedEnd(msgspec.Struct, frozen=True):
    """What the server confirms: `position` of the log is on disk, as of `at_ms` on its clock.

    Everything that the engine stored before `at_ms` must lie below it, or hours are sealed early.
    A server before a cluster has no log: its `position` is None, and `cluster` has the messages.
    """

    position: int | None
    at_ms: int
    cluster: "ClusterAccess | None" = None


class Rolled(msgspec.Struct):
    """What a run did; `dirty` are the hours that got rows, by frame. Counters are of this run."""

    position: int
    lag_ms: int
    at_ms: int
    sequence: int
    rows: dict[str, int]
    dirty: dict[str, list[str]]
    counters: Counters
    compacted: int
    expired_hours: int
    seconds: float
    failure: str = ""  # of the reading of a cluster; the rest was done


class Busy(AnalyticsError):
    """Another run writes this folder."""


def roll(
    data: Path,
    root: Path,
    ends: ConfirmedEnd,
    *,
    keep_days: int = KEEP_DAYS,
    keep_bytes: int = 0,
    step_bytes: int = STEP_BYTES,
    commit_bytes: int = COMMIT_BYTES,
) -> Rolled:
    """Bring the folder `root` up to `ends`; raises StoreUnreadable, Refused, Busy.

    Memory stays below some 20 times `step_bytes`, however much there is to do.
    """
    began_s = time.monotonic()
    root.mkdir(parents=True, exist_ok=True)
    with _lock(root):
        manifest = load(root)
        before = {frame: manifest.fingerprints(frame) for frame in FRAMES}
        counted = msgspec.structs.replace(manifest.counters)
        partitions = Partitions(root, manifest, ends.at_ms)
        if ends.position is not None:
            with LogView(data, ends.position) as log:
                _check(log, manifest)
                _roll_log(log, partitions, step_bytes, commit_bytes)
        is_whole, failure = _roll_cluster(ends, partitions, root)
        _roll_lag(data / "lag", partitions)
        if is_whole:
            manifest.at_ms = max(manifest.at_ms, ends.at_ms)
        partitions.commit()
        compacted, expired_hours = partitions.seal(), partitions.expire(keep_days, keep_bytes)
        partitions.finish()
        return Rolled(
            position=manifest.position,
            lag_ms=manifest.lag_ms,
            at_ms=manifest.at_ms,
            sequence=manifest.sequence,
            rows=partitions.rows,
            dirty={
                frame: _changed(before[frame], manifest.fingerprints(frame)) for frame in before
            },
            counters=_difference(manifest.counters, counted),
            compacted=compacted,
            expired_hours=expired_hours,
            seconds=round(time.monotonic() - began_s, 3),
            failure=failure,
        )


def _roll_cluster(ends: ConfirmedEnd, into: Partitions, root: Path) -> tuple[bool, str]:
    """Whether everything that was stored before is in, and why reading ended before that."""
    if ends.cluster is None:
        return True, ""
    from analytics.brokers import BrokerClient  # only where there is one
    from analytics.cluster_roll import ClusterRoll

    try:
        with BrokerClient(ends.cluster, patience_s=PATIENCE_S) as client:
            return ClusterRoll(client, into, root, ends.at_ms).run(), ""
    except (Refused, ServerFailed) as error:
        return False, str(error)


def _check(log: LogView, manifest: FrameManifest) -> None:
    if manifest.is_of_cluster:
        raise Refused(
            "the folder has the messages of a cluster",
            "give this store a folder of its own, or move the old one away",
            field="root",
        )
    if log.end < manifest.position:
        raise Refused(
            f"the log is confirmed up to {log.end}, but was read up to {manifest.position} before",
            "this is another store: give it a folder of its own, or move the old one away",
            field="upto",
        )
    last = log.bases()[-1] + log.segment_bytes if log.bases() else log.end
    if log.end > last:
        raise Refused(
            f"position {log.end} lies behind the log's files",
            "pass the position of this very store",
            field="upto",
        )


def _roll_log(log: LogView, into: Partitions, step_bytes: int, commit_bytes: int) -> None:
    manifest = into.manifest
    committed = manifest.position
    for stretch in walk(log, manifest.position, step_bytes):
        _take(stretch, into)
        manifest.position = stretch.end
        if manifest.position - committed >= commit_bytes:
            into.commit()
            committed = manifest.position


def _take(stretch: LogChunk, into: Partitions) -> None:
    """The rows of one piece of the log."""
    counters = into.manifest.counters
    counters.expired_bytes += stretch.expired_bytes
    counters.damaged_bytes += stretch.damaged_bytes
    if not stretch.starts:
        return
    records = LogRecords(stretch.data, stretch.starts, first_position=stretch.position)
    counters.damaged_records += records.damaged
    roles, which = by_role(records)
    traces = TraceTable()
    if "trace" in roles:
        positions = records.position()
        for index in (which == roles.index("trace")).nonzero()[0].tolist():
            traces.add(int(positions[index]), records.body(index))
    counters.damaged_records += traces.damaged
    if "" in roles:
        counters.own_records += int((which == roles.index("")).sum())
    events = traces.table()
    if events is not None:
        into.add(TRACE, events)
    wanted = [number for number, role in enumerate(roles) if role not in ("", "trace")]
    if wanted:
        kept = which == wanted[0]
        for number in wanted[1:]:
            kept |= which == number
        records.keep(kept)
        into.add(MESSAGES, messages_table(records))


def _roll_lag(directory: Path, into: Partitions) -> None:
    """The rounds that are younger than the last one taken, oldest first."""
    manifest = into.manifest
    for block in _lag_blocks(directory, manifest.lag_ms, manifest.counters):
        table = lag_table(block, manifest.lag_ms)
        if table is not None:
            into.add(LAG, table)
        manifest.lag_ms = max(manifest.lag_ms, block.head.last_ms)


def _lag_blocks(directory: Path, after_ms: int, counters: Counters) -> Iterator[Block]:
    # The open file first: what is sealed while we read is then in both, and taken once.
    pending = list(_blocks_of(directory / OPEN_LAG, -1, None))
    try:
        names = sorted(os.listdir(directory))  # noqa: PTH208 (names, not paths)
    except FileNotFoundError:
        names = []
    for name in names:
        if name.endswith(LAG_SUFFIX) and len(name) == LAG_DIGITS + len(LAG_SUFFIX):
            yield from _blocks_of(directory / name, after_ms, counters)
    yield from pending


def _blocks_of(path: Path, after_ms: int, counters: Counters | None) -> Iterator[Block]:
    """The blocks of a file with anything younger than `after_ms`, up to the first torn one.

    `counters` is given for a file that is sealed: a damaged block before its end is counted.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        position, size_bytes = 0, path.stat().st_size
        while position < size_bytes:
            file.seek(position)
            head = lag_block.read_head(file.read(lag_block.HEAD.size))
            if head is None or position + head.size_bytes > size_bytes:
                return
            if head.last_ms > after_ms:
                file.seek(position)
                try:
                    yield Block(file.read(head.size_bytes))
                except (Corrupt, ValueError):
                    if counters is None:
                        return
                    counters.damaged_blocks += 1
            position += head.size_bytes


def _changed(before: dict[str, str], after: dict[str, str]) -> list[str]:
    return sorted(hour for hour, each in after.items() if before.get(hour) != each)


def _difference(after: Counters, before: Counters) -> Counters:
    pairs = zip(msgspec.structs.astuple(after), msgspec.structs.astuple(before), strict=True)
    return Counters(*(now - then for now, then in pairs))


@contextmanager
def _lock(root: Path) -> Iterator[None]:
    """Be the only one to write the folder; Busy where another process is."""
    fd = os.open(root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Busy(f"another process writes {root}", "wait until it has ended") from None
        yield
    finally:
        os.close(fd)


def local_folder(text: str) -> Path:
    """The folder that a path or a file: URL names; Refused for any other URL."""
    if text.startswith(FILE_URL):
        return Path(text.removeprefix(FILE_URL))
    if "://" in text:
        raise Refused(
            f"{text!r} is no folder of this machine",
            "Parquet is written into a local or shared file system; copy it to an object store "
            "from there",
            field="root",
        )
    return Path(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when done; 1 where the disk refuses, 2 for a wrong option, 4 while another run is at it.

    5 where a cluster could not be read to its end; the rest is done then.
    """
    options = _parser().parse_args(arguments)
    become_idle()
    try:
        at_ms = options.at_ms or int(time.time() * 1000)
        ends = ConfirmedEnd(options.upto, at_ms, _access(options.rocketmq))
        root = local_folder(options.root) if options.root else options.data / "analytics"
        rolled = roll(
            options.data, root, ends, keep_days=options.keep_days, keep_bytes=options.keep_bytes
        )
    except Busy as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_BUSY
    except (Refused, StoreUnreadable) as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_REFUSED
    except OSError as error:  # a full disk, most likely: the next run goes on from the last commit
        sys.stderr.write(f"the folder cannot be written: {error}\n")
        return EXIT_FAILED
    sys.stdout.write(msgspec.json.encode(rolled).decode() + "\n")
    if rolled.failure:
        sys.stderr.write(f"{rolled.failure}\n")
        return EXIT_CLUSTER
    return 0


def _access(name_servers: str) -> "ClusterAccess | None":
    """The cluster of these name servers, by the keys of the environment; Refused."""
    if not name_servers:
        return None
    from analytics.brokers import access_of

    return access_of({"rocketmq": name_servers})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m analytics.roll",
        description="Write what the engine recorded as Parquet. Prints what it did as JSON.",
    )
    parser.add_argument("--data", type=Path, required=True, help="data directory of the server")
    parser.add_argument("--root", default="", help="folder of the Parquet; default DATA/analytics")
    parser.add_argument(
        "--upto",
        type=int,
        help="log position that the server says is on disk; without it no log is read",
    )
    parser.add_argument(
        "--rocketmq", default="", help="name servers of the cluster that has the messages instead"
    )
    parser.add_argument(
        "--at-ms", type=int, default=0, help="server's time when it said so; default now"
    )
    parser.add_argument(
        "--keep-days", type=int, default=KEEP_DAYS, help="days of Parquet to keep; 0 keeps all"
    )
    parser.add_argument(
        "--keep-bytes", type=int, default=0, help="bytes of messages and traces; 0 sets no limit"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
