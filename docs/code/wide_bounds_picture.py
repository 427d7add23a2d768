"""Intervals of columns that hardly vary within their bounds, by `benchmarks.intervals.wide_bounds`."""

import matplotlib.pyplot as plt
import pandas as pd

shares = pd.read_csv("../results/wide_bounds.csv")
cells = ["deviation", "rows", "epsilon"]
titles = {"logistic": "labels", "ridge": "numbers", "counts": "counts"}
figure, axes = plt.subplots(1, 3, figsize=(9, 3.6), sharey=True)
for ax, (model, of_model) in zip(axes, shares.groupby("model", sort=False), strict=True):
    means = of_model.groupby(cells, sort=False)[["narrow", "silent misses"]].mean()
    names = [f"{deviation}, {n:,}, {epsilon:g}" for deviation, n, epsilon in means.index]
    held, silent = means["narrow"], means["silent misses"]
    ax.barh(names, held, color="tab:blue", label="held")
    ax.barh(
        names,
        1.0 - held - silent,
        left=held,
        color="lightgrey",
        label="missed, and named in a note",
    )
    ax.barh(names, silent, left=1.0 - silent, color="tab:red", label="missed in silence")
    ax.axvline(0.9, color="black", linestyle=":")
    ax.set(title=f"effects on {titles[model]}", xlim=(0.0, 1.0), xlabel="share of 90% intervals")
axes[0].set_ylabel("deviation, rows, epsilon")
axes[0].invert_yaxis()
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncol=3)
figure.set_layout_engine("constrained")
