"""Commands of ``python -m skdpbayes``, one per file."""
