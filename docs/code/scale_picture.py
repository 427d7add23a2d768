"""CPU time against size, on logarithmic scales, as `benchmarks.speed.scale` has measured it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path.cwd().parents[1]))
from benchmarks.speed.scale import draw, load

draw(load("../results/scale.csv"))
