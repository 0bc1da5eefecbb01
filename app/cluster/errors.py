"""What can go wrong with a cluster, as one tree. The branch says what the caller should do.

ClusterError
├── ClusterRefused         the cluster said no; `answer` is its response code
└── ClusterUnreachable     nobody there: nothing was done, try again
    └── ClusterNoAnswer    it was sent, but no answer came: it may have been done
"""


class ClusterError(Exception):
    code = "cluster_error"

    def __init__(self, detail: str, *, remedy: str = "") -> None:
        super().__init__(f"{detail} ({remedy})" if remedy else detail)
        self.detail = detail
        self.remedy = remedy


class ClusterRefused(ClusterError):
    code = "cluster_refused"

    def __init__(self, detail: str, answer: int, *, remedy: str = "") -> None:
        super().__init__(detail, remedy=remedy)
        self.answer = answer


class ClusterUnreachable(ClusterError):
    code = "cluster_unreachable"


class ClusterNoAnswer(ClusterUnreachable):
    code = "cluster_no_answer"


def away(broker: str) -> str:
    """Why what only this broker can tell is unknown."""
    return f"broker {broker} is away"


def broker_away(broker: str) -> ClusterUnreachable:
    """The error of a question that only this broker can answer."""
    return missing_part(away(broker))


def missing_part(unknown: str) -> ClusterUnreachable:
    """The error of a question whose answer lacks a part; `unknown` says why."""
    return ClusterUnreachable(unknown, remedy="start it, or wait until it is back")
