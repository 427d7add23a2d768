"""``python -m skdpbayes``, see `skdpbayes._cli`."""

from ._cli import main

if __name__ == "__main__":
    main()
