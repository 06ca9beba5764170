"""Window operators: what each kind of window keeps of the tuples, and how its windows are answered from that.

| operator | its windows | its leaves |
| --- | --- | --- |
| `time` | tumbling, sliding, cumulative | one per (key, pane of event time) |
| `session` | session | one per open session |
| `ordered` | count, slide_by_tuple, slide_by_time | one per pane of finalized tuples, or per tuple |
| `delta` | delta | one per finalized tuple |
"""
