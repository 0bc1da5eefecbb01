"""RocketMQ's SQL92 property filters: text to tokens, to a tree, to closures that never raise.

The rules are RocketMQ's (docs/rocketmq-rules.md#filters); `docs/filters.md` has the language.
Nothing here knows queues or messages: a filter sees a mapping of properties.
"""

from engine.delivery.sql.compile import CACHE_MAX, SqlFilter, compile_sql

__all__ = ["CACHE_MAX", "SqlFilter", "compile_sql"]
