"""Finds the messages that jobs sent again; derived from the jobs, stored nowhere else."""

from engine.replay.job_store import JobStore
from engine.replay.outcomes import ReplayOutcome
from engine.topic.catalog import Catalog


class ReplayMarks:
    """Known for as long as the jobs are."""

    def __init__(self, job_store: JobStore, catalog: Catalog) -> None:
        self._job_store = job_store
        self._catalog = catalog

    def within(self, topic: str, queue: int, first: int, end: int) -> dict[int, list[str]]:
        """Offsets of `first` to `end` - 1 that were sent again: ids of the jobs, oldest first."""
        config = self._catalog.find(topic)
        jobs: dict[int, list[str]] = {}
        if config is None:
            return jobs
        for job in self._job_store.of_source(topic, config.since_position):
            end_here = min(end, job.cuts.get(queue, end))
            for nth, _, offsets in job.selection.within(queue, first, end_here):
                sent = set(job.outcomes.find(ReplayOutcome.SENT, nth, nth + len(offsets)))
                sent.update(each for each in job.ahead if nth <= each < nth + len(offsets))
                for each in sorted(sent):
                    jobs.setdefault(offsets.start + each - nth, []).append(job.plan.id)
        return jobs
