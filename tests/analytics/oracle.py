"""The reports' tables in plain Python, straight from the definitions: slow, obvious, no Spark."""

from collections import Counter, defaultdict
from datetime import UTC, datetime
from typing import Any

from engine.histogram import histogram

Row = dict[str, Any]
HOUR_MS = 3_600_000
ENDS = ("acked", "failed", "expired", "returned", "dead")


def hour_of(at_ms: int) -> int:
    return at_ms // HOUR_MS


def name_of(hour: int) -> str:
    return datetime.fromtimestamp(hour * 3600, UTC).strftime("%Y-%m-%dT%H")


class Oracle:
    """All tables of one hour from all rows there are; `slowest_max` and the like as given."""

    def __init__(self, hour: int, messages: list[Row], trace: list[Row], at_ms: int) -> None:
        self.hour = hour
        self.at_ms = at_ms
        self.messages = [m for m in messages if hour - 3 <= hour_of(m["stored_ms"]) <= hour]
        self.stored = [m for m in messages if hour_of(m["stored_ms"]) == hour]
        self.around = [t for t in trace if hour - 1 <= hour_of(t["at_ms"]) <= hour]
        self.trace = [t for t in trace if hour_of(t["at_ms"]) == hour]
        self.origin = {
            (m["topic"], m["queue"], m["offset"]): m["origin_topic"]
            for m in self.messages
            if m["role"] == "retry"
        }
        self.attempts = self._attempts()

    def topic(self, topic: str, queue: int, offset: int) -> str:
        return self.origin.get((topic, queue, offset), topic)

    def _attempts(self) -> dict[tuple[str, str, int, int], list[Row]]:
        found = defaultdict(list)
        for row in self.around:
            if row["kind"] not in ("delivered", *ENDS) or row["first_offset"] is None:
                continue
            for offset in range(row["first_offset"], row["first_offset"] + row["message_count"]):
                found[row["group"], row["topic"], row["queue"], offset].append(row)
        return found

    def is_here(self, at_ms: int) -> bool:
        return hour_of(at_ms) == self.hour

    def latencies(self) -> dict[tuple[str, str, str, str], list[int]]:
        """Exact values by metric, topic, group and client; negative ones as they are."""
        found = defaultdict(list)
        for (group, topic, queue, offset), rows in self.attempts.items():
            origin = self.topic(topic, queue, offset)
            taken = [row for row in rows if row["kind"] == "delivered"]
            first = [row["at_ms"] for row in taken if row["attempt"] == 1]
            acked = [row["at_ms"] for row in rows if row["kind"] == "acked"]
            if first and self.is_here(min(first)):
                found["wait", origin, group, ""].append(min(first) - taken[0]["stored_ms"])
            if not acked or not self.is_here(min(acked)) or not taken:
                continue
            if taken[0]["born_ms"] is not None:
                found["end_to_end", origin, group, ""].append(min(acked) - taken[0]["born_ms"])
            last = max(taken, key=lambda row: row["at_ms"])
            if last["at_ms"] <= min(acked):
                found["process", origin, group, last["client"]].append(min(acked) - last["at_ms"])
        for m in self.stored:
            self._of_message(m, found)
        for row in self.trace:
            half = self._half(row)
            if row["kind"] in ("committed", "rolled_back") and half:
                waited = row["at_ms"] - half["stored_ms"]
                found["decision", half["target_topic"], row["group"], ""].append(waited)
        return found

    def _of_message(self, m: Row, found: dict[tuple[str, str, str, str], list[int]]) -> None:
        topic, stored = m["origin_topic"], m["stored_ms"]
        if m["delay_level"] is not None and m["role"] in ("message", "retry"):
            place = (m["source_topic"], m["source_queue"], m["source_offset"])
            for one in self.messages:
                if (one["topic"], one["queue"], one["offset"]) == place and one["due_ms"]:
                    found["lateness_level", topic, m["group"], ""].append(stored - one["due_ms"])
        if m["role"] != "message":
            return
        if m["due_ms"] is not None and m["delay_level"] is None:
            found["lateness_timer", topic, "", ""].append(stored - m["due_ms"])
        elif m["born_ms"] is not None and not (
            m["source_topic"] or m["redriven_job"] or m["is_transaction"]
        ):
            found["broker", topic, "", ""].append(stored - m["born_ms"])

    def _half(self, row: Row) -> Row | None:
        for m in self.messages:
            if m["role"] == "half" and m["offset"] == row["first_offset"]:
                return m
        return None

    def latency(self) -> dict[tuple[str, ...], Row]:
        return {
            key: {
                "n": len(values),
                "total": sum(max(0, value) for value in values),
                "least": min(max(0, value) for value in values),
                "most": max(max(0, value) for value in values),
                "skewed": sum(value < 0 for value in values),
                "buckets": histogram(values),
            }
            for key, values in self.latencies().items()
        }

    def events(self) -> list[tuple[str, str, str, Row, float]]:
        """kind, topic, group, row, weight: one for each message of each trace row of the hour."""
        found = []
        for row in self.trace:
            for step in range(row["message_count"]):
                place = row["first_offset"]
                topic = row["topic"]
                if place is not None:
                    topic = self.topic(topic, row["queue"], place + step)
                found.append((row["kind"], topic, row["group"], row, 10_000 / row["sample"]))
        return found

    def throughput(self) -> dict[tuple[str, str, str], tuple[int, int, int | None]]:
        found: dict[tuple[str, str, str], list[float]] = defaultdict(lambda: [0.0, 0, 0])
        for m in self.stored:
            kind = "dead_letter" if m["role"] == "dead" else m["role"]
            cell = found[kind, m["origin_topic"], m["group"]]
            cell[0] += 1
            cell[1] += 1
            cell[2] += m["size_bytes"]
        wanted = ("delivered", *ENDS, "pulled", "refused")
        told: dict[tuple[str, str, str], list[float]] = defaultdict(lambda: [0.0, 0])
        for kind, topic, group, _, weight in self.events():
            if kind in wanted:
                told[kind, topic, group][0] += weight
                told[kind, topic, group][1] += 1
        result = {key: (round(a), int(b), int(c)) for key, (a, b, c) in found.items()}
        return result | {key: (round(a), int(b), None) for key, (a, b) in told.items()}

    def outcomes(self) -> dict[tuple[str, str], Row]:
        cells: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for kind, topic, group, row, weight in self.events():
            if kind == "delivered" or kind in ENDS:
                cells[topic, group]["attempts" if kind == "delivered" else kind] += weight  # type: ignore[assignment]
                if kind == "delivered" and (row["attempt"] or 0) > 1:
                    cells[topic, group]["retried"] += weight  # type: ignore[assignment]
        for (group, topic, queue, offset), rows in self.attempts.items():
            taken = [row["at_ms"] for row in rows if row["kind"] == "delivered"]
            ended = [row["at_ms"] for row in rows if row["kind"] != "delivered"]
            due_ms = max(taken) + 900_000 if taken else 0
            is_due = taken and self.is_here(due_ms) and due_ms < self.at_ms
            if is_due and (not ended or max(ended) < max(taken)):
                weight = 10_000 / min(row["sample"] for row in rows)
                cells[self.topic(topic, queue, offset), group]["unfinished"] += weight  # type: ignore[assignment]
        names = ("attempts", "retried", *ENDS, "unfinished")
        return {key: {name: round(cell[name]) for name in names} for key, cell in cells.items()}

    def failures(self) -> dict[tuple[str, str, str], Counter[str]]:
        found: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
        for kind, topic, group, row, _ in self.events():
            if kind in ("failed", "expired", "dead", "refused"):
                found[kind, topic, group][row["detail"]] += 1
        return found

    def slowest(self, most: int) -> dict[tuple[str, str], list[int]]:
        return {
            (topic, group): sorted((max(0, value) for value in values), reverse=True)[:most]
            for (metric, topic, group, _), values in self.latencies().items()
            if metric == "end_to_end"
        }

    def hot_keys(self) -> dict[tuple[str, str], Counter[str]]:
        found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for m in self.stored:
            if m["role"] != "message":
                continue
            values = {("key", key) for key in m["keys"].split(" ")}
            values |= {("tag", m["tag"]), ("message_group", m["message_group"])}
            for kind, value in values:
                if value:
                    found[m["topic"], kind][value] += 1
        return found

    def queues(self) -> dict[str, Counter[int]]:
        found: dict[str, Counter[int]] = defaultdict(Counter)
        for m in self.stored:
            if m["role"] == "message":
                found[m["topic"]][m["queue"]] += 1
        return found

    def transactions(self) -> Counter[tuple[str, str, str, str]]:
        found: Counter[tuple[str, str, str, str]] = Counter()
        for m in self.stored:
            if m["role"] == "half":
                found[m["target_topic"], m["producer_group"], "half", ""] += 1
        outcomes = ("committed", "rolled_back", "checked", "check_given_up", "check_resumed")
        for row in self.trace:
            if row["kind"] in outcomes:
                half = self._half(row)
                topic = half["target_topic"] if half else ""
                found[topic, row["group"], row["kind"], row["detail"]] += 1
        return found
