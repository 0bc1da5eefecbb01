"""Every operation of the API, in the order in which the router asks.

`python -m app.api.catalog` prints `docs/rest.md`.
"""

import sys

from app.api import (
    access,
    access_check,
    alerts,
    clients,
    control,
    credentials,
    dead_letters,
    dismissals,
    groups,
    marks,
    members,
    messages,
    metrics,
    produce,
    progress,
    receive,
    replay_history,
    replays,
    reports,
    requests,
    resets,
    retention,
    scheduled,
    search,
    statistics,
    system,
    topic_imports,
    topics,
    traces,
    transactions,
    views,
)
from app.api.docs import markdown

# What is called thousands of times a second.
HOT = (*produce.OPERATIONS, *receive.OPERATIONS, messages.pull)

OPERATIONS = (
    *produce.OPERATIONS,
    *receive.OPERATIONS,
    *messages.OPERATIONS,
    *traces.OPERATIONS,
    *topics.OPERATIONS,
    *topic_imports.OPERATIONS,
    *marks.OPERATIONS,
    *groups.OPERATIONS,
    *progress.OPERATIONS,
    *resets.OPERATIONS,
    *search.OPERATIONS,
    *members.OPERATIONS,
    *clients.OPERATIONS,
    *dismissals.OPERATIONS,  # before offsets, which stand at the same place in a path
    *dead_letters.OPERATIONS,
    *replays.OPERATIONS,
    *replay_history.OPERATIONS,
    *retention.OPERATIONS,
    *scheduled.OPERATIONS,
    *requests.OPERATIONS,
    *transactions.OPERATIONS,
    *statistics.OPERATIONS,
    *alerts.OPERATIONS,
    *reports.OPERATIONS,
    *access.OPERATIONS,
    *credentials.OPERATIONS,
    *access_check.OPERATIONS,
    *views.OPERATIONS,
    *system.OPERATIONS,
    *control.OPERATIONS,
    *metrics.OPERATIONS,
)

if __name__ == "__main__":
    sys.stdout.write(markdown(OPERATIONS))
