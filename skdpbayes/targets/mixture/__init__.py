"""Mixtures of Gaussians: the model, its coordinates, statistics and what a record changes in them."""
