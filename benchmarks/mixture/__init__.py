"""Gaussian mixtures. Page benchmarks: "Mixtures"."""
