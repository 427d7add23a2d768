"""CPU time against size, on logarithmic scales, as `benchmarks.speed.scale` has measured it."""

import sys
from pathlib import Path

from one_column import stack

sys.path.insert(0, str(Path.cwd().parents[1]))
from benchmarks.speed.scale import draw, load

figure = draw(load("../results/scale.csv"))
stack(figure, height=9.6)
below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.15), "ncols": 2, "frameon": False}
for axis in figure.axes:
    axis.xaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_major_formatter("{x:g}")
    axis.legend(title="slope at the end", fontsize="medium", **below)
