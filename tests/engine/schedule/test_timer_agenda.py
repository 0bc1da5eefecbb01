import random
import subprocess
import sys

import pytest

from engine.schedule.timer_agenda import BLOCK_COUNT_MAX, START, Pending, TimerAgenda

YEAR_MS = 365 * 24 * 3600 * 1000


@pytest.mark.parametrize("seed", range(8))
def test_it_is_a_sorted_list_whatever_is_added_and_removed(seed):
    chance = random.Random(seed)
    agenda, model, offset = TimerAgenda(), [], 0
    width = chance.choice([1, 3, 10_000, YEAR_MS])
    for _ in range(30):
        for _ in range(chance.randint(0, 400)):
            pending = Pending(chance.randrange(width), offset)
            offset += 1
            agenda.add(pending)
            model.append(pending)
        model.sort()
        for pending in chance.sample(model, chance.randint(0, len(model))):
            assert agenda.remove(pending)
            model.remove(pending)
        assert len(agenda) == len(model)
        assert agenda.after(START, 1 << 40) == model
        assert agenda.first() == (model[0] if model else None)
        if model:
            place = chance.choice(model)
            assert agenda.after(place, 7) == [each for each in model if each > place][:7]
            due = [each for each in model if each.due_ms <= place.due_ms]
            assert agenda.due(place.due_ms, 100) == due[:100]
        assert all(map(len, agenda._dues))


def test_what_is_not_there_cannot_be_removed():
    agenda = TimerAgenda()
    assert not agenda.remove(Pending(1, 1))
    agenda.add(Pending(5, 1))
    for absent in (Pending(5, 0), Pending(5, 2), Pending(4, 1), Pending(6, 1)):
        assert not agenda.remove(absent)
    assert len(agenda) == 1


def test_equal_times_stay_in_the_order_of_arrival():
    agenda = TimerAgenda()
    expected = [Pending(7, offset) for offset in range(3 * BLOCK_COUNT_MAX)]
    for pending in expected:
        agenda.add(pending)
    assert agenda.due(7, 1 << 40) == expected
    assert agenda.remove(expected[2000])
    assert agenda.due(7, 1 << 40) == expected[:2000] + expected[2001:]


def test_blocks_that_lost_most_are_joined():
    agenda = TimerAgenda()
    for offset in range(20_000):
        agenda.add(Pending(offset, offset))
    for offset in range(20_000):
        if offset % 100:
            agenda.remove(Pending(offset, offset))
    assert len(agenda) == 200
    assert len(agenda._dues) <= 4


@pytest.mark.slow
@pytest.mark.parametrize("width_ms", [1, 1000, 3_600_000, YEAR_MS])
def test_a_million_pending_messages_take_less_than_fifty_bytes_each(width_ms):
    words = [sys.executable, "-m", "tests.engine.schedule.pending", str(width_ms)]
    done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=120)
    assert 16 < float(done.stdout) < 50  # a time and an offset take 16


@pytest.mark.parametrize("seed", range(4))
def test_it_counts_what_is_due_before_any_time(seed):
    chance = random.Random(seed)
    agenda, dues = TimerAgenda(), []
    assert agenda.counts_before([0, 5]) == [0, 0]
    for offset in range(chance.randint(1, 5 * BLOCK_COUNT_MAX)):
        due_ms = chance.randrange(900)
        agenda.add(Pending(due_ms, offset))
        dues.append(due_ms)
    times = [-1, 0, 1, 450, 899, 900, YEAR_MS]
    expected = [sum(due_ms < time_ms for due_ms in dues) for time_ms in times]
    assert agenda.counts_before(times) == expected
