"""Figures of the benchmarks, whose panels stand side by side, for pages that are read on a phone as well."""


def stack(figure, height):
    """Put the panels of a figure below each other, each with the first one's label of its vertical axis."""
    figure.set_size_inches(5.0, height)
    label = figure.axes[0].get_ylabel()
    grid = figure.add_gridspec(len(figure.axes), 1)
    for place, axis in zip(grid, figure.axes, strict=True):
        axis.set_subplotspec(place)
        axis.set_ylabel(label)
        axis.tick_params(labelleft=True)
