"""Where KiteMQ's frames may differ from Apache's, and why. Every other difference is a failure.

A row names request codes (none for all), a path of `comparison.py` with wildcards, and the reason.
"""

from fnmatch import fnmatchcase
from typing import NamedTuple

from protocol.remoting.codes import RequestCode as R
from protocol.remoting.codes import ResponseCode as C
from tests.remoting.golden.comparison import Difference, has_same_kind


class Row(NamedTuple):
    """Differences at a path that matches are allowed in frames of these codes."""

    codes: frozenset[int]
    path: str
    reason: str
    values: tuple[int, int] | None = None  # Apache's and KiteMQ's; None for any

    def allows(self, difference: Difference) -> bool:
        is_code = not self.codes or difference.code in self.codes
        is_value = self.values in (None, (difference.apache, difference.kitemq))
        return is_code and is_value and fnmatchcase(difference.path, self.path)


def row(path: str, reason: str, *codes: int, values: tuple[int, int] | None = None) -> Row:
    return Row(frozenset(codes), path.replace("[]", "[[]]"), reason, values)


SENDS = (R.SEND_MESSAGE, R.SEND_MESSAGE_V2, R.SEND_BATCH_MESSAGE)
REPLIES = (R.SEND_REPLY_MESSAGE, R.SEND_REPLY_MESSAGE_V2)
TOPIC_LISTS = (
    R.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    R.GET_TOPICS_BY_CLUSTER,
    R.GET_SYSTEM_TOPIC_LIST_FROM_NS,
    R.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
)
CONFIGS = (R.GET_BROKER_CONFIG, R.GET_NAMESRV_CONFIG)
POSITION = "a position in the log: records have other sizes"
TIME = "a time of this run"
ADDRESS = "a client's port"
OTHER_THREADS = "Apache's threads order by chance what is sent at the same time"
RATE = "a figure that depends on when it is sampled"
OWN_TOPICS = "topics and groups of the engine's own, which differ"
PASSWORD = "passwords are never shown"
NOT_OFFERED = "not offered; the page says why"

# The value is another one in each run; it has the same type.
FREE = (
    row("body[].position", POSITION),
    row("body[].stored_ms", TIME),
    row("body[].born_host", ADDRESS),
    row("body[].offset", OTHER_THREADS, R.PULL_MESSAGE, R.POP_MESSAGE, R.CHECK_TRANSACTION_STATE),
    row("fields.msgId", POSITION, *SENDS, *REPLIES, R.CONSUME_MESSAGE_DIRECTLY),
    row("fields.queueOffset", OTHER_THREADS, *SENDS, *REPLIES),
    row("fields.recallHandle", TIME, R.SEND_MESSAGE_V2),
    row("fields.popTime", TIME, R.POP_MESSAGE, R.CHANGE_MESSAGE_INVISIBLETIME),
    row("fields.timestamp", TIME, R.GET_EARLIEST_MSG_STORETIME),
    row("fields.indexLastUpdate*", POSITION, R.QUERY_MESSAGE),
    row("fields.commitLogOffset", POSITION, R.CHECK_TRANSACTION_STATE),
    row("fields.offsetMsgId", POSITION, R.CHECK_TRANSACTION_STATE),
    row("fields.tranStateTableOffset", POSITION, R.CHECK_TRANSACTION_STATE),
    row("body[].properties.TRANSACTION_CHECK_TIMES", TIME, R.CHECK_TRANSACTION_STATE),
    row("body[].properties.ORIGIN_MESSAGE_ID", POSITION, R.PULL_MESSAGE),
    row("fields.bornHost", ADDRESS, R.PUSH_REPLY_MESSAGE_TO_CLIENT),
    row("fields.*Timestamp", TIME, R.PUSH_REPLY_MESSAGE_TO_CLIENT),
    row("body.offsetTable.*.lastUpdateTimestamp", TIME, R.GET_TOPIC_STATS_INFO),
    row("body.offsetTable.*.lastTimestamp", TIME, R.GET_CONSUME_STATS),
    row("body.consumeTps", RATE, R.GET_CONSUME_STATS),
    row("body.connectionSet[].clientAddr", ADDRESS),
    row("body.data.*[].remoteIP", ADDRESS, R.GET_ALL_PRODUCER_INFO),
    row("body.data.*[].lastUpdateTimestamp", TIME, R.GET_ALL_PRODUCER_INFO),
    row("body.consumeTimeSpanSet[].*TimeStamp", TIME, R.QUERY_CONSUME_TIME_SPAN),
    row("body.spentTimeMills", TIME, R.CONSUME_MESSAGE_DIRECTLY),
    row("body.stats*", RATE, R.VIEW_BROKER_STATS_DATA),
    row("body.queueData[].physic*", POSITION, R.QUERY_CONSUME_QUEUE),
    row("body.masterCommitLogMaxOffset", POSITION, R.GET_BROKER_HA_STATUS),
    row("body.dataVersion.*", "slaves copy these tables whole, so they have no version",
        R.GET_ALL_TOPIC_CONFIG, R.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, R.GET_ALL_CONSUMER_OFFSET,
        R.GET_ALL_DELAY_OFFSET),
    row("fields.*TopicCount", OWN_TOPICS, R.WIPE_WRITE_PERM_OF_BROKER, R.ADD_WRITE_PERM_OF_BROKER),
    row("body.topicList.length", OWN_TOPICS, *TOPIC_LISTS),
    row("body.topicList[]", OWN_TOPICS, *TOPIC_LISTS),
    row("body.consumeStatsList.length", OWN_TOPICS, R.GET_BROKER_CONSUME_STATS),
)  # fmt: skip

