"""Measurements that the documentation cites: `python -m benchmarks.FOLDER.SCRIPT`, from the root."""

import os

# Pictures are written to files; none is shown.
os.environ.setdefault("MPLBACKEND", "Agg")
