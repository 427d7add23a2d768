"""Compiled gradients and losses, and how chains are run on several cores."""
