"""The door for Apache RocketMQ 5 clients: `apache.rocketmq.v2.MessagingService` over gRPC."""
