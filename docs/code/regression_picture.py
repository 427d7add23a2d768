"""Errors of private regression over those of least squares, by `benchmarks.regression.linear`."""

import matplotlib.pyplot as plt
import pandas as pd

errors = pd.read_csv("../results/regression_methods.csv")
names = {"clipped_residuals": "skdpbayes", "one shot": "one noisy release"}
figure, axes = plt.subplots(2, 2, figsize=(5, 5.4), sharex=True, sharey=True)
for ax, (design, of_design) in zip(axes.flat, errors.groupby("design", sort=False), strict=True):
    for method, line in of_design.groupby("method", sort=False):
        ax.loglog(line["epsilon"], line["error"], marker="o", label=names.get(method, method))
    ax.axhline(1.0, color="grey", linestyle=":")
    ax.xaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_major_formatter("{x:g}")
    ax.set_title(f"{design} columns", fontsize="medium")
for ax in axes[1]:
    ax.set_xlabel("epsilon")
figure.supylabel("error over least squares'", fontsize="medium")
figure.legend(
    *axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False
)
figure.set_layout_engine("constrained")
