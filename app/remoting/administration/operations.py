"""Request codes of administration tools with their handlers."""

from app.remoting.administration import broker, consumers, groups, progress, topics
from app.remoting.operation import RemotingOperation
from protocol.remoting.codes import RequestCode as R

ADMINISTRATION: dict[R, RemotingOperation] = {
    R.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: RemotingOperation(
        topics.list_topics, "All topics by name."
    ),
    R.GET_TOPICS_BY_CLUSTER: RemotingOperation(
        topics.list_topics, "The same: there is one cluster."
    ),
    R.GET_SYSTEM_TOPIC_LIST_FROM_NS: RemotingOperation(
        topics.list_system_topics, "The topics that are the engine's own."
    ),
    R.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: RemotingOperation(topics.list_system_topics, "The same."),
    R.GET_TOPIC_CONFIG: RemotingOperation(topics.topic_config, "How a topic is set up."),
    R.GET_ALL_TOPIC_CONFIG: RemotingOperation(
        topics.all_topic_configs, "How all topics are set up."
    ),
    R.UPDATE_AND_CREATE_TOPIC: RemotingOperation(
        topics.update_topic, "Create a topic, or change its queues and permission; audited."
    ),
    R.DELETE_TOPIC_IN_BROKER: RemotingOperation(topics.delete_topic, "Delete a topic; audited."),
    R.DELETE_TOPIC_IN_NAMESRV: RemotingOperation(
        topics.delete_route, "Nothing: the route is gone with the topic."
    ),
    R.GET_TOPIC_STATS_INFO: RemotingOperation(
        topics.topic_stats, "The offsets of a topic's queues."
    ),
    R.QUERY_TOPIC_CONSUME_BY_WHO: RemotingOperation(topics.consumed_by, "The groups of a topic."),
    R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: RemotingOperation(
        groups.update_group,
        "Create a group, or change its retries, its order and whether it consumes; audited.",
    ),
    R.DELETE_SUBSCRIPTIONGROUP: RemotingOperation(groups.delete_group, "Delete a group; audited."),
    R.GET_SUBSCRIPTIONGROUP_CONFIG: RemotingOperation(
        groups.group_config, "How a group is set up."
    ),
    R.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: RemotingOperation(
        groups.all_group_configs, "How all groups are set up."
    ),
    R.GET_CONSUME_STATS: RemotingOperation(
        progress.consume_stats, "How far a group is in each queue."
    ),
    R.QUERY_TOPICS_BY_CONSUMER: RemotingOperation(
        progress.topics_of_group, "The topics of a group."
    ),
    R.INVOKE_BROKER_TO_RESET_OFFSET: RemotingOperation(
        progress.reset_offsets,
        "Move a group to a time or an offset, and tell its clients; audited.",
    ),
    R.GET_CONSUMER_CONNECTION_LIST: RemotingOperation(
        consumers.consumer_connections, "The classic consumers of a group."
    ),
    R.GET_PRODUCER_CONNECTION_LIST: RemotingOperation(
        consumers.producer_connections, "The classic producers of a producer group."
    ),
    R.GET_CONSUMER_RUNNING_INFO: RemotingOperation(
        consumers.running_info, "What a consumer tells of itself: it is asked."
    ),
    R.GET_BROKER_RUNTIME_INFO: RemotingOperation(broker.runtime_info, "Figures of the broker."),
    R.GET_BROKER_CONFIG: RemotingOperation(broker.broker_config, "Settings by RocketMQ's names."),
    R.GET_KV_CONFIG: RemotingOperation(
        broker.kv_config, "Always QUERY_NOT_FOUND: no values are kept."
    ),
}
