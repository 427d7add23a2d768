"""Mixtures of Gaussians: the model, and its statistics."""
