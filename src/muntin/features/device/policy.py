"""The device of a query, and what of the query runs there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from muntin.devices.device import Device
from muntin.devices.lifting import on_device
from muntin.engine.features import Feature, Option
from muntin.engine.operators.operator import Output
from muntin.engine.plan import Draft, Plan
from muntin.features.order import INNERMOST
from muntin.partials.custom import CustomPartial, OptionalPartial
from muntin.written import call


@dataclass(frozen=True)
class OnDevice(Option):
    name = "device"
    order = INNERMOST

    device: Device

    @classmethod
    def of(cls, name: str, library: str | None) -> OnDevice:
        return cls(Device.of(name, library))

    @property
    def written(self) -> str:
        given = {} if self.device == Device.of(self.device.name) else {"library": self.device.library}
        return call(".device", self.device.name, **given)

    def plan(self, draft: Draft) -> Draft:
        return replace(draft, device=self.device)

    def explained(self, plan: Plan) -> list[str]:
        why_not = _no_panes(plan)
        outputs = [] if why_not else [output for output in plan.outputs if _reason(output) is None]
        if not outputs:
            why = why_not or "no aggregate has kernels for devices"
            lines = [f"Device: {self.device} is not used: {why}. Everything runs with NumPy."]
        else:
            names = ", ".join(repr(output.name) for output in outputs)
            lines = [
                f"Device: {self.device} reduces rows to panes, for {names}. Each task sends it the times, the codes of "
                "keys and the columns that it reads.",
                f"  {_tree(plan)}",
            ]
        if not why_not:
            lines += [f"  With NumPy: {line}." for line in _others(plan)]
        return lines


def _no_panes(plan: Plan) -> str | None:
    """Why rows are not reduced to panes on a device, whatever the aggregates."""
    if plan.over_time is None:
        return "sessions and windows over rows are reduced behind the shuffle, in event-time order"
    for feature in plan.features:
        if type(feature).on_map is not Feature.on_map:
            return f".{feature.name}() looks at the rows or panes where they are made"
    return None


def _tree(plan: Plan) -> str:
    if not plan.streaming:
        return "The windows of a table are answered once, with NumPy."
    if not plan.lives:
        return "Windows are answered with NumPy: no tree lives from batch to batch for such windows or options."
    return "Where a tree lives from batch to batch, it lives there; otherwise panes are combined with NumPy."


def _others(plan: Plan) -> Iterator[str]:
    """What runs on the processor, and why."""
    for output in plan.outputs:
        reason = _reason(output)
        if reason is not None:
            yield f"{output.name!r}, {reason}"
    if len(plan.operators) > 1:
        yield "sessions and windows over rows, which are reduced behind the shuffle"


def _reason(output: Output) -> str | None:
    """Why an aggregate is computed with NumPy; None if the device computes it."""
    bound = output.bound
    if bound.holistic is not None:
        return "as it is holistic: it reads the rows of windows"
    for partial in bound.partials:
        if isinstance(partial, CustomPartial | OptionalPartial):
            return "as its functions are yours, for arrays of NumPy"
        if any(field.dictionary is not None for field in partial.fields):
            return "as strings and decimals are compared by their places in a dictionary"
        if not on_device(partial):
            return "as decimals are added in more digits than a device's integers have"
    return None
