"""Intervals of columns that hardly vary within their bounds, by `benchmarks.intervals.wide_bounds`."""

import matplotlib.pyplot as plt
import pandas as pd

shares = pd.read_csv("../results/wide_bounds.csv")
cells = ["deviation", "rows", "epsilon"]
titles = {"logistic": "labels", "ridge": "numbers", "counts": "counts"}
figure, axes = plt.subplots(3, 1, figsize=(5, 8.8), sharex=True)
for ax, (model, of_model) in zip(axes, shares.groupby("model", sort=False), strict=True):
    means = of_model.groupby(cells, sort=False)[["narrow", "silent misses"]].mean()
    names = [f"{deviation}, {n:,}, {epsilon:g}" for deviation, n, epsilon in means.index]
    held, silent = means["narrow"], means["silent misses"]
    ax.barh(names, held, color="tab:blue", label="covered")
    ax.barh(
        names,
        1.0 - held - silent,
        left=held,
        color="#949494",
        label="missed, and named in a note",
    )
    ax.barh(names, silent, left=1.0 - silent, color="tab:red", label="missed in silence")
    ax.axvline(0.9, color="black", linestyle=":")
    ax.set(title=f"effects on {titles[model]}", xlim=(0.0, 1.0), ylabel="deviation, rows, epsilon")
    ax.invert_yaxis()
axes[-1].set_xlabel("share of 90% intervals")
figure.legend(
    *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False
)
figure.set_layout_engine("constrained")
