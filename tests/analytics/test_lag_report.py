"""The states of the lag report: every scenario, the order of the rules, what is published when."""

import json
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from analytics.jobs import lag_bands, lag_hours, lag_now, lag_rows, lag_series
from analytics.jobs.definitions import Params
from analytics.jobs.lag_rules import ADVICE, WORST_FIRST
from analytics.jobs.lag_series import Evaluations, Previous
from analytics.jobs.outputs import typed
from analytics.schemas import LAG, arrow_schema
from engine.report_tables import RESULTS_BY_NAME

HOUR = 490_000
BEGIN_MS = HOUR * 3_600_000
SAMPLE_S, STEP_S = 30, 300
SAMPLES = 111
NOW_MS = BEGIN_MS + (SAMPLES - 1) * SAMPLE_S * 1000  # an evaluation, and the last sample
PRODUCE, KEEP = 300, 1_000_000  # messages a sample; nothing expires, mostly
PARAMS = Params(hours=(HOUR,), at_ms=NOW_MS, sample_s=SAMPLE_S, step_s=STEP_S, window_s=360)
Row = dict[str, Any]
Sample = Callable[[int], Row]


def sample(produced: int, done: int, **more: Any) -> Row:
    """A sample of a queue whose messages come 10 a second."""
    lag = produced - done
    row = {
        "min_offset": 0,
        "max_offset": produced,
        "committed": done,
        "cursor": done,
        "lag": lag,
        "is_matching": True,
        "age_ms": lag * 100 if lag else None,
        "inflight": 0,
        "retry_waiting": 0,
        "dead": 0,
        "members": 3,
        "is_active": True,
        "expired": 0,
        "resets": 0,
    }
    return row | more


def rows(group: str, at: Sample, queue: int = 0, count: int = SAMPLES) -> list[Row]:
    """The samples that `at` gives by their number."""
    found = []
    for number in range(count):
        at_ms = BEGIN_MS + number * SAMPLE_S * 1000
        row = at(number)
        age_ms, is_active = row.pop("age_ms"), row.pop("is_active")
        row |= {
            "at_ms": at_ms,
            "group": group,
            "topic": "flights",
            "queue": queue,
            "oldest_ms": None if age_ms is None else at_ms - age_ms,
            "active_ms": at_ms if is_active else BEGIN_MS - 3_600_000,
        }
        found.append(row)
    return found


def steady(number: int, lag: int, **more: Any) -> Row:
    produced = 100_000 + number * PRODUCE
    return sample(produced, produced - lag, **more)


NOISE = random.Random(3)
JITTER = [NOISE.choice([0, 4, 9]) for _ in range(SAMPLES)]
WOBBLE = [NOISE.randrange(-90, 90) for _ in range(SAMPLES)]
LAST = SAMPLES - 1

SCENARIOS: dict[str, tuple[str, Sample]] = {
    "ok": ("OK", lambda n: steady(n, 0)),
    "jitter": ("OK", lambda n: steady(n, JITTER[n])),
    "idle": ("OK", lambda n: sample(5_000, 5_000, is_active=False)),
    # One message came a moment ago, after hours of nothing.
    "idle and one": (
        "OK",
        lambda n: sample(5_000 + (n == LAST), 5_000, age_ms=5 if n == LAST else None),
    ),
    "stopped": ("STOPPED", lambda n: steady(n, n * PRODUCE + 50, is_active=False)),
    "offline": ("OFFLINE", lambda n: steady(n, n * PRODUCE + 50, is_active=False, members=0)),
    "stalled": ("STALLED", lambda n: steady(n, n * PRODUCE + 50)),
    "rewind": ("REWIND", lambda n: steady(n, 900 + (50_000 if n >= LAST - 11 else 0))),
    "reset": (
        "RESET",
        lambda n: steady(n, 900 + (50_000 if n >= LAST - 11 else 0), resets=int(n >= LAST - 11)),
    ),
    "behind": ("FALLING_BEHIND", lambda n: steady(n, 1_000 + n * 100)),
    "behind and noise": ("FALLING_BEHIND", lambda n: steady(n, 5_000 + n * 100 + WOBBLE[n])),
    "catching up": ("CATCHING_UP", lambda n: steady(n, 30_000 - n * 150)),
    "lost": ("LOST", lambda n: steady(n, 60_000, min_offset=45_000 + n * PRODUCE)),
    "at risk": ("AT_RISK", lambda n: steady(n, 3_000 + n * 100, min_offset=12_000 + n * 800)),
    "steady": ("STEADY", lambda n: steady(n, 800)),
    "slow": ("SLOW", lambda n: steady(n, 800)),
}


