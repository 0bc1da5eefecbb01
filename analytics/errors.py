"""What can go wrong in the reports' own processes, as one tree; each says what to do about it.

AnalyticsError
├── NotInstalled     PySpark or Java is missing
├── StoreUnreadable  the data directory, or the folder of the reports, is not what was said
├── Refused          an option has no valid value; `field` names it
├── ServerFailed     the server did not answer as expected; trying again may help
└── DataLost         records that were asked for are gone
"""


class AnalyticsError(Exception):
    """The root; the text names what is wrong, `remedy` what to do."""

    def __init__(self, detail: str, remedy: str = "", *, field: str = "") -> None:
        super().__init__(f"{detail}: {remedy}" if remedy else detail)
        self.detail = detail
        self.remedy = remedy
        self.field = field


class NotInstalled(AnalyticsError):
    """PySpark or Java is missing."""


class StoreUnreadable(AnalyticsError):
    """Files are not what was said."""


class Refused(AnalyticsError):
    """An option has no valid value."""


class ServerFailed(AnalyticsError):
    """The server did not answer as expected."""


class DataLost(AnalyticsError):
    """Records that were asked for are gone."""
