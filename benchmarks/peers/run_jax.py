"""Noisy gradient descent, written by hand in JAX: what somebody does who wants nothing but speed.

    v <- momentum v + (1/n) (sum_i clip(grad_i, 1) + N(0, sigma^2)),   theta <- theta - step v

Full batches, so that one Gaussian mechanism after the other is all there is to account for: with T
steps and replacement of a record, sigma = 2 sqrt(T) / mu. Gradients are clipped by clipping rows, which
bounds them for good: |p - e_y| <= sqrt(2), and a row's norm, with the constant column, is public.
"""

from functools import partial

import jax
import jax.numpy as jnp
from protocol import serve


@partial(jax.jit, static_argnames="n_steps")
def descend(X, labels, key, sigma, step, bound, n_steps):
    """Return coefficients of shape (n_columns, n_classes)."""
    n, shape = len(X), (X.shape[1], labels.shape[1])

    def update(state, key):
        theta, velocity = state
        rest = jax.nn.softmax(X @ theta, axis=1) - labels
        noisy = X.T @ rest / bound + sigma * jax.random.normal(key, shape)
        velocity = 0.9 * velocity + noisy / n
        return (theta - step * velocity, velocity), None

    keys = jax.random.split(key, n_steps)
    return jax.lax.scan(update, (jnp.zeros(shape), jnp.zeros(shape)), keys)[0][0]


def with_constant(X):
    """Return rows with a last column of ones."""
    return jnp.asarray(jnp.column_stack([X, jnp.ones(len(X))]), dtype=jnp.float32)


def logistic(arrays, seed, options):
    """A linear classifier."""
    n_steps = options["n_steps"]
    labels = jax.nn.one_hot(arrays["y"], int(arrays["n_classes"]))
    bound = 2.0**0.5 * (float(arrays["norm"]) ** 2 + 1.0) ** 0.5
    sigma = 2.0 * n_steps**0.5 / options["mu"]
    theta = descend(
        with_constant(arrays["X"]),
        labels,
        jax.random.key(seed),
        sigma,
        options["step"],
        bound,
        n_steps,
    )
    found = jax.nn.softmax(with_constant(arrays["X_test"]) @ theta, axis=1)
    return {"probabilities": jax.device_get(found).astype("float64")}


if __name__ == "__main__":
    serve({"logistic": logistic})
