"""The options of a query of the data source, checked once; `source.py` says what each means."""

import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field

from analytics.brokers import BrokerClient, ClusterAccess, access_of
from analytics.errors import Refused
from analytics.row_bounds import RowBounds, bounds_of
from analytics.server import DEFAULT_URL, QueueBounds, ServerClient
from analytics.source_rows import column_names

BY_REST = "rest"


@dataclass(frozen=True)
class Options:
    """What the options of a query say, checked."""

    topic: str
    server: str
    token: str = field(repr=False)
    cluster: ClusterAccess | None
    path: str
    columns: tuple[str, ...]
    bounds: RowBounds
    starting: str
    per_trigger: int
    fails_on_loss: bool
    pushes: bool

    def connect(self) -> ServerClient:
        return ServerClient(self.server, self.token)

    def ends(self) -> dict[int, QueueBounds]:
        """By queue, of those that are wanted where a cluster is asked, how far the topic goes."""
        if self.cluster is None:
            with self.connect() as server:
                return server.ends(self.topic)
        with BrokerClient(self.cluster) as brokers:
            return brokers.ends(self.topic, self.bounds.has_queue)


def parse(options: MutableMapping[str, str]) -> Options:
    """The options, with their defaults; Refused names the one that is wrong."""
    given: Mapping[str, str] = options
    limit = given.get("maxOffsetsPerTrigger") or "0"
    if not limit.isdecimal():
        raise Refused(f"{limit!r} is no count", field="maxOffsetsPerTrigger")
    return Options(
        topic=given.get("topic") or "",
        server=given.get("server") or os.environ.get("KITEMQ_SERVER") or DEFAULT_URL,
        token=given.get("token") or os.environ.get("KITEMQ_TOKEN") or "",
        cluster=_cluster(given),
        path=given.get("path") or "",
        columns=tuple(column_names(given.get("columns") or "")),
        bounds=bounds_of(given),
        starting=given.get("startingOffsets") or "earliest",
        per_trigger=int(limit),
        fails_on_loss=_flag(given, "failOnDataLoss", default=True),
        pushes=_flag(given, "pushFilters", default=False),
    )


def _cluster(given: Mapping[str, str]) -> ClusterAccess | None:
    """The cluster whose brokers are read."""
    access = access_of(given)
    if access is not None and given.get("path"):
        raise Refused("brokers are read, and no files", "leave one of the two out", field="path")
    return access


def _flag(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = (given.get(name) or str(default)).lower()
    if text not in ("true", "false"):
        raise Refused(f"{text!r} is neither true nor false", field=name)
    return text == "true"
