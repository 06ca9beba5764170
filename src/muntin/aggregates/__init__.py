"""The aggregates. Each function returns an immutable value for `.agg(name=…)`. `where=` filters its tuples.

| aggregate | a pane keeps | order matters |
| --- | --- | --- |
| `count` | a count | no |
| `sum`, `mean` | sum and count | no |
| `var_pop`, `var_samp`, `stddev_pop`, `stddev_samp` | count, mean, squared deviations | no |
| `min`, `max` | the value | no |
| `first`, `last` | time and value | by event time only |
| `argmin`, `argmax` | the extreme of `by`, time and value | by event time only |
| `min_count`, `max_count` | value and count | no |
| `custom` | your state; one per tuple unless `commutative=True` | unless `commutative=True` |
| `median`, `quantile`, `mode`, `count_distinct`, `top_k` | the tuples | no |
| `collect` | the tuples | by event time only |

Nulls are skipped. Ties are broken by a fixed rule, so results never depend on the order of arrival.
"""

from muntin.aggregates.aggregate import Aggregate, Bound
from muntin.aggregates.custom import custom
from muntin.aggregates.decomposable import (
    argmax,
    argmin,
    count,
    first,
    last,
    max,
    max_count,
    mean,
    min,
    min_count,
    stddev_pop,
    stddev_samp,
    sum,
    var_pop,
    var_samp,
)
from muntin.aggregates.holistic import collect, count_distinct, median, mode, quantile, top_k

__all__ = [
    "Aggregate",
    "Bound",
    "argmax",
    "argmin",
    "collect",
    "count",
    "count_distinct",
    "custom",
    "first",
    "last",
    "max",
    "max_count",
    "mean",
    "median",
    "min",
    "min_count",
    "mode",
    "quantile",
    "stddev_pop",
    "stddev_samp",
    "sum",
    "top_k",
    "var_pop",
    "var_samp",
]
