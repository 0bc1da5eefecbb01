"""The endpoint for Apache RocketMQ 5 clients: `apache.rocketmq.v2.MessagingService` over gRPC.
No wire format (protocol/rocketmq/) and no rules of messaging (engine/).
"""
