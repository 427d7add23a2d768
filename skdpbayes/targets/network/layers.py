"""The layers of a perceptron in one vector: ``W_1, W_2, ...`` row by row, the last row of each the biases."""

import itertools

import numpy as np

# Norm of a typical row. Steps are reckoned for it.
ROW_NORM = 4.0


def layer_sizes(n_features, hidden_layer_sizes, n_classes):
    """Return the units of all layers as one tuple."""
    return (n_features, *hidden_layer_sizes, n_classes)


def mlp_size(sizes):
    """Return the number of parameters of a network with these layers."""
    return sum((before + 1) * after for before, after in itertools.pairwise(sizes))


def random_start(sizes, generator):
    """Return weights with the deviation ``1 / sqrt(number of inputs of a unit)``, and biases of zero.

    In the first layer, a row at the norm bound gives units a deviation of ``1/3``.
    """
    layers = []
    for number, (before, after) in enumerate(itertools.pairwise(sizes)):
        deviation = 1.0 / (3.0 * ROW_NORM) if number == 0 else before**-0.5
        # Public: where a chain starts.
        layers.append(deviation * generator.standard_normal(before * after))
        layers.append(np.zeros(after))
    return np.concatenate(layers)


def layers_of(theta, sizes):
    """Return the list of (weights, biases) of every layer; views, of leading dimensions as ``theta``."""
    layers, first = [], 0
    for before, after in itertools.pairwise(sizes):
        middle, last = first + before * after, first + (before + 1) * after
        weights = theta[..., first:middle].reshape(*theta.shape[:-1], before, after)
        layers.append((weights, theta[..., middle:last]))
        first = last
    return layers
