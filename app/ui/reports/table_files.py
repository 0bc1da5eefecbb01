"""A table of a report as CSV: its headings with their units, every row, plain numbers. Pure."""

from app.ui.framework import cells, formats
from app.ui.framework.language import _
from app.ui.reports import words
from app.ui.reports.cells import ReportCell, ValueKind
from app.ui.reports.charts import DASH
from app.ui.reports.tables import Table
from kitemq.model.spreadsheet_cells import Cell

UNITS = {
    ValueKind.LENGTH: "ms",
    ValueKind.SIZE: "B",
    ValueKind.SHARE: "%",
    ValueKind.CHANGE: "%",
    ValueKind.MOMENT: "UTC",
}
PER_CENT = (ValueKind.SHARE, ValueKind.CHANGE)


def csv(table: Table) -> bytes:
    """The whole table; what is not known is an empty cell."""
    rows = list(table.every_row())
    units = [""] * len(table.columns)
    for row in rows:
        units = [unit or UNITS.get(cell.kind, "") for unit, cell in zip(units, row, strict=True)]
    names = [column.name for column in table.columns]
    return cells.lines([[*map(_heading, names, units)], *([*map(_plain, row)] for row in rows)])


def _heading(name: str, unit: str) -> str:
    return _("%(name)s (%(unit)s)", name=name, unit=unit) if unit else name


def _plain(cell: ReportCell) -> Cell:
    value = cell.value
    if value is None or value == DASH:
        return ""
    if cell.kind in PER_CENT:
        return round(100 * float(value), 4)
    if cell.kind is ValueKind.MOMENT:
        return formats.iso(value)
    if cell.kind is ValueKind.STATE:
        return words.state(value)
    if isinstance(value, float):
        return round(value, 4)
    return value if isinstance(value, int) else str(value)
