"""Families of windows: what each kind of window model keeps of the tuples, and how windows are answered from it.

| operator | its windows | its leaves |
| --- | --- | --- |
| `time` | tumbling, sliding, cumulative | one per (key, pane of event time) |
| `session` | session | one per session that is open |
| `ordered` | count, slide_by_tuple, slide_by_time | one per pane of settled tuples, or per tuple |
| `delta` | delta | one per settled tuple |
"""
