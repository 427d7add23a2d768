"""Neural networks. Page benchmarks: "Neural networks"."""
