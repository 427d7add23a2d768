"""Looks at clipped residuals of counts, whose mean is the exponential of a logit."""
