"""Shares of real tables on which methods are within a ratio of the best (`benchmarks.peers.real`)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path.cwd().parents[1]))
from benchmarks.peers.real import draw, load_medians

draw(load_medians(Path("..", "results", "peers_real.csv")))
