"""Tables of benchmarks of networks: digits, by transforms that look at one picture at a time, and others.

    patches    means of 4 x 4 pixels, 2 apart:  x = (p - mean(p)) / |p - mean(p)|             169 columns
    gradients  h_co = sum over the pixels of cell c of |g| max(0, 1 - |angle(g) / 45 degrees - o|),
               x = sqrt(h) / |sqrt(h)|                                                        392 columns

with 7 x 7 cells of 4 x 4 pixels and 8 orientations, from dark to bright: opposite ones differ.
(scikit-image's `hog` takes opposite orientations as one, and does not divide a pixel between two.) No number
comes from the table, so nothing is spent, and every row has norm 1: `data_norm=1.0`.

UCI Adult and the votes are those of `benchmarks.common`.
"""

import math
from functools import cache

import numpy as np
from sklearn.model_selection import train_test_split

from benchmarks.common import load_adult, load_vote

SIDE = 28
PATCH, STRIDE = 4, 2
CELL, N_ORIENTATIONS = 4, 8
# An empty picture stays at zero.
_LEAST_NORM = 1e-6


def patch_means(images):
    """Return the means of overlapping patches, each picture centred, of unit norm.

    Parameters
    ----------
    images : ndarray of shape (n_images, 784), uint8

    Returns
    -------
    rows : ndarray of shape (n_images, 169), float32
    """
    brightness = images.reshape(-1, SIDE, SIDE).astype(np.float32) / 255.0
    shape = PATCH, PATCH
    windows = np.lib.stride_tricks.sliding_window_view(brightness, shape, axis=(1, 2))
    means = windows[:, ::STRIDE, ::STRIDE].mean(axis=(3, 4)).reshape(len(images), -1)
    return _unit(means - means.mean(axis=1, keepdims=True))


def oriented_gradients(images):
    """Return roots of histograms of oriented gradients, of unit norm.

    Parameters
    ----------
    images : ndarray of shape (n_images, 784), uint8

    Returns
    -------
    rows : ndarray of shape (n_images, 392), float32
    """
    brightness = images.reshape(-1, SIDE, SIDE).astype(np.float32) / 255.0
    down, right = np.zeros_like(brightness), np.zeros_like(brightness)
    down[:, 1:-1] = brightness[:, 2:] - brightness[:, :-2]
    right[:, :, 1:-1] = brightness[:, :, 2:] - brightness[:, :, :-2]
    image, row, column = np.nonzero((down != 0.0) | (right != 0.0))
    down, right = down[image, row, column], right[image, row, column]
    angle = np.arctan2(down, right) / (2.0 * np.pi) * N_ORIENTATIONS % N_ORIENTATIONS
    before = np.floor(angle)
    length, share = np.hypot(down, right), angle - before
    shape = len(images), N_ORIENTATIONS, SIDE // CELL, SIDE // CELL
    histograms = np.zeros(math.prod(shape))
    for orientation, weights in ((before, 1.0 - share), (before + 1.0, share)):
        orientation = orientation.astype(np.int64) % N_ORIENTATIONS
        places = np.ravel_multi_index((image, orientation, row // CELL, column // CELL), shape)
        histograms += np.bincount(places, length * weights, histograms.size)
    rows = np.sqrt(histograms).astype(np.float32).reshape(len(images), -1)
    return _unit(rows)


def _unit(rows):
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.maximum(norms, _LEAST_NORM)


TRANSFORMS = {"patches": patch_means, "gradients": oriented_gradients}


def load_digits(path, transform):
    """Return (X_train, y_train, X_test, y_test) of MNIST.

    Parameters
    ----------
    path : str
        An .npz with X_train (60,000 x 784, uint8), y_train, X_test and y_test.
    transform : {"patches", "gradients"}
    """
    with np.load(path) as data:
        rows = [TRANSFORMS[transform](data[f"X_{part}"]) for part in ("train", "test")]
        labels = [data[f"y_{part}"].astype(np.int64) for part in ("train", "test")]
    return rows[0], labels[0], rows[1], labels[1]


# Files are read once.
_adult, _votes = cache(load_adult), cache(load_vote)


def load_table(name, path, seed):
    """Return (X_train, y_train, X_test, y_test, data_norm).

    Parameters
    ----------
    name : {"adult", "votes"}
    path : str
        The file of ``adult``.
    seed : int
        Of the split.
    """
    X, y, norm = (*_adult(path), 1.0) if name == "adult" else _votes()
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=seed)
    return X, y, X_test, y_test, norm
