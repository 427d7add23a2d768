"""Intervals of slopes of the mean under skewed errors, by `benchmarks.intervals.skewed_errors`."""

import matplotlib.pyplot as plt
import pandas as pd

held = pd.read_csv("../results/skewed_errors.csv").query("errors != 'costs' and rows != 2000")
sizes = zip(held["rows"], held["epsilon"], strict=True)
held["size"] = [f"{n:,}\n{epsilon:g}" for n, epsilon in sizes]
figure, axes = plt.subplots(2, 1, figsize=(5, 6.6), sharex=True, sharey=True)
titles = {"held": "all columns", "worst": "the worst column"}
for ax, (column, title) in zip(axes, titles.items(), strict=True):
    for errors, cells in held.groupby("errors", sort=False):
        marker = "s" if errors in ("normal", "Student's law") else "o"
        ax.plot(cells["size"], cells[column], marker, label=errors)
    ax.axhline(0.9, color="black", linestyle=":")
    ax.set(title=title, ylim=(-0.03, 1.03), ylabel="share of intervals that cover")
axes[1].set_xlabel("rows, epsilon")
figure.legend(
    *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False
)
figure.set_layout_engine("constrained")
