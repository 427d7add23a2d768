"""Coverage of intervals. Page benchmarks: "Wide tables" and "Coverage of intervals: logistic regression";
page guide/when_to_trust_an_interval: scales of priors, rare labels, rows that are cut.
"""
