"""Linear models: what is sampled, its rows, weights, moments and curvatures."""
