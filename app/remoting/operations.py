"""Every request code: its handler, or why there is none. `docs/remoting.md` is made from this.

`python -m app.remoting.operations` prints the page's table.
"""

from app.remoting import (
    assignments,
    heartbeats,
    locking,
    message_queries,
    pop_settling,
    popping,
    pulling,
    recalling,
    replies,
    routing,
    sending,
    slaves,
    transactions,
)
from app.remoting.administration.operations import ADMINISTRATION
from app.remoting.connection import Handler
from app.remoting.errors import RemotingRefusal
from app.remoting.operation import RemotingOperation
from protocol.remoting.codes import RequestCode as R
from protocol.remoting.codes import ResponseCode

CLUSTER = "there is one broker and no cluster of brokers"
TO_CLIENT = "brokers ask clients this, not the other way round"
OFFERED: dict[R, RemotingOperation] = {
    R.SEND_MESSAGE: RemotingOperation(sending.send, "Store a message, or with `batch` several."),
    R.SEND_MESSAGE_V2: RemotingOperation(sending.send, "The same with short field names."),
    R.SEND_BATCH_MESSAGE: RemotingOperation(sending.send, "Store several messages of one topic."),
    R.PULL_MESSAGE: RemotingOperation(
        pulling.pull, "Messages of a queue from an offset; held while none."
    ),
    R.LITE_PULL_MESSAGE: RemotingOperation(pulling.pull, "The same for lite pull consumers."),
    R.QUERY_MESSAGE: RemotingOperation(
        message_queries.query_message, "Messages of a topic by key, tag or message id."
    ),
    R.VIEW_MESSAGE_BY_ID: RemotingOperation(
        message_queries.view_message, "The message that an offset id names."
    ),
    R.QUERY_CONSUMER_OFFSET: RemotingOperation(pulling.query_offset, "A group's place in a queue."),
    R.UPDATE_CONSUMER_OFFSET: RemotingOperation(
        pulling.update_offset, "Move a group's place in a queue, at most to its end."
    ),
    R.SEARCH_OFFSET_BY_TIMESTAMP: RemotingOperation(pulling.search_offset, "The offset of a time."),
    R.GET_MAX_OFFSET: RemotingOperation(pulling.max_offset, "The end of a queue."),
    R.GET_MIN_OFFSET: RemotingOperation(pulling.min_offset, "The beginning of a queue."),
    R.GET_EARLIEST_MSG_STORETIME: RemotingOperation(
        pulling.earliest_time, "When the oldest message of a queue was stored; -1 for none."
    ),
    R.CONSUMER_SEND_MSG_BACK: RemotingOperation(
        pulling.send_back, "Retry a message later, or make it a dead letter."
    ),
    R.HEART_BEAT: RemotingOperation(
        heartbeats.heartbeat, "A client, its groups and subscriptions."
    ),
    R.UNREGISTER_CLIENT: RemotingOperation(heartbeats.unregister, "A producer or consumer ends."),
    R.GET_CONSUMER_LIST_BY_GROUP: RemotingOperation(
        heartbeats.consumer_list, "The members of a group."
    ),
    R.CHECK_CLIENT_CONFIG: RemotingOperation(
        heartbeats.check_client, "Whether a filter can be read."
    ),
    R.LOCK_BATCH_MQ: RemotingOperation(locking.lock, "Lock queues for an orderly consumer."),
    R.UNLOCK_BATCH_MQ: RemotingOperation(locking.unlock, "Give such locks up."),
    R.END_TRANSACTION: RemotingOperation(
        transactions.end_transaction, "Commit or roll back a half message."
    ),
    R.GET_ROUTEINFO_BY_TOPIC: RemotingOperation(routing.get_route, "A topic's queues and broker."),
    R.GET_BROKER_CLUSTER_INFO: RemotingOperation(
        routing.get_cluster_info, "The broker and its cluster."
    ),
    R.REGISTER_BROKER: RemotingOperation(
        slaves.register, "A slave of this broker, which is told where to copy the log."
    ),
    R.SEND_REPLY_MESSAGE: RemotingOperation(
        replies.send_reply, "Pass a reply to its requester, and store it."
    ),
    R.SEND_REPLY_MESSAGE_V2: RemotingOperation(
        replies.send_reply, "The same with short field names."
    ),
    R.RESUME_CHECK_HALF_MESSAGE: RemotingOperation(
        transactions.resume_check, "Check a transaction again that was given up; audited."
    ),
    R.RECALL_MESSAGE: RemotingOperation(
        recalling.recall, "Prevent the delivery of a message that waits for its time; audited."
    ),
    R.QUERY_ASSIGNMENT: RemotingOperation(
        assignments.query_assignment, "The queues of a client, and whether it pulls or POPs them."
    ),
    R.SET_MESSAGE_REQUEST_MODE: RemotingOperation(
        assignments.set_request_mode, "Let a group POP or pull a topic; audited."
    ),
    R.GET_ALL_MESSAGE_REQUEST_MODE: RemotingOperation(
        assignments.all_request_modes, "The groups that were told to POP or to pull."
    ),
    R.POP_MESSAGE: RemotingOperation(
        popping.pop, "Deliver messages of a queue, or all, for an invisible time; held while none."
    ),
    R.PEEK_MESSAGE: RemotingOperation(
        popping.peek, "Messages that a group has not done, without delivering them."
    ),
    R.ACK_MESSAGE: RemotingOperation(pop_settling.ack, "Mark a popped message as done."),
    R.BATCH_ACK_MESSAGE: RemotingOperation(
        pop_settling.ack_batch, "Mark several as done; stale receipts are passed over."
    ),
    R.CHANGE_MESSAGE_INVISIBLETIME: RemotingOperation(
        pop_settling.change_invisible_time,
        "Retry a popped message after a time; of a client without a heartbeat, hold it longer.",
    ),
    R.NOTIFICATION: RemotingOperation(
        popping.notification, "Whether there are messages to POP; held while none."
    ),
    R.POLLING_INFO: RemotingOperation(
        popping.polling_info, "How many POPs of a group wait for messages of a topic."
    ),
    **ADMINISTRATION,
}
BROKER_CODES = (
    R.ADD_BROKER,
    R.REMOVE_BROKER,
    R.BROKER_HEARTBEAT,
    R.NOTIFY_MIN_BROKER_ID_CHANGE,
    R.EXCHANGE_BROKER_HA_INFO,
    R.RESET_MASTER_FLUSH_OFFSET,
    R.GET_BROKER_EPOCH_CACHE,
    R.NOTIFY_BROKER_ROLE_CHANGED,
)
CONTROLLER_CODES = (
    R.CONTROLLER_ALTER_SYNC_STATE_SET,
    R.CONTROLLER_ELECT_MASTER,
    R.CONTROLLER_REGISTER_BROKER,
    R.CONTROLLER_GET_REPLICA_INFO,
    R.CONTROLLER_GET_NEXT_BROKER_ID,
    R.CONTROLLER_APPLY_BROKER_ID,
    R.CONTROLLER_GET_METADATA_INFO,
    R.CONTROLLER_GET_SYNC_STATE_DATA,
    R.UPDATE_CONTROLLER_CONFIG,
    R.GET_CONTROLLER_CONFIG,
    R.CLEAN_BROKER_DATA,
    R.BROKER_CLOSE_CHANNEL_REQUEST,
    R.CHECK_NOT_ACTIVE_BROKER_REQUEST,
    R.GET_BROKER_LIVE_INFO_REQUEST,
    R.GET_SYNC_STATE_DATA_REQUEST,
    R.RAFT_BROKER_HEART_BEAT_EVENT_REQUEST,
)
COLD_CODES = (
    R.UPDATE_COLD_DATA_FLOW_CTR_CONFIG,
    R.REMOVE_COLD_DATA_FLOW_CTR_CONFIG,
    R.GET_COLD_DATA_FLOW_CTR_INFO,
    R.SET_COMMITLOG_READ_MODE,
)
ROCKSDB_CODES = (R.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, R.EXPORT_ROCKSDB_CONFIG_TO_JSON)
# Numbers that RocketMQ keeps, and which its own broker does not answer either.
UNUSED_CODES = (
    R.QUERY_BROKER_OFFSET,
    R.GET_TOPIC_CONFIG_LIST,
    R.GET_TOPIC_NAME_LIST,
    R.TRIGGER_DELETE_FILES,
    R.GET_CLIENT_CONFIG,
    R.SUSPEND_CONSUMER,
    R.RESUME_CONSUMER,
    R.RESET_CONSUMER_OFFSET_IN_CONSUMER,
    R.RESET_CONSUMER_OFFSET_IN_BROKER,
    R.ADJUST_CONSUMER_THREAD_POOL,
    R.WHO_CONSUME_THE_MESSAGE,
)
TIMER_CODES = (R.GET_TIMER_CHECK_POINT, R.GET_TIMER_METRICS, R.SWITCH_TIMER_ENGINE)
LITE_CODES = (
    R.POP_LITE_MESSAGE,
    R.LITE_SUBSCRIPTION_CTL,
    R.ACK_LITE_MESSAGE,
    R.NOTIFY_UNSUBSCRIBE_LITE,
    R.GET_BROKER_LITE_INFO,
    R.GET_PARENT_TOPIC_INFO,
    R.GET_LITE_TOPIC_INFO,
    R.GET_LITE_CLIENT_INFO,
    R.GET_LITE_GROUP_INFO,
    R.TRIGGER_LITE_DISPATCH,
)
FILTER_CODES = (R.REGISTER_FILTER_SERVER, R.REGISTER_MESSAGE_FILTER_CLASS)
REFUSED: dict[R, str] = {
    R.CHECK_TRANSACTION_STATE: TO_CLIENT,
    R.NOTIFY_CONSUMER_IDS_CHANGED: TO_CLIENT,
    R.RESET_CONSUMER_CLIENT_OFFSET: TO_CLIENT,
    R.GET_CONSUMER_STATUS_FROM_CLIENT: TO_CLIENT,
    R.PUSH_REPLY_MESSAGE_TO_CLIENT: TO_CLIENT,
    R.REGISTER_TOPIC_IN_NAMESRV: CLUSTER,
    R.UNREGISTER_BROKER: CLUSTER,
    R.QUERY_DATA_VERSION: CLUSTER,
    R.GET_BROKER_MEMBER_GROUP: CLUSTER,
    **dict.fromkeys(BROKER_CODES, CLUSTER),
    **dict.fromkeys(CONTROLLER_CODES, "there is one broker, and no controller elects a master"),
    **dict.fromkeys(COLD_CODES, "reads of old messages are not throttled for single groups"),
    **dict.fromkeys(ROCKSDB_CODES, "nothing is kept in RocksDB"),
    **dict.fromkeys(UNUSED_CODES, "no client or tool of RocketMQ sends it"),
    **dict.fromkeys(TIMER_CODES, "waiting messages are in no timer wheel"),
    **dict.fromkeys(FILTER_CODES, "filter classes are not offered"),
    **dict.fromkeys(LITE_CODES, "there are no lite topics"),
    R.POP_ROLLBACK: "deliveries are kept in the progress of their group, not in records of POPs",
    R.UPDATE_AND_CREATE_STATIC_TOPIC: "static topics spread over brokers, and there is one",
}


def handler_of(code: int) -> Handler:
    """The handler of a code; raises RemotingRefusal with the reason if there is none."""
    operation = OFFERED.get(code)  # type: ignore[call-overload]
    if operation is not None:
        return operation.handler  # type: ignore[no-any-return]
    raise RemotingRefusal(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f"{_name(code)}: {reason(code)}")


def reason(code: int) -> str:
    """Why a code is not offered."""
    if code not in set(R):
        return "no such request is known"
    return REFUSED[R(code)]


def page() -> str:
    """The table of `docs/remoting.md`."""
    lines = ["| code | name | what it does here |", "|---|---|---|"]
    for code in R:
        operation = OFFERED.get(code)
        about = operation.about if operation else f"Not supported: {reason(code)}."
        lines.append(f"| {int(code)} | {code.name} | {about} |")
    return "\n".join(lines)


def _name(code: int) -> str:
    return R(code).name if code in set(R) else f"request code {code}"


if __name__ == "__main__":
    print(page())  # noqa: T201 - this is what it is for
