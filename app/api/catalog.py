"""Every operation of the API, in the order in which the router asks.

`python -m app.api.catalog` prints `docs/rest.md`.
"""

import sys

from app.api import clients, scheduled, traces, transactions, views
from app.api.access import check as access_check
from app.api.access import credentials
from app.api.access import users as access
from app.api.alerts import alerts
from app.api.dead_letters import dead_letters, dismissals
from app.api.framework.docs import markdown
from app.api.groups import groups, members, progress, resets
from app.api.messages import messages, produce, receive, requests, search
from app.api.monitoring import metrics, statistics
from app.api.replays import history as replay_history
from app.api.replays import replays
from app.api.reports import reports
from app.api.server import control, system
from app.api.topics import imports as topic_imports
from app.api.topics import marks, retention, topics

# Operations that are called thousands of times a second.
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
