"""Every operation of the API, in the order in which the router asks.

`python -m app.api.catalog` prints `docs/rest.md`.
"""

import sys

from app.api import clients, scheduled, traces, transactions, views
from app.api.access import check as access_check
from app.api.access import credentials
from app.api.access import users as access
from app.api.alerts import alerts, receivers
from app.api.dead_letters import dead_letters, dismissals
from app.api.framework.docs import markdown
from app.api.groups import groups, members, progress, resets
from app.api.messages import messages, produce, receive, requests, search
from app.api.monitoring import metrics, statistics
from app.api.replays import history as replay_history
from app.api.replays import replays
from app.api.reports import figures, reports
from app.api.server import brokers, control, system
from app.api.topics import imports as topic_imports
from app.api.topics import retention, stars_and_notes, topics

MODULES = (
    *(produce, receive, messages, traces, topics, topic_imports, stars_and_notes),
    *(groups, progress, resets, search, members, clients),
    dismissals,  # before offsets, which stand at the same place in a path
    *(dead_letters, replays, replay_history, retention, scheduled, requests, transactions),
    *(statistics, alerts, receivers, reports, figures, access, credentials, access_check, views),
    *(system, brokers, control, metrics),
)
OPERATIONS = tuple(operation for module in MODULES for operation in module.operations)

if __name__ == "__main__":
    sys.stdout.write(markdown(OPERATIONS))
