"""DP-SGD of Opacus: a linear classifier and a network with one hidden layer.

Batches are Poisson's, drawn here: Opacus' loader draws the same and is slower. Noise is that of Opacus'
accountant for the whole budget.
"""

import numpy as np
import torch
from opacus import PrivacyEngine
from opacus.accountants.utils import get_noise_multiplier
from protocol import serve
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train(network, arrays, seed, options):
    """Return probabilities of the test rows by the last iterate."""
    torch.manual_seed(seed)
    X, y = torch.tensor(arrays["X"], dtype=torch.float32), torch.tensor(arrays["y"])
    n, batch_size = len(X), max(32, round(options["rate"] * len(X)))
    n_steps = max(1, round(options["epochs"] * n / batch_size))
    noise = get_noise_multiplier(
        target_epsilon=options["epsilon"],
        target_delta=options["delta"],
        sample_rate=batch_size / n,
        steps=n_steps,
        # The engine's own default; that of this function, Rényi's, refuses small budgets.
        accountant="prv",
    )
    optimizer = torch.optim.SGD(
        network.parameters(), lr=options["learning_rate"], momentum=options.get("momentum", 0.0)
    )
    network, optimizer, _ = PrivacyEngine().make_private(
        module=network,
        optimizer=optimizer,
        data_loader=DataLoader(TensorDataset(X, y), batch_size=batch_size),
        noise_multiplier=noise,
        max_grad_norm=options["clip"],
    )
    criterion = nn.CrossEntropyLoss()
    for _ in range(n_steps):
        batch = torch.nonzero(torch.rand(n) < batch_size / n).squeeze(1)
        optimizer.zero_grad()
        criterion(network(X[batch]), y[batch]).backward()
        optimizer.step()
    with torch.no_grad():
        logits = network(torch.tensor(arrays["X_test"], dtype=torch.float32))
    return {"probabilities": torch.softmax(logits, dim=1).numpy().astype(np.float64)}


def logistic(arrays, seed, options):
    """A linear classifier."""
    torch.manual_seed(seed)
    network = nn.Linear(arrays["X"].shape[1], int(arrays["n_classes"]))
    return train(network, arrays, seed, options)


def network(arrays, seed, options):
    """One hidden layer."""
    torch.manual_seed(seed)
    d, width = arrays["X"].shape[1], options["n_hidden"]
    layers = nn.Linear(d, width), nn.Tanh(), nn.Linear(width, int(arrays["n_classes"]))
    return train(nn.Sequential(*layers), arrays, seed, options)


if __name__ == "__main__":
    torch.set_num_threads(1)
    serve({"logistic": logistic, "network": network})
