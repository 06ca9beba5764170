"""From windows and aggregates to operators and their leaf sets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa

from muntin.aggregates.aggregate import Bound
from muntin.engine.operators.delta import DeltaOperator, delta_registers
from muntin.engine.operators.operator import Output, WindowOperator
from muntin.engine.operators.ordered import OrderedOperator
from muntin.engine.operators.partials import RunBegin, TimeSpan
from muntin.engine.operators.session import SessionOperator
from muntin.engine.operators.time import TimeOperator
from muntin.panes.table import Layout, LeafSet, key_schema
from muntin.panes.tuples import MEMBERSHIP, WEIGHT, membership_type
from muntin.partials.custom import CustomPartial, OptionalPartial
from muntin.partials.partial import Count, Partial
from muntin.windows import DeltaWindow, PaneWindow, SessionWindow, Window
from muntin.windows.model import forgetting

ROW_COUNT = Count(None, None)
"""The first partial of every leaf: the number of its tuples, which is never 0."""


def lay_out(
    keys: Sequence[str],
    types: Mapping[str, pa.DataType],
    windows: Sequence[Window],
    aggregates: Mapping[str, Bound],
    applied: Sequence[str] | None = None,
    sampled: Sequence[str] | None = None,
    weighed: bool = False,
    lazy: Collection[str] = (),
) -> tuple[Layout, tuple[WindowOperator, ...]]:
    """Assign every window to the operator of its kind, and the leaf sets to operators, one after the other.

    `applied` are the columns of a window function, if there is one; `sampled` are the columns of samples, if there are
    samples. With `weighed`, tuples have weights, as others were dropped. `lazy` aggregates are computed on request.
    """
    operators: list[WindowOperator] = []
    numbered = list(enumerate(windows))

    def next_set() -> int:
        return sum(len(operator.leaf_sets) for operator in operators)

    panes = [(index, window) for index, window in numbered if isinstance(window, PaneWindow)]
    if panes:
        operators.append(TimeOperator(tuple(panes), next_set(), *_over_panes(aggregates, next_set(), lazy)))
    for index, window in numbered:
        if isinstance(window, SessionWindow):
            leaf_sets, outputs = _over_tuples(aggregates, next_set(), session=True)
            operators.append(SessionOperator(((index, window),), next_set(), leaf_sets, outputs))
    ordered = [pair for pair in numbered if not isinstance(pair[1], PaneWindow | SessionWindow | DeltaWindow)]
    for forget_after in dict.fromkeys(forgetting(window) for _, window in ordered):
        # Windows that forget keys at other times begin their numbers at other tuples.
        of_same = tuple(pair for pair in ordered if forgetting(pair[1]) == forget_after)
        leaf_sets, outputs = _over_tuples(aggregates, next_set(), forgets=forget_after is not None)
        operators.append(OrderedOperator(of_same, next_set(), leaf_sets, outputs))
    for index, window in numbered:
        if isinstance(window, DeltaWindow):
            registers = delta_registers(types[window.column])
            forgets = window.forget_after is not None
            leaf_sets, outputs = _over_tuples(aggregates, next_set(), registers, forgets=forgets)
            operators.append(DeltaOperator(((index, window),), next_set(), leaf_sets, outputs))
    is_holistic = any(bound.holistic is not None for bound in aggregates.values())
    keeps_tuples = applied is not None or sampled is not None or is_holistic
    columns = None
    if keeps_tuples or len(panes) < len(windows):
        over_tuples = [
            bound for bound in aggregates.values() if len(panes) < len(windows) or bound.holistic is not None
        ]
        read = [column for bound in over_tuples for column in bound.inputs]
        read += [window.column for window in windows if isinstance(window, DeltaWindow)]
        read += [*(applied or []), *(sampled or [])]
        read += [WEIGHT] if weighed else []
        fields = [pa.field(column, types[column]) for column in dict.fromkeys(read)]
        fields += [pa.field(MEMBERSHIP, membership_type(len(operators)))] if keeps_tuples else []
        columns = pa.schema(fields)
    leaf_sets = tuple(leaf_set for operator in operators for leaf_set in operator.leaf_sets)
    layout = Layout(key_schema([pa.field(key, types[key]) for key in keys]), leaf_sets, columns, keeps_tuples)
    return layout, tuple(operators)


def _over_panes(
    aggregates: Mapping[str, Bound], first: int, lazy: Collection[str]
) -> tuple[tuple[LeafSet, ...], tuple[Output, ...]]:
    """Share the built-in partials between aggregates, and give every custom one its own leaf set.

    The partials of incomplete strata, whose tuples were partly dropped, share a second leaf set.
    """
    shared: dict[bool, list[Partial]] = {False: [ROW_COUNT], True: []}
    custom: list[CustomPartial] = []
    for bound in aggregates.values():
        for partial in bound.partials:
            if isinstance(partial, CustomPartial):
                custom.append(partial)
            elif partial not in shared[partial.of_incomplete]:
                shared[partial.of_incomplete].append(partial)
    common = [LeafSet(tuple(partials)) for partials in shared.values() if partials]
    leaf_sets = (*common, *(LeafSet((partial,), per_tuple=not partial.commutative) for partial in custom))
    slot_of = {
        partial: (number, fields)
        for number, leaf_set in enumerate(common, first)
        for partial, fields in leaf_set.parts()
    }
    outputs, next_custom = [], first + len(common)
    for name, bound in aggregates.items():
        slots = []
        for partial in bound.partials:
            if isinstance(partial, CustomPartial):
                slots.append((next_custom, slice(0, len(partial.fields))))
                next_custom += 1
            else:
                slots.append(slot_of[partial])
        outputs.append(Output(name, bound, tuple(slots), lazy=name in lazy))
    return leaf_sets, tuple(outputs)


def _over_tuples(
    aggregates: Mapping[str, Bound], first: int, *registers: Partial, session: bool = False, forgets: bool = False
) -> tuple[tuple[LeafSet, ...], tuple[Output, ...]]:
    """All partials in one set: tuples in final order can be combined by functions that do not commute, too."""
    partials: list[Partial] = [ROW_COUNT, TimeSpan(None), *([RunBegin(None)] if forgets else [])]
    slots: dict[str, list[int]] = {name: [] for name in aggregates}
    for name, bound in aggregates.items():
        for partial in bound.partials:
            kept = OptionalPartial(partial.where, partial) if isinstance(partial, CustomPartial) else partial
            if kept not in partials:
                partials.append(kept)
            slots[name].append(partials.index(kept))
    in_order = any(isinstance(partial, OptionalPartial) and not partial.inner.commutative for partial in partials)
    # The tuples of an open session are not in their final order.
    leaf_set = LeafSet((*partials, *registers), per_tuple=session and in_order, latest=session)
    fields = [fields for _, fields in leaf_set.parts()]
    outputs = tuple(
        Output(
            name,
            bound,
            tuple((first, fields[index]) for index in slots[name]),
            optional=any(isinstance(partials[index], OptionalPartial) for index in slots[name]),
        )
        for name, bound in aggregates.items()
    )
    return (leaf_set,), outputs
