"""What is released besides Gaussian sums: quantiles, choices, counts, frequent values, numbers of runs.

A mechanism takes counts, sums or weights, a public range or scale, and a generator. It knows neither where
these come from nor who charges for them: its callers read tables and spend budgets.
"""
