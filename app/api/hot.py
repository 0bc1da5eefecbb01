"""Operations that are called all the time, so that a server has them from its start.

The others are loaded with the first call to one of them.
"""

from app.api.messages import messages, produce, receive
from app.api.monitoring import metrics
from app.api.server import system

# Called thousands of times a second.
HOT = (*produce.operations, *receive.operations, messages.pull)
# Asked by monitoring.
PROBES = (system.healthz, system.readyz, metrics.metrics)