def evaluated(samples: list[Row], given: Params, previous: Previous | None = None) -> Evaluations:
    table = pa.Table.from_pylist(samples, schema=arrow_schema(LAG))
    return lag_series.build(table, given, previous)[0]


def params(**more: Any) -> Params:
    given = {"hours": (HOUR,), "at_ms": NOW_MS, "sample_s": SAMPLE_S, "step_s": STEP_S} | more
    return Params(**given)


def table(name: str, made: list[Row]) -> list[Row]:
    found: list[Row] = typed(made, RESULTS_BY_NAME[name]).to_pylist()
    return found


@pytest.fixture(scope="module")
def series() -> Evaluations:
    samples = [row for name, (_, at) in SCENARIOS.items() for row in rows(name, at)]
    samples += rows("unknown", lambda n: steady(n, 100))[: SAMPLES // 8]
    samples += rows("new", lambda n: steady(n, 100))[-2:]
    for queue in range(5):
        hot = 1_000 if queue != 3 else 60_000
        samples += rows("hot", lambda n, hot=hot: steady(n, hot + 100 * n), queue)  # type: ignore[misc]
    slo = params(slo_s={"slow": 60.0, "steady": 90.0})
    return evaluated(samples, slo)


def test_every_scenario_has_its_state(series: Evaluations) -> None:
    found = {row["group"]: row for row in table("lag_now", lag_now.build(series, PARAMS))}
    states = {name: found[name]["state"] for name in SCENARIOS}
    assert states == {name: state for name, (state, _) in SCENARIOS.items()}
    assert found["new"]["state"] == "UNKNOWN"
    assert "unknown" not in found, "without any sample nothing is said"
    assert {*states.values(), "UNKNOWN"} == set(WORST_FIRST)


def test_the_figures_beside_a_state_are_exact(series: Evaluations) -> None:
    found = {row["group"]: row for row in table("lag_now", lag_now.build(series, PARAMS))}
    number = (lag_now.newest_ms(PARAMS) - BEGIN_MS) // (SAMPLE_S * 1000)
    late = found["behind"]
    assert late["lag"] == 1_000 + number * 100
    assert late["time_lag_ms"] == late["lag"] * 100
    assert late["produce_per_s"] == pytest.approx(10.0)
    assert late["consume_per_s"] == pytest.approx(20 / 3)
    assert late["slope_per_s"] == pytest.approx(10 / 3)
    assert late["eta_s"] is None
    gains = found["catching up"]
    assert gains["eta_s"] == pytest.approx(gains["lag"] / 5)
    assert json.loads(gains["advice_params"])["eta_s"] == pytest.approx(gains["eta_s"])
    lost = found["lost"]
    assert lost["lost"] == lost_at(number)
    assert found["stalled"]["advice"] == "look_at_message"
    assert json.loads(found["stalled"]["advice_params"]) == {
        "queue": 0,
        "committed": found["stalled"]["committed"],
    }


def lost_at(number: int) -> int:
    return 45_000 + number * PRODUCE - (100_000 + number * PRODUCE - 60_000)


def test_at_risk_goes_by_the_formula(series: Evaluations) -> None:
    found = {row["group"]: row for row in table("lag_now", lag_now.build(series, PARAMS))}
    number = (lag_now.newest_ms(PARAMS) - BEGIN_MS) // (SAMPLE_S * 1000)
    room = 100_000 + number * PRODUCE - (3_000 + number * 100) - (12_000 + number * 800)
    risk_s = room / (800 / SAMPLE_S - 200 / SAMPLE_S)
    assert found["at risk"]["risk_s"] == pytest.approx(risk_s)
    samples = rows("at risk", SCENARIOS["at risk"][1])
    for horizon_s, state in ((int(risk_s) + 2, "AT_RISK"), (int(risk_s) - 2, "FALLING_BEHIND")):
        given = params(horizon_s=horizon_s)
        # The evaluations before are further away from it: only the last one is asked.
        made = lag_rows.rows_of(evaluated(samples, given))
        raw = {row["t"]: row["raw_state"] for row in made}
        assert raw[max(raw)] == state


def test_a_group_is_as_bad_as_its_worst_queue_and_names_a_hot_one(series: Evaluations) -> None:
    found = {row["group"]: row for row in table("lag_hours", lag_hours.build(series, PARAMS))}
    hot = found["hot"]
    number = (hot["at_ms"] - BEGIN_MS) // (SAMPLE_S * 1000)
    assert hot["state"] == "FALLING_BEHIND"
    assert hot["hot_queue"] == hot["worst_queue"] == 3
    assert hot["queues"] == 5
    assert hot["lag"] == 4 * 1_000 + 60_000 + 5 * 100 * number
    assert hot["idle_members"] == 0
    assert hot["advice"] == "spread_keys"
    assert found["behind"]["idle_members"] == 2
    assert found["behind"]["advice"] == "speed_up_consumers"
    for row in found.values():
        in_states = json.loads(row["state_ms"])
        assert sum(in_states.values()) == row["queues"] * row["evaluations"] * STEP_S * 1000
    codes = {code for code, _ in ADVICE.values() if code}
    told = {row["advice"] for row in found.values() if row["advice"]}
    assert told >= codes - {"add_consumers"}


def test_a_change_is_published_when_it_was_found_twice_but_loss_at_once() -> None:
    per_step = STEP_S // SAMPLE_S

    def blip(number: int) -> Row:
        # For one evaluation only it looks as if it did not move.
        held = 3 * per_step - 2 <= number <= 4 * per_step + 2
        done = 100_000 + (3 * per_step - 2 if held else number) * PRODUCE - 900
        return sample(100_000 + number * PRODUCE, done)

    def loses(number: int) -> Row:
        gone = 200_000 if number >= 6 * per_step else 0
        return steady(number, 900, min_offset=gone)

    samples = rows("blip", blip) + rows("loses", loses)
    made = lag_rows.rows_of(evaluated(samples, params()))
    by_time = {(row["group"], (row["t"] - BEGIN_MS) // (STEP_S * 1000)): row for row in made}
    raw = [by_time["blip", step]["raw_state"] for step in range(2, 8)]
    assert raw.count("STALLED") == 1
    assert "STALLED" not in [by_time["blip", step]["state"] for step in range(2, 8)]
    assert by_time["loses", 5]["state"] == "STEADY"
    assert by_time["loses", 6]["state"] == "LOST"


def test_the_state_before_stands_until_another_is_sure() -> None:
    # The hour before is missing: only what was published then is known.
    before = {("g", "flights", 0): ("STALLED", "OK")}
    samples = rows("g", lambda n: steady(n, 700))
    made = lag_rows.rows_of(evaluated(samples, params(), before))
    states = [(row["raw_state"], row["state"]) for row in made]
    assert states[0] == ("UNKNOWN", "STALLED")
    assert states[-1] == ("STEADY", "STEADY")
    assert len(made) == 12


def test_bands_cover_what_is_not_ok_without_a_gap(series: Evaluations) -> None:
    published = {
        (row["group"], row["queue"], row["t"]): row["state"] for row in lag_rows.rows_of(series)
    }
    covered = {}
    for band in table("lag_bands", lag_bands.build(series, PARAMS)):
        for t in range(band["begin_ms"], band["end_ms"], STEP_S * 1000):
            key = (band["group"], band["queue"], t)
            assert key not in covered
            covered[key] = band["state"]
    assert covered == {key: state for key, state in published.items() if state != "OK"}


def test_an_hour_tells_which_stretches_of_it_were_evaluated() -> None:
    # The server begins in minute 7, stands still from minute 21 to minute 38; it is minute 52 now.
    def known(number: int) -> bool:
        minute = number * SAMPLE_S / 60
        return 7 <= minute < 21 or 38 <= minute <= 52

    samples = [
        row
        for number, row in enumerate(rows("g", lambda n: steady(n, 100), count=105))
        if known(number)
    ]
    given = params(at_ms=BEGIN_MS + 52 * 60_000)
    (row,) = table("lag_hours", lag_hours.build(evaluated(samples, given), given))
    minutes = [
        [(moment - BEGIN_MS) / 60_000 for moment in pair] for pair in json.loads(row["evaluated"])
    ]
    # Evaluated every 5 minutes: from 10 on, to the last sample and a late one; then from 40 on.
    assert minutes == [[10, 21.5], [40, 52]]


def test_what_nobody_sampled_was_not_evaluated() -> None:
    # The last evaluations of a group that is gone go by samples of before: nothing tells of it.
    samples = rows("g", lambda n: steady(n, 100), count=11)  # to minute 5
    (row,) = table("lag_hours", lag_hours.build(evaluated(samples, params()), params()))
    (pair,) = json.loads(row["evaluated"])
    assert [(moment - BEGIN_MS) / 60_000 for moment in pair] == [0, 6]
