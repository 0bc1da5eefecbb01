"""Every operation of the API, in the order in which the router asks.

`python -m app.api.catalog` prints `docs/rest.md`.
"""

import sys

from app.api import groups, messages, metrics, produce, receive, system, topics
from app.api.docs import markdown

# What is called thousands of times a second.
HOT = (*produce.OPERATIONS, *receive.OPERATIONS, messages.pull)

OPERATIONS = (
    *produce.OPERATIONS,
    *receive.OPERATIONS,
    *messages.OPERATIONS,
    *topics.OPERATIONS,
    *groups.OPERATIONS,
    *system.OPERATIONS,
    *metrics.OPERATIONS,
)

if __name__ == "__main__":
    sys.stdout.write(markdown(OPERATIONS))
