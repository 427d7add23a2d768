"""Line styles given by the user."""


def line_style(options):
    """Return line properties under their long names, so that short ones do not clash with defaults."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    return normalize_kwargs(options or {}, Line2D)
