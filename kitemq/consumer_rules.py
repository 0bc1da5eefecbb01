"""Arguments of a consumer, validated before it connects."""

from collections.abc import Mapping
from dataclasses import dataclass

from kitemq.errors import Invalid

PREFETCH_MAX = 65_536


@dataclass(frozen=True, kw_only=True)
class ConsumerRules:
    """Arguments of a consumer; times in seconds."""

    group: str
    topics: dict[str, str]
    prefetch: int
    invisible_s: float
    extend_max_s: float


def consumer_rules(
    group: str,
    topics: str | Mapping[str, str],
    *,
    prefetch: int,
    invisible_s: float,
    extend_max_s: float,
) -> ConsumerRules:
    """Checked settings; raises Invalid."""
    named = {topics: "*"} if isinstance(topics, str) else dict(topics)
    for is_right, field, expected in (
        (bool(group), "group", "the name of a consumer group"),
        (bool(named) and all(named), "topics", "at least one topic"),
        (1 <= prefetch <= PREFETCH_MAX, "prefetch", f"1 to {PREFETCH_MAX}"),
        (0.01 <= invisible_s <= 43_200, "invisible_s", "0.01 s to 12 h"),
        (extend_max_s >= 0, "extend_max_s", "0 s or more"),
    ):
        if not is_right:
            raise Invalid(f"{field} is not right", field=field, remedy=f"give {expected}")
    return ConsumerRules(
        group=group,
        topics=named,
        prefetch=prefetch,
        invisible_s=invisible_s,
        extend_max_s=extend_max_s,
    )
