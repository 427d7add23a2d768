"""Coverage of intervals. Page benchmarks_intervals;
page guide/when_to_trust_an_interval: scales of priors, rare labels, rows that are cut.
"""
