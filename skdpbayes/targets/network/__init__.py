"""Networks: layers, and the gradient of each record."""