PULLS = (R.PULL_MESSAGE, R.LITE_PULL_MESSAGE)
# KiteMQ differs on purpose.
DELIBERATE = (
    row("remark", "a text for people; clients do not read it"),
    row("body.offsetTable.*", "Apache notes levels every ten seconds", R.GET_ALL_DELAY_OFFSET),
    row("binary", "an answer has the header of its request; Apache 5.5.0 answers in JSON"),
    row("body[].properties.CLUSTER", "the same for each message: it is not stored"),
    row("body[].properties.MSG_REGION", "also of messages that came in a batch", *PULLS),
    row("body[].properties.TRACE_ON", "also of messages that came in a batch", *PULLS),
    row("body[].properties.WAIT", "true is what clients take without it"),
    row("body[].properties.KITE_*", "what KiteMQ's own clients read of a retry", R.PULL_MESSAGE),
    row("body[].ends_with_separator", "property blocks of 4.9 are completed", R.PULL_MESSAGE),
    row("fields.*_HEART_BEAT_V2", "clients send whole heartbeats", R.HEART_BEAT),
    row("fields.IS_SUB_CHANGE", "belongs to heartbeats of the second version", R.HEART_BEAT),
    row("frame", "members are told once a turn of the event loop, not once a heartbeat",
        R.NOTIFY_CONSUMER_IDS_CHANGED),
    row("frame", "a reset is told to clients that would otherwise find it at their next pull",
        R.RESET_CONSUMER_CLIENT_OFFSET),
    row("fields.*", "the reset tells what it was told, not what Apache makes of it",
        R.RESET_CONSUMER_CLIENT_OFFSET),
    row("frame", "Apache may ask about a transaction that is just decided",
        R.CHECK_TRANSACTION_STATE),
    row("fields.topic", "the topic of the message, not that of half messages",
        R.CHECK_TRANSACTION_STATE),
    row("code", "an empty young queue begins at 0, so that no first message is skipped",
        R.QUERY_CONSUMER_OFFSET),
    row("code", "groups are created at their first use", R.UPDATE_CONSUMER_OFFSET),
    row("code", "settings are read at the start", R.UPDATE_BROKER_CONFIG, R.UPDATE_NAMESRV_CONFIG),
    row("code", "only to a group that exists, as everywhere", R.CLONE_GROUP_OFFSET),
    row("code", NOT_OFFERED, R.GET_ALL_DELAY_OFFSET, R.UPDATE_AND_CREATE_STATIC_TOPIC,
        R.GET_BROKER_EPOCH_CACHE, R.GET_COLD_DATA_FLOW_CTR_INFO),
    row("code", "the queues of each topic are its value", R.GET_KV_CONFIG),
    row("body.table.*", "the same", R.GET_KVLIST_BY_NAMESPACE),
    row("body.*", "for copies of a broker, which there are none of", R.GET_ALL_CONSUMER_OFFSET),
    row("body.topicPutTps", "no rate of the last seconds is kept", R.GET_TOPIC_STATS_INFO),
    row("body.consumeTimeSpanSet[].*Str", "times as text, which clients make themselves",
        R.QUERY_CONSUME_TIME_SPAN),
    row("body.brokerAddr", "no client reads it", R.QUERY_TOPICS_BY_CONSUMER,
        R.GET_SYSTEM_TOPIC_LIST_FROM_NS),
    row("body.remark", "a text for people", R.CONSUME_MESSAGE_DIRECTLY),
    row("fields.*SysFlag", "groups and topics belong to no units", R.CONSUME_MESSAGE_DIRECTLY),
    row("code", "the system topic of traces has one queue, as its route says", R.SEND_MESSAGE_V2),
    row("fields.transactionId", "batches of 4.9 have no id, and get that of their first message",
        R.SEND_BATCH_MESSAGE),
    row("code", "the recorded session without its repetitions consumes less",
        R.VIEW_BROKER_STATS_DATA),
    row("fields.MSG_REGION", "clients read it of sends only", R.RECALL_MESSAGE),
    row("flag", "nothing waits for the client's answer to a reply",
        R.PUSH_REPLY_MESSAGE_TO_CLIENT),
    row("fields.producerGroup", "the requester's client, as replies also come from other endpoints",
        R.PUSH_REPLY_MESSAGE_TO_CLIENT),
    row("fields.defaultTopicQueueNums", "no topic is created for a reply",
        R.PUSH_REPLY_MESSAGE_TO_CLIENT),
    row("fields.properties.*", "a reply is found by its key; region and trace as in other messages",
        R.PUSH_REPLY_MESSAGE_TO_CLIENT),
    row("body.attributes.message.type", "always there", R.GET_TOPIC_CONFIG),
    row("body.order", "order belongs to the type of a topic", R.GET_TOPIC_CONFIG),
    row("body.messageQueueAssignments.length", "a group that POPs gets its retries with its topics",
        R.QUERY_ASSIGNMENT),
    row("fields.reviveQid", "there is one way by which messages come back",
        R.POP_MESSAGE, R.CHANGE_MESSAGE_INVISIBLETIME),
    row("body.table.*", "figures of this process and of what it has", R.GET_BROKER_RUNTIME_INFO),
    row("body.*", "only settings that KiteMQ has", *CONFIGS),
    row("fields.version", "settings are read at the start: they have no versions", *CONFIGS),
    row("body.topicConfigTable.*", OWN_TOPICS, R.GET_ALL_TOPIC_CONFIG),
    row("body.*apping*", "there are no static topics", R.GET_ALL_TOPIC_CONFIG),
    row("fields.total*Num", "tables are answered whole, not by pages",
        R.GET_ALL_TOPIC_CONFIG, R.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
    row("body.subscriptionGroupTable.*", "groups have the settings of KiteMQ",
        R.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
    row("body.consumeStatsList[].*", OWN_TOPICS, R.GET_BROKER_CONSUME_STATS),
    row("body.total*", OWN_TOPICS, R.GET_BROKER_CONSUME_STATS),
    row("code", "one port is name server and broker, and answers signed requests only",
        R.GET_ROUTEINFO_BY_TOPIC, values=(C.SUCCESS, C.NO_PERMISSION)),
    row("code", "the code of a user that there is not, where Apache has one for all",
        R.AUTH_UPDATE_USER, R.AUTH_CREATE_ACL, R.AUTH_GET_ACL,
        values=(C.NO_PERMISSION, C.USER_NOT_EXIST)),
    row("code", "a user that there is already, a resource of no kind: not a question of rights",
        R.AUTH_CREATE_USER, R.AUTH_CREATE_ACL, values=(C.NO_PERMISSION, C.ILLEGAL_OPERATION)),
    row("code", "a type that there is not is refused; Apache takes it for Normal",
        R.AUTH_CREATE_USER, values=(C.SUCCESS, C.INVALID_PARAMETER)),
    row("code", "a subject without its kind is the sender's mistake",
        R.AUTH_CREATE_ACL, values=(C.SYSTEM_ERROR, C.INVALID_PARAMETER)),
    row("code", "rights are only allowed, from any address, on topics and groups",
        R.AUTH_UPDATE_ACL, values=(C.SUCCESS, C.ILLEGAL_OPERATION)),
    row("body.password", PASSWORD, R.AUTH_GET_USER),
    row("body[].password", PASSWORD, R.AUTH_LIST_USER),
)  # fmt: skip


def allowing(difference: Difference) -> Row | None:
    """The row that allows a difference; None where it is a failure."""
    for each in DELIBERATE:
        if each.allows(difference):
            return each
    if not has_same_kind(difference.apache, difference.kitemq):
        return None
    return next((each for each in FREE if each.allows(difference)), None)
