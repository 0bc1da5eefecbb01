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
from app.api.reports import figures, reports
from app.api.server import control, system
from app.api.topics import imports as topic_imports
from app.api.topics import retention, stars_and_notes, topics

OPERATIONS = (
    *produce.operations,
    *receive.operations,
    *messages.operations,
    *traces.operations,
    *topics.operations,
    *topic_imports.operations,
    *stars_and_notes.operations,
    *groups.operations,
    *progress.operations,
    *resets.operations,
    *search.operations,
    *members.operations,
    *clients.operations,
    *dismissals.operations,  # before offsets, which stand at the same place in a path
    *dead_letters.operations,
    *replays.operations,
    *replay_history.operations,
    *retention.operations,
    *scheduled.operations,
    *requests.operations,
    *transactions.operations,
    *statistics.operations,
    *alerts.operations,
    *reports.operations,
    *figures.operations,
    *access.operations,
    *credentials.operations,
    *access_check.operations,
    *views.operations,
    *system.operations,
    *control.operations,
    *metrics.operations,
)

if __name__ == "__main__":
    sys.stdout.write(markdown(OPERATIONS))
