"""Calendars in the time zone of each key: every zone has panes, windows and state of its own.

The zone is part of the key, so the keys of a zone never meet those of another. Each zone of a shard is therefore run as
a query of its own, whose calendars have that zone. Shards, the watermark and the commit of a batch are shared.
"""
