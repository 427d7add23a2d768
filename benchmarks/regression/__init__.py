"""Regression. Page benchmarks_numbers: "Numbers as responses" and "Counts as responses"."""
