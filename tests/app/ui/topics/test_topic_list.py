"""The order of the list of topics."""

from app.monitoring.sampler import Snapshot, TopicFigures
from app.ui.framework import tables
from app.ui.topics.topics import BY_NAME, sort_key
from engine.topic.catalog import TopicConfig

RATES = {"archive": 0.0, "busy": 900.0, "busier": 1000.0, "slow": 3.0, "starred": 0.2}


def names_in_order(rates: dict[str, float]) -> list[str]:
    figures = {name: TopicFigures("NORMAL", 1, 0, rate, 0.0) for name, rate in rates.items()}
    topics = [TopicConfig(name) for name in [*rates, "unseen"]]
    key = sort_key(Snapshot(topics=figures), BY_NAME[0], {"starred"})
    tables.order(topics, key, lambda topic: topic.name, down=False)
    return [topic.name for topic in topics]


def test_starred_topics_come_first_then_those_with_the_most_traffic() -> None:
    assert names_in_order(RATES) == ["starred", "busier", "busy", "slow", "archive", "unseen"]


def test_rows_of_about_the_same_traffic_do_not_swap() -> None:
    assert names_in_order(RATES | {"busier": 800.0}) == names_in_order(RATES)
