"""Which version of a row is written: the newest that every worker reads (docs/decisions/0010)."""

from app.engine.reports.latest_reports import LatestReports
from app.settings.settings import Settings
from tables.entry import VERSION


class RowVersion:
    """The version of rows that every worker of the installation reads, or the one that the settings want."""

    def __init__(self, settings: Settings, reports: LatestReports) -> None:
        """Go by what `reports` say of other workers."""
        self._wanted, self._reports = settings.row_version, reports

    def __call__(self, there: int = 1) -> int:
        """Return the version to write now: an installation that nobody has reported of has no older workers.

        A partition that has rows of the version `there` goes on with it: older workers cannot take that anyway.
        """
        if self._wanted:
            return self._wanted
        lowest = self._reports.lowest_version
        return VERSION if lowest is None else max(there, min(VERSION, lowest))
