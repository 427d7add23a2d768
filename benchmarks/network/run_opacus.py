"""DP-SGD of Opacus, timed by `benchmarks/network/speed.py` in an environment of its own.

    python run_opacus.py setting.npz

The setting's file has X, y, n_hidden, clip_norm and, one for each size of batch, batch_sizes and
noise_multipliers. Every line of the input is a mode (see ``MODES``), a number of threads, a size of batch and
a number of steps; every line of the output is the seconds that the steps took.
"""

import sys
import time
import warnings

import numpy as np
import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

# Name: (how gradients are clipped, whether batches come from Opacus' loader).
MODES = {"hooks-loader": ("hooks", True), "hooks": ("hooks", False), "ghost": ("ghost", False)}


class Training:
    """A network, and what Opacus makes of it.

    Parameters
    ----------
    mode : str
        In ``MODES``.
    setting : dict of arrays
    batch_size : int
        Expected; divides the number of rows.
    noise_multiplier : float
    """

    def __init__(self, mode, setting, batch_size, noise_multiplier):
        kind, self.loads = MODES[mode]
        self.X, self.y = torch.tensor(setting["X"]), torch.tensor(setting["y"])
        self.rate = batch_size / len(self.X)
        n_hidden, n_classes = int(setting["n_hidden"]), int(self.y.max()) + 1
        network = nn.Sequential(
            nn.Linear(self.X.shape[1], n_hidden), nn.Tanh(), nn.Linear(n_hidden, n_classes)
        )
        self.is_ghost = kind == "ghost"
        extra = {"criterion": nn.CrossEntropyLoss()} if self.is_ghost else {}
        made = PrivacyEngine().make_private(
            module=network,
            optimizer=torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9),
            data_loader=DataLoader(TensorDataset(self.X, self.y), batch_size=batch_size),
            noise_multiplier=noise_multiplier,
            max_grad_norm=float(setting["clip_norm"]),
            poisson_sampling=True,
            grad_sample_mode=kind,
            **extra,
        )
        self.network, self.optimizer, self.loader = made[0], made[1], made[-1]
        self.criterion = made[2] if self.is_ghost else nn.CrossEntropyLoss()
        self.batches = self._batches()

    def _batches(self):
        while True:
            if self.loads:
                yield from self.loader
            else:
                batch = torch.nonzero(torch.rand(len(self.X)) < self.rate).squeeze(1)
                yield self.X[batch], self.y[batch]

    def run(self, n_steps):
        """Return the seconds of so many steps."""
        start = time.perf_counter()
        for _ in range(n_steps):
            X, y = next(self.batches)
            self.optimizer.zero_grad()
            self.criterion(self.network(X), y).backward()
            self.optimizer.step()
        return time.perf_counter() - start


def main(path):
    """Answer lines."""
    warnings.simplefilter("ignore")
    with np.load(path) as data:
        setting = dict(data)
    noise = dict(zip(setting["batch_sizes"], setting["noise_multipliers"], strict=True))
    trainings = {}
    for line in sys.stdin:
        mode, n_threads, batch_size, n_steps = line.split()
        torch.set_num_threads(int(n_threads))
        key = mode, int(batch_size)
        if key not in trainings:
            trainings[key] = Training(mode, setting, key[1], float(noise[key[1]]))
            trainings[key].run(3)
        print(trainings[key].run(int(n_steps)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
