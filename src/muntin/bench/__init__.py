"""The benchmarks: each module is one, with `run(out, quick)`; every figure is a ratio to a baseline of the same run."""
