"""Request codes of administration tools with their handlers."""

from app.remoting.administration import (
    acls,
    consumers,
    figures,
    groups,
    moves,
    progress,
    settings,
    topics,
    users,
)
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
        topics.update_topic,
        "Create a topic, its `message.type` too, or change its queues and permission; audited.",
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
        moves.reset_offsets,
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
    R.GET_BROKER_RUNTIME_INFO: RemotingOperation(figures.runtime_info, "Figures of the broker."),
    R.GET_BROKER_HA_STATUS: RemotingOperation(
        figures.ha_status, "The end of the log; the broker has no copies."
    ),
    R.GET_BROKER_CONFIG: RemotingOperation(settings.broker_config, "Settings by RocketMQ's names."),
    R.UPDATE_AND_CREATE_TOPIC_LIST: RemotingOperation(
        topics.update_topics, "The same for several topics; audited for each."
    ),
    R.QUERY_CONSUME_QUEUE: RemotingOperation(
        topics.queue_entries, "Where messages of a queue lie in the log."
    ),
    R.WIPE_WRITE_PERM_OF_BROKER: RemotingOperation(
        topics.wipe_write_permission,
        "Take the permission to write from all topics; audited for each.",
    ),
    R.ADD_WRITE_PERM_OF_BROKER: RemotingOperation(
        topics.add_write_permission, "Give the permission to write to all topics; audited for each."
    ),
    R.GET_UNIT_TOPIC_LIST: RemotingOperation(
        topics.no_topics, "Always empty: topics belong to no units."
    ),
    R.GET_HAS_UNIT_SUB_TOPIC_LIST: RemotingOperation(topics.no_topics, "The same."),
    R.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: RemotingOperation(topics.no_topics, "The same."),
    R.CLEAN_EXPIRED_CONSUMEQUEUE: RemotingOperation(
        topics.nothing_to_clean, "Nothing: queue files go with the log, by retention."
    ),
    R.CLEAN_UNUSED_TOPIC: RemotingOperation(
        topics.nothing_to_clean, "Nothing: queue files are gone with their topic."
    ),
    R.DELETE_EXPIRED_COMMITLOG: RemotingOperation(
        topics.nothing_to_clean, "Nothing: retention looks for old files all the time."
    ),
    R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: RemotingOperation(
        groups.update_groups, "Create or change several groups; audited for each."
    ),
    R.UPDATE_AND_GET_GROUP_FORBIDDEN: RemotingOperation(
        moves.group_forbidden,
        "Whether a group reads a topic; to pause or resume it there, audited.",
    ),
    R.GET_ALL_CONSUMER_OFFSET: RemotingOperation(
        progress.all_offsets, "The offsets of all groups."
    ),
    R.GET_ALL_DELAY_OFFSET: RemotingOperation(
        progress.delay_offsets, "How far each delay level is."
    ),
    R.QUERY_CONSUME_TIME_SPAN: RemotingOperation(
        progress.time_spans, "The times of a queue's messages and of a group's place in it."
    ),
    R.QUERY_CORRECTION_OFFSET: RemotingOperation(
        progress.correction_offsets, "The lowest offset of a topic's groups in each queue."
    ),
    R.GET_BROKER_CONSUME_STATS: RemotingOperation(
        progress.broker_consume_stats, "How far all groups are."
    ),
    R.CLONE_GROUP_OFFSET: RemotingOperation(
        moves.clone_offsets,
        "Move a group to the place of another one, and tell its clients; audited.",
    ),
    R.GET_ALL_PRODUCER_INFO: RemotingOperation(
        consumers.all_producers, "The classic producers of all producer groups."
    ),
    R.QUERY_SUBSCRIPTION_BY_CONSUMER: RemotingOperation(
        consumers.subscription, "The subscription of a group's classic consumers to a topic."
    ),
    R.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: RemotingOperation(
        consumers.consumer_offsets, "The offsets that consumers hold: they are asked."
    ),
    R.CONSUME_MESSAGE_DIRECTLY: RemotingOperation(
        consumers.consume_directly, "Let a push consumer process a stored message; audited."
    ),
    R.VIEW_BROKER_STATS_DATA: RemotingOperation(
        figures.view_stats,
        "Messages or bytes of a topic, of a group in it, or of all, over a minute, hour and day.",
    ),
    R.UPDATE_BROKER_CONFIG: RemotingOperation(
        settings.update_broker_config,
        "Refused with the name of our setting, as settings are read at the start.",
    ),
    R.GET_NAMESRV_CONFIG: RemotingOperation(settings.name_server_config, "Its port."),
    R.UPDATE_NAMESRV_CONFIG: RemotingOperation(
        settings.update_name_server_config, "Refused, as settings of the broker."
    ),
    R.PUT_KV_CONFIG: RemotingOperation(
        settings.put_kv_config,
        "Refused but for the queues that a topic has already, in `ORDER_TOPIC_CONFIG`.",
    ),
    R.GET_KV_CONFIG: RemotingOperation(
        settings.kv_config, "The queues of a topic in `ORDER_TOPIC_CONFIG`."
    ),
    R.GET_KVLIST_BY_NAMESPACE: RemotingOperation(settings.kv_list, "The same of all topics."),
    R.DELETE_KV_CONFIG: RemotingOperation(
        settings.delete_kv_config, "Refused for the queues of a topic; others are not there."
    ),
    R.AUTH_CREATE_USER: RemotingOperation(
        users.create_user, "Create a user: Super is an admin, Normal an operator; audited."
    ),
    R.AUTH_UPDATE_USER: RemotingOperation(
        users.update_user, "Change a user's password, type or status; audited."
    ),
    R.AUTH_DELETE_USER: RemotingOperation(users.delete_user, "Delete a user; audited."),
    R.AUTH_GET_USER: RemotingOperation(users.get_user, "A user, without the password."),
    R.AUTH_LIST_USER: RemotingOperation(users.list_users, "Users, without their passwords."),
    R.AUTH_CREATE_ACL: RemotingOperation(
        acls.set_acl, "Allow an operator actions on topics and groups; audited."
    ),
    R.AUTH_UPDATE_ACL: RemotingOperation(acls.set_acl, "The same."),
    R.AUTH_DELETE_ACL: RemotingOperation(
        acls.delete_acl, "Take an operator's rights on a resource, or all; audited."
    ),
    R.AUTH_GET_ACL: RemotingOperation(acls.get_acl, "What an operator is allowed."),
    R.AUTH_LIST_ACL: RemotingOperation(acls.list_acls, "What operators are allowed."),
}
