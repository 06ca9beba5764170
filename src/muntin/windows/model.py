"""What every window model has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

ForwardContext = Literal["free", "aware"]


@dataclass(frozen=True)
class Window(ABC):
    """A window model: which tuples each window holds (its extent), and which windows a tuple is in (its mapping).

    `forward_context` is the paper's taxonomy: *free* if the windows of a tuple are known when it arrives,
    *aware* if they depend on tuples that are still to come.
    """

    name: str | None
    forward_context: ClassVar[ForwardContext]

    @property
    @abstractmethod
    def label(self) -> str:
        """The window as the user wrote it; its name where none was given."""

    @property
    def title(self) -> str:
        return self.name if self.name is not None else self.label
