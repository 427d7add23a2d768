"""Intervals of slopes of the mean under skewed errors, by `benchmarks.intervals.skewed_errors`."""

import matplotlib.pyplot as plt
import pandas as pd

held = pd.read_csv("../results/skewed_errors.csv").query("errors != 'costs' and rows != 2000")
sizes = zip(held["rows"], held["epsilon"], strict=True)
held["size"] = [f"{n:,}\n{epsilon:g}" for n, epsilon in sizes]
figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True)
titles = {"held": "all columns", "worst": "the worst column"}
for ax, (column, title) in zip(axes, titles.items(), strict=True):
    for errors, cells in held.groupby("errors", sort=False):
        marker = "s" if errors in ("normal", "Student's law") else "o"
        ax.plot(cells["size"], cells[column], marker, label=errors)
    ax.axhline(0.9, color="black", linestyle=":")
    ax.set(title=title, ylim=(0.0, 1.03), xlabel="rows, epsilon")
axes[0].set_ylabel("share of 90% intervals that hold")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center")
figure.set_layout_engine("constrained")
