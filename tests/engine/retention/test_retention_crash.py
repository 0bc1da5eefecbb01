"""A process that dies, or a machine that loses power, at any step of an expiry or a purge."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.broker import Broker, TopicConfig
from engine.clock import ManualClock
from engine.config import EngineConfig
from engine.message import Message
from engine.store.pool import InlinePool
from engine.store.verify import verify_store
from tests.engine.retention.parts import HOUR_S, bounds
from tests.engine.store.parts import HeldPool
from tests.simulation.disk import Crash, Disk

ROOT = Path("/data")
MESSAGES = 60
QUEUES = 2
ACKED = 10


class Story:
    """Sixty messages in two queues over some six segments, ten of each acknowledged."""

    def __init__(self, seed: int) -> None:
        self.disk = Disk(random.Random(seed))
        self.clock = ManualClock()
        self.start()
        self.broker.create_topic(TopicConfig("orders", read_queues=QUEUES, write_queues=QUEUES))
        for number in range(MESSAGES):
            queue = number % QUEUES
            body = f"{queue}.{number // QUEUES}".ljust(200, ".").encode()
            self.broker.send([Message("orders", body, queue=queue, keys=(f"k{number}",))])
        for _ in range(QUEUES):
            taken = self.broker.receive("g", {"orders": "*"}, count_max=ACKED)
            self.broker.ack("g", [each.receipt for each in taken])
        self.tick(2)
        self.tick(2)

    def start(self) -> None:
        config = EngineConfig(
            timer_log_bytes=4096,
            data=ROOT,
            segment_bytes=4096,
            queue_file_entries=7,
            index_slots=13,
            index_items=20,
            disk_free_min_bytes=0,
            retention_h=1,
        )
        self.files = self.disk.boot()
        self.broker = Broker(config, clock=self.clock, pool=InlinePool(), files=self.files)
        self.broker.start()

    def tick(self, seconds: float = 0.0) -> None:
        self.clock.advance(seconds)
        while self.broker.tick() <= 0:
            pass

    def die_at(self, step: int, act: Callable[[], None], *, is_power_lost: bool) -> bool:
        """Do `act`, die in its step with this number, and start again; False if it was over."""
        self.disk.crash_in = step
        try:
            act()
        except Crash:
            self.disk.lose_power() if is_power_lost else self.disk.kill()
            self.start()
            return True
        self.disk.crash_in = None
        return False

    def expire(self) -> None:
        """Everything is old: all segments but the last go, then the files that led there."""
        self.tick(2 * HOUR_S)
        self.tick(100)

    def bodies(self, queue: int) -> list[bytes]:
        first, end = bounds(self.broker, queue=queue)
        found = self.broker.pull("orders", queue, first, count_max=100).messages
        assert [message.offset for message in found] == list(range(first, end))
        return [message.body.rstrip(b".") for message in found]


def expected(queue: int, first: int) -> list[bytes]:
    return [f"{queue}.{offset}".encode() for offset in range(first, MESSAGES // QUEUES)]


def check(story: Story) -> None:
    """What is left is whole, is the end of what was sent, and is counted as before."""
    broker = story.broker
    report = verify_store(story.files, ROOT)
    assert report.is_sound, report.faults
    for queue in range(QUEUES):
        first, end = bounds(broker, queue=queue)
        assert end == MESSAGES // QUEUES
        assert story.bodies(queue) == expected(queue, first)
    for number in range(MESSAGES):
        queue, offset = number % QUEUES, number // QUEUES
        found = broker.messages_by_key("orders", f"k{number}")
        is_kept = offset >= bounds(broker, queue=queue)[0]
        assert len(found) <= is_kept, f"k{number}: readable though it is gone, or twice"
    received: list[bytes] = []
    while taken := broker.receive("g", {"orders": "*"}, count_max=100):
        received += [each.message.body.rstrip(b".") for each in taken]
        broker.ack("g", [each.receipt for each in taken])
    assert len(set(received)) == len(received)
    done = {f"{queue}.{offset}".encode() for queue in range(QUEUES) for offset in range(ACKED)}
    assert done.isdisjoint(received), "an acknowledged message came back"


@pytest.mark.parametrize("is_power_lost", [False, True], ids=["killed", "power-lost"])
def test_an_expiry_may_die_at_any_step(is_power_lost: bool) -> None:
    step = 0
    while True:
        step += 1
        story = Story(step)
        if not story.die_at(step, story.expire, is_power_lost=is_power_lost):
            break
        check(story)
        story.expire()
        assert story.broker.retention.status().segments == 1, f"step {step}: the rest goes later"
        check(story)
        sent = story.broker.send([Message("orders", b"next", queue=0)])
        assert sent.offsets == [MESSAGES // QUEUES]
    check(story)
    assert step > 20, "there were too few steps to prove anything"


@pytest.mark.parametrize("is_power_lost", [False, True], ids=["killed", "power-lost"])
def test_a_purge_may_die_at_any_step_and_is_whole_or_not_at_all(is_power_lost: bool) -> None:
    step = 0
    is_over = False
    while not is_over:
        step += 1
        for tear in range(8):  # a write that is cut off is cut off anywhere
            story = Story(100 * step + tear)
            is_over = not purge_dying_at(story, step, is_power_lost=is_power_lost)
    assert step > 4, "there were too few steps to prove anything"


def purge_dying_at(story: Story, step: int, *, is_power_lost: bool) -> bool:
    """Whether it died there; checks what is left."""
    said: list[int] = []

    def act() -> None:
        done = story.broker.retention.purge("orders", before_offset={0: 20, 1: 25})
        said.append(done.count)
        story.tick(100)

    has_died = story.die_at(step, act, is_power_lost=is_power_lost)
    firsts = (bounds(story.broker, queue=0)[0], bounds(story.broker, queue=1)[0])
    assert firsts in ((0, 0), (20, 25)), "the purge is half done"
    if said and not is_power_lost:
        assert firsts == (20, 25), "it was said to be done"
    check(story)
    return has_died


def test_a_purge_to_the_end_hides_nothing_that_comes_after_a_power_loss() -> None:
    """The loss may take messages that were purged, and give their offsets to others."""
    for seed in range(40):
        story = Story(seed)
        for number in range(6):
            story.broker.send([Message("orders", b"late", queue=number % QUEUES)])
        story.broker.retention.purge("orders", everything=True)
        story.broker._store.journal.sync()
        story.disk.lose_power()
        story.start()
        for queue in range(QUEUES):
            first, end = bounds(story.broker, queue=queue)
            assert first == end, "a purged message is back"
            sent = story.broker.send([Message("orders", b"anew", queue=queue)])
            assert sent.offsets == [end]
            assert story.bodies(queue) == [b"anew"]
        story.disk.kill()
        story.start()
        assert [story.bodies(queue) for queue in range(QUEUES)] == [[b"anew"]] * QUEUES


def test_a_queues_last_file_that_is_surely_on_the_disk_is_not_swept() -> None:
    """Offsets are counted by it: the files behind it may go with the power."""
    for seed in range(20):
        story = Story(seed)
        story.broker.send([Message("orders", b"late", queue=0) for _ in range(20)])
        story.broker.retention.purge("orders", everything=True)
        story.broker._store.sweep([("orders", 0)])
        story.disk.lose_power()
        story.start()
        [offset] = story.broker.send([Message("orders", b"anew", queue=0)]).offsets
        assert offset >= MESSAGES // QUEUES, "an offset that was given before"


def test_what_leads_into_a_segment_goes_after_that_is_gone_for_good() -> None:
    story = Story(1)
    order: list[str] = []

    def note(verb: str, path: Path) -> None:
        if verb in ("remove", "sync_directory", "replace"):
            order.append(f"{verb} {path.relative_to(ROOT).parts[0]}")

    story.disk.fault = note
    story.expire()
    last = max(at for at, each in enumerate(order) if each == "remove commitlog")
    gone = order.index("sync_directory commitlog", last)
    assert order.index("remove index") > gone
    assert order.index("replace trash") > gone


def test_no_queue_file_goes_while_segments_are_being_deleted() -> None:
    """They are still there after a kill, and so must be the way to their messages."""
    story = Story(1)
    story.tick(2 * HOUR_S)  # all but the last segment are gone, and what led there
    for number in range(60):
        body = b"more".ljust(200, b".")
        story.broker.send([Message("orders", body, queue=number % QUEUES)])
    story.tick(2)
    store = story.broker._store
    assert store.expire(store.segments()[1]) == 1  # another round is due, a minute after the first
    first = bounds(story.broker)[0]
    pool = HeldPool()
    store.expiry._pool = pool
    assert store.expire(store.written) > 1
    story.tick(100)
    assert pool.jobs, "the segments are let go of, and not deleted yet"
    story.disk.kill()
    story.start()
    assert bounds(story.broker)[0] == first


def test_a_file_that_cannot_be_deleted_leaves_no_hole_and_is_tried_again() -> None:
    story = Story(1)
    stuck = ROOT / "commitlog" / f"{4096:020d}"
    left = 3

    def fault(verb: str, path: Path) -> None:
        nonlocal left
        if verb == "remove" and path == stuck and left:
            left -= 1
            raise PermissionError(1, "Operation not permitted", str(path))

    story.disk.fault = fault
    story.tick(2 * HOUR_S)
    names = story.files.names(ROOT / "commitlog")
    assert names[0] == stuck.name
    assert [int(name) for name in names] == list(range(4096, 4096 * (len(names) + 1), 4096))
    assert "could not be deleted" in story.broker.health().warnings["retention"]
    story.tick(10)
    story.tick(10)
    story.tick(10)
    assert story.files.names(ROOT / "commitlog") == names[-1:]
    assert story.broker.health().warnings == {}
    check(story)
