"""The parameters of the predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from muntin.durations import positive_microseconds
from muntin.errors import MuntinError


@dataclass(frozen=True)
class Question:
    """Predict the price `horizon` after the end of each window."""

    window: str = "5 minutes"
    slide: str = "30 seconds"
    horizon: str = "1 minute"
    degree: int = 2
    watermark: str = "2 seconds"
    stocks: int = 6
    model: Literal["auto", "keyed", "active", "agnostic"] = "auto"
    workers: int | None = None

    def __post_init__(self) -> None:
        if self.ahead % positive_microseconds(self.slide, "--slide"):
            raise MuntinError(
                f"--horizon is {self.horizon!r}, which is no multiple of --slide, {self.slide!r}; then no window would "
                "end at the time of a prediction and have the actual price."
            )
        if self.degree < 0:
            raise MuntinError(f"--degree must be a whole number from 0, got {self.degree}; 2 or 3 is a good choice.")

    @property
    def ahead(self) -> int:
        """The horizon in microseconds."""
        return positive_microseconds(self.horizon, "--horizon")
