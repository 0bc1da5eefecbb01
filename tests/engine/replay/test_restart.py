"""Whatever dies at whatever moment of a job's life: each chosen message is sent once."""

import errno
import random
from collections import Counter

import pytest

from engine.broker import DeadLetterState, GroupConfig, Nack, NewReplay, ReplayTo, TopicConfig
from engine.clock import ManualClock
from engine.errors import EngineError
from engine.message import Durability, Message
from engine.replay import runner
from tests.simulation.boot import boot
from tests.simulation.disk import Crash, Disk

COUNT = 40
CHOSEN = [number for number in range(COUNT) if number % 5 != 2]
WANTED = [number for number in CHOSEN if number // 4 % 2]  # those with the tag


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch):
    monkeypatch.setattr(runner, "SENDS_MAX", 3)
    monkeypatch.setattr(runner, "EXAMINED_MAX", 3)  # so that some steps send nothing


class Story:
    """Forty dead letters on a disk that breaks, and one job over some of them."""

    def __init__(self, seed, durability=Durability.STORED):
        self.disk = Disk(random.Random(seed))
        self.clock = ManualClock()
        self.durability = durability
        self.job_id = ""
        self.verbs = 0
        self.broker = None
        self.start()
        self.broker.create_topic(TopicConfig("t", read_queues=1, write_queues=1))
        self.broker.create_group(GroupConfig("g"))
        for number in range(COUNT):
            tag = "wanted" if number // 4 % 2 else "other"
            self.broker.send([Message("t", b"%d" % number, tag=tag)])
        self.settle()
        for each in self.broker.receive("g", {"t": "*"}, count_max=COUNT):
            self.broker.nack("g", [Nack(each.receipt, delay_level=-1)])
        self.settle()
        self.broker.stop()
        self.start()

    def start(self):
        self.clock.advance(0.5)  # a start takes its time, and ids are made of it
        self.broker = boot(
            self.disk, self.clock, segment_bytes=16 * 1024, durability=self.durability
        )

    def live(self):
        """Create the job where there is none yet; see it through, with a pause in the middle."""
        replays = self.broker.replays
        known = replays.list()
        job = known[0] if known else replays.create(
            NewReplay(
                source="%DLQ%g",
                to=ReplayTo.ORIGIN,
                places=[(0, number) for number in CHOSEN],
                filter="wanted",
                rate=0,
            )
        )  # fmt: skip
        self.job_id = job.id
        if job.state == "paused":
            replays.resume(job.id)
        for step in range(200):
            if replays.get(job.id).state == "finished":
                break
            self.broker.tick()
            if step == 2 and replays.get(job.id).state == "running":
                replays.pause(job.id)
                self.broker.tick()
                replays.resume(job.id)
            if step == 3:
                self.broker._store.journal.compact()
            self.clock.advance(0.3)
        self.settle()

    def settle(self):
        for _ in range(4):
            self.clock.advance(1)
            while self.broker.tick() <= 0:
                pass

    def sent(self):
        """What the job has sent, in order, and no job that a power loss took at its birth."""
        found, offset = [], COUNT
        while True:
            result = self.broker.pull("t", 0, offset, count_max=160)
            found += [
                int(message.body)
                for message in result.messages
                if message.properties["KITE_REDRIVEN_JOB"] == self.job_id
            ]
            offset = result.next_offset
            if offset >= result.max_offset:
                return found

    def check(self, *, is_ordered):
        job = self.broker.replays.get(self.job_id)
        sent = self.sent()
        assert Counter(sent) == Counter(WANTED)
        if is_ordered:
            assert sent == WANTED
        assert job.state == "finished"
        assert job.totals == {"sent": len(WANTED), "filtered": len(CHOSEN) - len(WANTED)}
        rows = self.broker.replays.outcomes(job.id, count_max=200).items
        assert [row.offset for row in rows if row.outcome == "sent"] == WANTED
        dead = self.broker.dead_letters.page("g", count_max=200).items
        marked = [each.message.offset for each in dead if each.redriven_by == [job.id]]
        assert sorted(marked) == WANTED
        states = self.broker.dead_letters.states("g")
        resent = [each for run in states.runs(DeadLetterState.RESENT, COUNT) for each in run]
        assert resent == WANTED
        assert states.counts().open == COUNT - len(WANTED)


