"""The events of the Yahoo streaming benchmark, made with the shapes of its own generator.

There are 100 campaigns of ten ads each. Ads, users, pages and types are uniform: a third of the events are views. Times
advance at a constant rate and are early or late by up to 50 ms; one event in 100,000 comes up to a minute later.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

EPOCH = 1_700_000_000_000
"""The time of the first event, in milliseconds, as all times here."""
CAMPAIGNS, ADS_PER_CAMPAIGN = 100, 10
USERS = PAGES = 100
AD_TYPES = ["banner", "modal", "sponsored-search", "mail", "mobile"]
EVENT_TYPES = ["view", "click", "purchase"]
EARLY, DISORDER = 50, 100
LATE, LATE_ONES = 60_000, 100_000
TIME = pa.timestamp("us", tz="UTC")


def _ids(kind: int, count: int) -> list[str]:
    random = np.random.default_rng(kind)
    return [str(uuid.UUID(bytes=random.bytes(16), version=4)) for _ in range(count)]


CAMPAIGN_IDS, AD_IDS = _ids(0, CAMPAIGNS), _ids(1, CAMPAIGNS * ADS_PER_CAMPAIGN)
USER_IDS, PAGE_IDS = _ids(2, USERS), _ids(3, PAGES)


def campaigns() -> pa.Table:
    """The campaign of each ad."""
    of_ads = [campaign for campaign in CAMPAIGN_IDS for _ in range(ADS_PER_CAMPAIGN)]
    return pa.table({"ad_id": AD_IDS, "campaign_id": of_ads})


def batches(count: int, events: int, per_second: int) -> Iterator[pa.Table]:
    """Some batches of so many events each."""
    return (generate(number * events, events, per_second) for number in range(count))


def generate(first: int, count: int, per_second: int) -> pa.Table:
    """The events `first` to `first + count`."""
    random = np.random.default_rng([first, count])
    times = EPOCH + np.arange(first, first + count) * 1_000 // per_second
    times += EARLY - random.integers(0, DISORDER, count)
    late = np.flatnonzero(random.integers(0, LATE_ONES, count) == 0)
    times[late] -= random.integers(0, LATE, len(late))
    return pa.table(
        {
            "user_id": _drawn(random, USER_IDS, count),
            "page_id": _drawn(random, PAGE_IDS, count),
            "ad_id": _drawn(random, AD_IDS, count),
            "ad_type": _drawn(random, AD_TYPES, count),
            "event_type": _drawn(random, EVENT_TYPES, count),
            "event_time": pa.array(times * 1_000).view(TIME),
            "ip_address": pa.DictionaryArray.from_arrays(np.zeros(count, dtype=np.int8), ["1.2.3.4"]),
        }
    )


def _drawn(random: np.random.Generator, values: list[str], count: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(random.integers(0, len(values), count, dtype=np.int16), values)
