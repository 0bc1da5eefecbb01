"""How far the brokers of a cluster are with messages that wait, and recalls of such messages."""

import struct
from collections.abc import Mapping

import msgspec

from app.cluster.link import ClusterLink
from app.cluster.routes import decoded
from protocol.recall_handle import encode_handle
from protocol.remoting.codes import RequestCode, ResponseCode
from protocol.remoting.loose_json import standard_json

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"  # a queue for each delay level, in order of due time
TIMER_TOPIC = "rmq_sys_wheel_timer"  # one queue, in order of arrival, with what was delivered, too
LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"  # unless a broker says others
UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
CHECK_POINT = struct.Struct(">q")  # the time up to which timers were read, in ms; more follows
NO_TIMERS = (ResponseCode.SYSTEM_ERROR, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
RECALLER = "KITEMQ_RECALLS"  # the producer group of a recall, which brokers only note


class _LevelOffsets(msgspec.Struct, rename="camel"):
    offset_table: dict[int, int] = {}


class ClusterSchedules:
    """The verbs for messages that wait."""

    def __init__(self, link: ClusterLink) -> None:
        self._link = link

    async def passed(self, broker: str) -> dict[int, int]:
        """By delay level the offset of the first message that waits; none of a level never used."""
        answer = await self._link.ask(broker, RequestCode.GET_ALL_DELAY_OFFSET, {})
        return decoded(standard_json(answer.body), _LevelOffsets).offset_table

    async def timer_time_ms(self, broker: str) -> int | None:
        """The time up to which timers were delivered, a second or two late; None if not told."""
        answer = await self._link.ask(
            broker, RequestCode.GET_TIMER_CHECK_POINT, {}, allowed=NO_TIMERS
        )
        if answer.code != ResponseCode.SUCCESS or len(answer.body) < CHECK_POINT.size:
            return None
        time_ms: int = CHECK_POINT.unpack_from(answer.body)[0]
        return time_ms or None

    async def recall(self, broker: str, topic: str, out_ms: int, message_id: str) -> None:
        """Have a message dropped when its time comes, which its record gives as `out_ms`.

        The broker takes it for any id and looks for the message later.
        """
        handle = encode_handle(topic, broker, out_ms + 1, message_id)  # as its own send answers
        fields = {"producerGroup": RECALLER, "topic": topic, "recallHandle": handle}
        await self._link.ask(broker, RequestCode.RECALL_MESSAGE, fields)


def level_waits_ms(settings: Mapping[str, str]) -> list[int]:
    """How long each delay level of a broker with these settings waits."""
    words = settings.get("messageDelayLevel", LEVELS).split()
    return [int(each[:-1]) * UNITS_MS[each[-1]] for each in words]
