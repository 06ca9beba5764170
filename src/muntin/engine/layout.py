"""From windows and aggregates to operators and their leaf sets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa

from muntin.aggregates.aggregate import Bound
from muntin.engine.operators.delta import DeltaOperator, delta_registers
from muntin.engine.operators.operator import Output, WindowOperator
from muntin.engine.operators.ordered import OrderedOperator
from muntin.engine.operators.partials import TimeSpan
from muntin.engine.operators.session import SessionOperator
from muntin.engine.operators.time import TimeOperator
from muntin.panes.table import Layout, LeafSet, key_schema
from muntin.panes.tuples import MEMBERSHIP, WEIGHT, membership_type
from muntin.partials.custom import CustomPartial, OptionalPartial
from muntin.partials.partial import Count, Partial
from muntin.windows import DeltaWindow, PaneWindow, SessionWindow, Window

ROW_COUNT = Count(None, None)
"""Kept in every leaf, first: it says how many tuples stand behind it, and that there are some."""


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
    """Every window in the operator of its kind, and every operator behind the leaf sets of those before it.

    `applied` are the columns that a function of whole windows gets, if there is one; `sampled` those that samples have,
    if there are samples. Tuples that are `weighed` stand for others, which were shed. The aggregates `later` are only
    computed for the windows that they are asked of.
    """
    operators: list[WindowOperator] = []
    numbered = list(enumerate(windows))

    def place() -> int:
        return sum(len(operator.leaf_sets) for operator in operators)

    panes = [each for each in numbered if isinstance(each[1], PaneWindow)]
    if panes:
        operators.append(TimeOperator(tuple(panes), place(), *_over_panes(aggregates, place(), lazy)))
    for each in numbered:
        if isinstance(each[1], SessionWindow):
            leaf_sets, outputs = _over_tuples(aggregates, place(), session=True)
            operators.append(SessionOperator((each,), place(), leaf_sets, outputs))
    ordered = [each for each in numbered if not isinstance(each[1], PaneWindow | SessionWindow | DeltaWindow)]
    if ordered:
        operators.append(OrderedOperator(tuple(ordered), place(), *_over_tuples(aggregates, place())))
    for each in numbered:
        if isinstance(each[1], DeltaWindow):
            registers = delta_registers(types[each[1].column])
            operators.append(DeltaOperator((each,), place(), *_over_tuples(aggregates, place(), registers)))
    needed = [bound for bound in aggregates.values() if bound.holistic is not None]
    whole = applied is not None or sampled is not None or bool(needed)
    columns = None
    if whole or len(panes) < len(windows):
        over_tuples = [
            bound for bound in aggregates.values() if len(panes) < len(windows) or bound.holistic is not None
        ]
        read = [column for bound in over_tuples for column in bound.inputs]
        read += [window.column for window in windows if isinstance(window, DeltaWindow)]
        read += [*(applied or []), *(sampled or [])]
        read += [WEIGHT] if weighed else []
        fields = [pa.field(column, types[column]) for column in dict.fromkeys(read)]
        columns = pa.schema([*fields, pa.field(MEMBERSHIP, membership_type(len(operators)))] if whole else fields)
    leaf_sets = tuple(leaf_set for operator in operators for leaf_set in operator.leaf_sets)
    layout = Layout(key_schema([pa.field(key, types[key]) for key in keys]), leaf_sets, columns, whole)
    return layout, tuple(operators)


def _over_panes(
    aggregates: Mapping[str, Bound], first: int, lazy: Collection[str]
) -> tuple[tuple[LeafSet, ...], tuple[Output, ...]]:
    """Share the built-in partials between aggregates; give every custom one leaves of its own.

    Those of strata of which tuples were shed share leaves, too.
    """
    shared: dict[bool, list[Partial]] = {False: [ROW_COUNT], True: []}
    own: list[CustomPartial] = []
    for bound in aggregates.values():
        for partial in bound.partials:
            if isinstance(partial, CustomPartial):
                own.append(partial)
            elif partial not in shared[partial.of_incomplete]:
                shared[partial.of_incomplete].append(partial)
    common = [LeafSet(tuple(partials)) for partials in shared.values() if partials]
    leaf_sets = (*common, *(LeafSet((each,), per_tuple=not each.commutative) for each in own))
    where = {partial: (at, fields) for at, each in enumerate(common, first) for partial, fields in each.parts()}
    outputs, next_own = [], first + len(common)
    for name, bound in aggregates.items():
        slots = []
        for partial in bound.partials:
            if isinstance(partial, CustomPartial):
                slots.append((next_own, slice(0, len(partial.fields))))
                next_own += 1
            else:
                slots.append(where[partial])
        outputs.append(Output(name, bound, tuple(slots), lazy=name in lazy))
    return leaf_sets, tuple(outputs)


def _over_tuples(
    aggregates: Mapping[str, Bound], first: int, *registers: Partial, session: bool = False
) -> tuple[tuple[LeafSet, ...], tuple[Output, ...]]:
    """All partials in one set: tuples in their final order can be combined whether or not a function commutes."""
    partials: list[Partial] = [ROW_COUNT, TimeSpan(None)]
    slots: dict[str, list[int]] = {name: [] for name in aggregates}
    for name, bound in aggregates.items():
        for partial in bound.partials:
            kept = OptionalPartial(partial.where, partial) if isinstance(partial, CustomPartial) else partial
            if kept not in partials:
                partials.append(kept)
            slots[name].append(partials.index(kept))
    in_order = any(isinstance(each, OptionalPartial) and not each.inner.commutative for each in partials)
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
