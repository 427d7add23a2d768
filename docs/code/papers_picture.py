"""Objective perturbation, one sample and minibatch Barker tests, by scripts of `benchmarks/papers`."""

import matplotlib.pyplot as plt
import pandas as pd

losses = pd.read_csv("../results/papers_objective_perturbation.csv", keep_default_na=False)
chains = pd.read_csv("../results/papers_minibatch_barker.csv")
figure, axes = plt.subplots(3, 1, figsize=(5, 9.6))
for ax, name in zip(axes, ("abalone", "adult"), strict=False):
    of_table = losses[losses["table"] == name]
    for method, cells in of_table.groupby("method", sort=False):
        if method == "not private":
            ax.axhline(cells["log loss"].iloc[0], color="black", linestyle=":", label=method)
        else:
            line = "--" if method.startswith("objective") else "-"
            loss, error = cells["log loss"], cells["error of log loss"]
            color = "black" if method == "default" else None
            ax.errorbar(
                cells["epsilon"], loss, error, marker="o", ms=3, ls=line, color=color, label=method
            )
    ax.set(title=name, xscale="log", xlabel="epsilon, adding or removing a row")
    ax.set_ylabel("log loss, median")
    ax.xaxis.set_major_formatter("{x:g}")
for sampler, cells in chains.groupby("sampler", sort=False):
    axes[2].errorbar(
        cells["batch"],
        cells["divergence"],
        cells["error of divergence"],
        marker="s",
        ms=4,
        label=sampler,
    )
axes[2].set(title="two modes", xscale="log", yscale="log", xlabel="batch of the Barker test")
axes[2].set_ylabel("divergence from the posterior")
for axis in (axes[2].xaxis, axes[2].yaxis):
    axis.set_major_formatter("{x:g}")
axes[2].yaxis.set_minor_formatter("")
axes[2].set_ylim(bottom=0.011)
axes[2].legend(frameon=False, loc="lower left")
axes[0].legend(frameon=False)
