"""Whatever dies at whatever moment: messages in delay levels are delivered once, or recalled."""

import pytest

from engine.message import Durability
from tests.engine.long_life import live_long
from tests.engine.schedule.test_timer_restart import Story, live

LEVELS = {1: 1000, 2: 5000, 4: 30_000}


class LevelStory(Story):
    """Most messages wait in a level; rescheduling gives them an exact time."""

    def wait(self):
        if self.chance.random() < 0.2:
            return super().wait()
        level = self.chance.choice([*LEVELS])
        return LEVELS[level], {"delay_level": level}


@pytest.mark.parametrize("start", range(0, 400, 50))
def test_a_kill_at_any_write_delivers_each_once(start):
    for crash_in in range(start + 1, start + 51, 5):
        stored = Durability.STORED
        live(crash_in, stored, stored, is_power_lost=False, story_type=LevelStory)


@pytest.mark.parametrize("start", range(0, 400, 50))
def test_a_power_loss_at_any_write_delivers_each_flushed_one_once(start):
    for crash_in in range(start + 1, start + 51, 5):
        flushed = Durability.FLUSHED
        live(crash_in, flushed, flushed, is_power_lost=True, story_type=LevelStory)


@pytest.mark.parametrize("seed", range(6))
def test_long_stories_with_kills_and_clean_stops_deliver_each_once(seed):
    story = LevelStory(seed, Durability.STORED)
    live_long(story)
    story.end()
