"""Evaluations, and what is put together of them, as rows of the tables of lag."""

from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from analytics.jobs.lag_rules import WORST_FIRST
from analytics.jobs.lag_series import Evaluations
from analytics.jobs.lag_windows import NONE
from analytics.manifest import hour_name

Row = dict[str, Any]
STATES = ("state", "raw_state", "worst_state")
TEXTS = ("group", "topic")


def rows_of(series: Evaluations) -> list[Row]:
    """Evaluations with their hour, and with texts for codes."""
    columns = {each.name: getattr(series, each.name) for each in fields(series)[1:]}
    return rows(series, columns)


def rows(series: Evaluations, columns: "dict[str, npt.NDArray[Any]]") -> list[Row]:
    """Rows of columns, `target` among them; what is not known is None."""
    texts = series.names.listed()
    values = {}
    for name, column in columns.items():
        if name in TEXTS:
            values[name] = [texts[code] for code in column.tolist()]
        elif name in STATES:
            values[name] = [WORST_FIRST[severity] for severity in column.tolist()]
        else:
            is_known = ~np.isnan(column) if column.dtype.kind == "f" else column != NONE
            pairs = zip(column.tolist(), is_known.tolist(), strict=True)
            values[name] = [value if known else None for value, known in pairs]
    values["hour"] = [hour_name(hour) for hour in columns["target"].tolist()]
    return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
