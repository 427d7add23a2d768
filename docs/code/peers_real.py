"""Shares of real tables on which methods are within a ratio of the best (`benchmarks.peers.rankings`)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path.cwd().parents[1]))
from benchmarks.peers.rankings import draw, load_medians

draw(load_medians(Path("..", "results", "peers_real.csv")))
