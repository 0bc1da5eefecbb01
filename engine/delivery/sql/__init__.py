"""RocketMQ's SQL92 property filters: text to tokens, to a tree, to closures that never raise.

The rules are those of the reference "rocketmq-semantics", section 7; `docs/filters.md` tells them
to users. Nothing here knows of queues or messages: a filter sees a mapping of properties.
"""

from engine.delivery.sql.compile import CACHE_MAX, SqlFilter, compile_sql

__all__ = ["CACHE_MAX", "SqlFilter", "compile_sql"]
