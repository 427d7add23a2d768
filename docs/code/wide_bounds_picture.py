"""Intervals of columns that hardly vary within their bounds, by `benchmarks.intervals.wide_bounds`."""

import matplotlib.pyplot as plt
import pandas as pd

shares = pd.read_csv("wide_bounds.csv")
figure, axes = plt.subplots(1, 3, figsize=(9, 3.6), sharey=True)
for ax, (kind, cells) in zip(axes, shares.groupby("intervals", sort=False), strict=True):
    sizes = zip(cells["deviation"], cells["rows"], cells["epsilon"], strict=True)
    names = [f"{deviation}, {n:,}, {epsilon:g}" for deviation, n, epsilon in sizes]
    named = 1.0 - cells["held"] - cells["unnamed"]
    ax.barh(names, cells["held"], color="tab:blue", label="held")
    ax.barh(
        names, named, left=cells["held"], color="lightgrey", label="missed, and named in a note"
    )
    ax.barh(
        names,
        cells["unnamed"],
        left=1.0 - cells["unnamed"],
        color="tab:red",
        label="missed in silence",
    )
    ax.axvline(0.9, color="black", linestyle=":")
    ax.set(title=f"effects on {kind}", xlim=(0.0, 1.0), xlabel="share of 90% intervals")
axes[0].set_ylabel("deviation, rows, epsilon")
axes[0].invert_yaxis()
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncol=3)
figure.set_layout_engine("constrained")
