"""CPU time against size, on logarithmic scales, as `benchmarks/scale.py` has measured it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path.cwd().parents[1] / "benchmarks"))
import scale

scale.draw(scale.load("scale.csv"))
