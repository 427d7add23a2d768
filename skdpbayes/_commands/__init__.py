"""Commands of ``python -m skdpbayes``, one in each file."""
