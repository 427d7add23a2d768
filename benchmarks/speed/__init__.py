"""Time. Page benchmarks: "Speed"; page scale, "How cost grows"; page guide/dask: "What it costs"."""
