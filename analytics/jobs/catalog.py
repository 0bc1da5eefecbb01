"""Which module makes which table of the lag report."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from analytics.jobs import lag_bands, lag_hours, lag_now
from analytics.jobs.definitions import InputFrames, Params

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Build = Callable[[InputFrames, Params], "DataFrame"]

BUILDS: dict[str, Build] = {
    "lag_hours": lag_hours.build,
    "lag_bands": lag_bands.build,
    "lag_now": lag_now.build,
}
