"""Errors of private regression over those of least squares, by `benchmarks.regression.linear`."""

import matplotlib.pyplot as plt
import pandas as pd

errors = pd.read_csv("../results/regression_methods.csv")
names = {"clipped_residuals": "skdpbayes", "one shot": "one noisy release"}
figure, axes = plt.subplots(1, 4, figsize=(9, 3.2), sharey=True)
for ax, (design, of_design) in zip(axes, errors.groupby("design", sort=False), strict=True):
    for method, line in of_design.groupby("method", sort=False):
        ax.loglog(line["epsilon"], line["error"], marker="o", label=names.get(method, method))
    ax.axhline(1.0, color="grey", linestyle=":")
    ax.set(title=f"{design} columns", xlabel="epsilon")
axes[0].set_ylabel("error over least squares'")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncol=3)
figure.set_layout_engine("constrained")
