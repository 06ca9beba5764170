"""What identifies a row of results, and which of two rows with the same identity is the later one."""

from __future__ import annotations

from dataclasses import dataclass

REVISION, RETRACTED = "revision", "retracted"


@dataclass(frozen=True)
class Revisions:
    """The columns of results that are written to a target with one row for each identity."""

    columns: tuple[str, ...]
    """All columns of the target. `retracted` is none of them: a retracted window has no row."""
    identity: tuple[str, ...]
    """The columns that identify a window and key."""
    retracts: bool = False
    """Whether the results have the column `retracted`."""

    @property
    def counted(self) -> bool:
        """Whether rows have a revision. Without it the last row is the latest."""
        return REVISION in self.columns

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(column for column in self.columns if column not in self.identity)
