"""Random walks that pay for their accept/reject decisions alone. Page benchmarks: "Random walks"."""
