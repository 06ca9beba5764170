"""The benchmarks: modules with a `run(out, quick)`. Every figure is a ratio to a baseline of the same run."""
