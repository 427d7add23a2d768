"""Shares of real tables on which methods are within a ratio of the best (`benchmarks.peers.rankings`)."""

import sys
from pathlib import Path

from one_column import stack

sys.path.insert(0, str(Path.cwd().parents[1]))
from benchmarks.peers.rankings import draw, load_medians

figure = draw(load_medians(Path("..", "results", "peers_real.csv")))
stack(figure, height=8.6)
(legend,) = figure.legends
legend.remove()
names = [text.get_text() for text in legend.get_texts()]
figure.legend(legend.legend_handles, names, loc="outside lower center", ncols=2, frameon=False)
