"""Peers of this package, each run in an environment of its own by `benchmarks/peers.py`."""
