"""What a user may say of lines."""


def line_style(options):
    """Return properties of lines by their long names: a short one must not meet a default."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    return normalize_kwargs(options or {}, Line2D)
