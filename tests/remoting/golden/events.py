"""Events of a recorded session: which are stored, and how they are read again."""

import base64
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from protocol.remoting.codes import RequestCode as R
from protocol.remoting.frames import Command, decode

LENGTH_BYTES = 4
OTHER = {"client": "server", "server": "client"}
HELD_MS = 1000  # a pull that is answered later has waited in vain, or for what others did
BYTES_MAX = 40_000  # of a frame
PULLS = frozenset({R.PULL_MESSAGE, R.LITE_PULL_MESSAGE})
# They change nothing when they are repeated, or are answered by nothing.
REPEATABLE = PULLS | {
    R.GET_ROUTEINFO_BY_TOPIC,
    R.QUERY_CONSUMER_OFFSET,
    R.GET_CONSUMER_LIST_BY_GROUP,
    R.HEART_BEAT,
    R.GET_BROKER_CLUSTER_INFO,
    R.UPDATE_CONSUMER_OFFSET,
    R.QUERY_ASSIGNMENT,
    R.GET_MAX_OFFSET,
    R.GET_MIN_OFFSET,
    R.GET_TOPIC_CONFIG,
    R.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    R.GET_BROKER_RUNTIME_INFO,
    R.GET_CONSUMER_CONNECTION_LIST,
    R.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    R.GET_CONSUMER_RUNNING_INFO,
    R.UNREGISTER_CLIENT,
    R.GET_CONSUME_STATS,
    R.QUERY_TOPIC_CONSUME_BY_WHO,
}
OF_A_CONNECTION = frozenset({R.HEART_BEAT, R.UPDATE_CONSUMER_OFFSET})  # each starts its own state
TEMPLATE_TOPIC = "TBW102"
REFUSED_FOR_NOW = 25  # SUBSCRIPTION_NOT_LATEST: the broker has not seen the heartbeat yet
OF_A_PULL = {"queueId", "queueOffset", "commitOffset", "consumerGroup", "suspendTimeoutMillis"}
UNIMPORTANT = {  # fields whose values make no other case
    R.QUERY_CONSUMER_OFFSET: {"queueId", "topic", "consumerGroup"},
    R.UNREGISTER_CLIENT: {"clientID"},
    **dict.fromkeys(PULLS, OF_A_PULL),
}
TIMES = {"subVersion", "bornTime"}


def rows(events: list[dict[str, Any]]) -> Iterator[list[Any]]:
    """The events to store as rows of the file, with times from the first event on."""
    start_ms = events[0]["at_ms"]
    begun: set[int] = set()
    for event in representative(events):
        number = event["connection"]
        row = [event["at_ms"] - start_ms, number, event["side"], event.get("frame", "")]
        yield row if number in begun else [*row, event["scenario"]]
        begun.add(number)


def read(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The origin of a file, and its events; each has the scenario of its connection."""
    origin, *found = [json.loads(line) for line in path.read_text().splitlines()]
    scenarios = {row[1]: row[4] for row in found if len(row) > 4}
    names = ("at_ms", "connection", "side", "frame")
    return origin, [
        dict(zip(names, row, strict=False)) | {"scenario": scenarios[row[1]]} for row in found
    ]


def commands(events: Iterable[dict[str, Any]]) -> list[Command]:
    """The frames of events, decoded."""
    return [command for event in events if (command := _command(event)) is not None]


def representative(events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The events that show something new or change something, in their order."""
    listed = list(events)
    decoded = [_command(event) for event in listed]
    answers, dropped = _pairs(listed, decoded)
    seen: set[str] = set()
    for index, command in enumerate(decoded):
        if command is None or index in dropped or command.is_answer:
            continue
        answer = answers.get(index)
        if _is_known(listed, decoded, index, answer, seen):
            dropped |= {index} if answer is None else {index, answer}
    connections = {
        event["connection"]
        for index, event in enumerate(listed)
        if index not in dropped and event["side"] != "end"
    }
    for index, event in enumerate(listed):
        if index not in dropped and event["connection"] in connections:
            yield event


def _pairs(
    events: list[dict[str, Any]], decoded: list[Command | None]
) -> tuple[dict[int, int], set[int]]:
    """The index of each request's answer, and requests and answers that lack the other."""
    waiting: dict[tuple[int, str, int], int] = {}
    answers: dict[int, int] = {}
    alone: set[int] = set()
    for index, command in enumerate(decoded):
        if command is None:
            continue
        number, side = events[index]["connection"], events[index]["side"]
        if command.is_answer:
            asked = waiting.pop((number, OTHER[side], command.opaque), None)
            if asked is None:
                alone.add(index)
            else:
                answers[asked] = index
        elif not command.is_one_way:
            waiting[number, side, command.opaque] = index
    return answers, alone | set(waiting.values())


def _is_known(
    listed: list[dict[str, Any]],
    decoded: list[Command | None],
    index: int,
    answer: int | None,
    seen: set[str],
) -> bool:
    """Whether a request and its answer show nothing new and change nothing."""
    request = decoded[index]
    reply = decoded[answer] if answer is not None else None
    assert request is not None
    if request.code not in REPEATABLE:
        return False
    if reply is not None and answer is not None:
        took_ms = listed[answer]["at_ms"] - listed[index]["at_ms"]
        is_pull = request.code in PULLS
        if is_pull and (reply.code == REFUSED_FOR_NOW or (took_ms > HELD_MS and not reply.body)):
            return True
    left_out = TIMES | UNIMPORTANT.get(R(request.code), set())
    fields = {name: value for name, value in request.fields.items() if name not in left_out}
    key: list[Any] = [request.code, listed[index]["side"], request.version, request.is_binary]
    key.append(reply.code if reply else None)
    if request.code in OF_A_CONNECTION:
        key += [listed[index]["connection"], fields, _timeless(request.body)]
    else:
        key.append({name: _kind(name, value) for name, value in fields.items()})
    text = json.dumps(key, sort_keys=True)
    if text in seen:
        return True
    seen.add(text)
    return False


def _kind(name: str, value: str) -> str:
    """The value of a field, or for topics and groups their prefix."""
    if name in ("topic", "consumerGroup", "producerGroup") and value != TEMPLATE_TOPIC:
        return value[:1] if value.startswith("%") else ""
    return value


def _timeless(body: bytes) -> Any:
    """A heartbeat's body without the times of its subscriptions."""
    if not body:
        return ""
    document = json.loads(body)
    for consumer in document.get("consumerDataSet", ()):
        for subscription in consumer["subscriptionDataSet"]:
            subscription.pop("subVersion", None)
    return document


def _command(row: dict[str, Any]) -> Command | None:
    if row["side"] == "end":
        return None
    return decode(base64.b64decode(row["frame"])[LENGTH_BYTES:])
