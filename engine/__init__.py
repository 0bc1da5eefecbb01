"""The embedded engine: RocketMQ's messaging model as a library.

It knows no web, no SQL, no Spark, no socket and no event loop. The way in is
`engine.broker.Broker`.
"""
