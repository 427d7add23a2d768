"""Log losses of classifiers against epsilon, as `benchmarks.peers` has measured them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path.cwd().parents[1]))
from benchmarks.peers.picture import draw, load_medians

tables = load_medians("peers.csv")
del tables["military"]  # All are as good as without privacy there.
draw(tables)