def survive(story, crashes, *, is_power_lost):
    """Live, dying at each of these operations in turn; whether the first one came at all."""
    died = False
    for crash_in in crashes:
        story.disk.crash_in = crash_in
        try:
            if died:
                story.start()
            story.live()
        except Crash:
            died = True
            if is_power_lost:
                story.disk.lose_power()
            else:
                story.disk.kill()
        else:
            story.disk.crash_in = None
            break
    else:
        story.start()
        story.live()
    return died


@pytest.mark.parametrize("again", [None, 3, 11, 29])
def test_a_kill_at_every_single_write_sends_each_once(again):
    crash_in = 0
    died = True
    while died:
        crash_in += 4 if again else 1
        story = Story(crash_in)
        died = survive(story, [crash_in, *([again] if again else [])], is_power_lost=False)
        story.check(is_ordered=True)
        story.broker.stop()
        story.start()
        story.check(is_ordered=True)
    assert crash_in > 40, "the life was too short to prove anything"


@pytest.mark.parametrize("durability", [Durability.STORED, Durability.FLUSHED])
@pytest.mark.parametrize("again", [None, 7, 23])
def test_a_power_loss_at_every_single_write_sends_each_once(again, durability):
    crash_in = 0
    died = True
    while died:
        crash_in += 4 if again else 1
        story = Story(crash_in, durability)
        died = survive(story, [crash_in, *([again] if again else [])], is_power_lost=True)
        story.check(is_ordered=False)
        story.broker.stop()
        story.start()
        story.check(is_ordered=False)
    assert crash_in > 40, "the life was too short to prove anything"


@pytest.mark.parametrize("seed", range(8))
def test_a_full_disk_at_any_moment_only_delays(seed):
    story = Story(seed)
    chance = random.Random(seed)
    full_from = chance.randrange(1, 30)
    writes = 0

    def refuse(verb, path):
        nonlocal writes
        writes += verb == "pwrite"
        if full_from <= writes < full_from + 12 and verb == "pwrite":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

    story.disk.fault = refuse
    for _ in range(30):
        try:
            story.live()
        except EngineError:
            story.clock.advance(1)
    story.disk.fault = None
    story.live()
    story.check(is_ordered=True)
    assert writes > full_from


def test_chosen_dead_letters_that_a_power_loss_takes_are_not_mistaken_for_later_ones(engine):
    """The offsets of what was lost are given to others; they were not chosen."""
    broker = engine.start()
    broker.create_topic(TopicConfig("t", read_queues=1, write_queues=1))
    broker.create_topic(TopicConfig("to", read_queues=1, write_queues=1))
    broker.send([Message("t", b"%d" % number) for number in range(3)])
    for _ in range(3):
        engine.tick(2)  # these are on the disk, what follows is not
    end = broker._store.written
    broker.send([Message("t", b"%d" % number) for number in range(3, 7)])
    job = broker.replays.create(NewReplay(source="t", to=ReplayTo.TOPIC, to_name="to", rate=0.001))
    engine.close()
    log = sorted((engine.root / "commitlog").iterdir())[0]
    data = bytearray(log.read_bytes())
    data[end:] = bytes(len(data) - end)
    log.write_bytes(data)
    broker = engine.start()
    broker.send([Message("t", b"new") for _ in range(4)])
    broker.replays.change_rate(job.id, 0)
    engine.tick()
    done = broker.replays.get(job.id)
    assert done.totals == {"sent": 3, "expired": 4}
    assert [each.body for each in broker.pull("to", 0, 0).messages] == [b"0", b"1", b"2"]
    again = broker.replays.create(
        NewReplay(source="t", to=ReplayTo.TOPIC, to_name="to", rate=0, fresh_only=True)
    )
    engine.tick()
    assert broker.replays.get(again.id).totals == {"sent": 4, "sent_before": 3}
