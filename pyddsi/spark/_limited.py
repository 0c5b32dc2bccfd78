"""The reader of streams for Spark 4.2 and later, which says where it is and how much it wants at once."""

from __future__ import annotations

import math
from typing import Any

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from pyddsi.spark.stream import Follower

__all__ = ["Limited"]


class Limited(Follower, SupportsTriggerAvailableNow):
    """It takes no more at once than maxFilesPerTrigger and maxBytesPerTrigger, but one file at least."""

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """One of the limits, for Spark to know that there are some; both hold."""
        if self.asked.max_bytes is not None:
            return ReadMaxBytes(self.asked.max_bytes)
        return ReadMaxFiles(self.asked.max_files)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """How far the next batch goes."""
        files, size = float(self.asked.max_files), float(self.asked.max_bytes or math.inf)
        if isinstance(limit, ReadAllAvailable):
            files = size = math.inf
        elif isinstance(limit, ReadMaxFiles):
            files = limit.max_files
        elif isinstance(limit, ReadMaxBytes):
            size = limit.max_bytes
        return self._after(start, files, size)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """From now on nothing counts that comes later."""
        self._frozen = self.planner().folder.look()
        self._next_look = 0.0
