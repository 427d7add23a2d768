"""Random walks, of which only accept/reject decisions are paid for: speed, two modes, and 50 parameters.

    python -m benchmarks.metropolis speed [--results docs/results/walks_speed.csv]
    python -m benchmarks.metropolis modes [--results docs/results/walks_modes.csv]
    python -m benchmarks.metropolis mnist mnist.npz [--results docs/results/walks_mnist.csv]

"Random walks" of docs/benchmarks.rst.

The samplers are those of `skdpbayes.samplers.metropolis`; neighbours replace one row, and every epsilon
is that of a whole run. What is measured, and how, is said at the top of `speed.py`,
`modes.py` and `mnist.py`.
"""

import argparse

from benchmarks.common import allow_seeds, ignore_fit_warnings
from benchmarks.metropolis import mnist, modes, speed


def main():
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.metropolis", description=__doc__.partition("\n")[0]
    )
    commands = parser.add_subparsers(dest="command", required=True)
    modules = {"speed": speed, "modes": modes, "mnist": mnist}
    for name, module in modules.items():
        command = commands.add_parser(name, description=module.__doc__.partition("\n")[0])
        command.add_argument("--seeds", type=int, default=3)
        command.add_argument("--results", help="a CSV file")
        if name == "mnist":
            command.add_argument("path", help="MNIST: X_train, y_train, X_test, y_test in one .npz")
        if name == "speed":
            command.add_argument("--sizes", type=int, nargs="+", default=speed.SIZES)
        else:
            command.add_argument("--samplers", nargs="+", default=module.SAMPLERS, metavar="NAME")
            command.add_argument("--epsilons", type=float, nargs="+", default=module.EPSILONS)
    arguments = parser.parse_args()
    allow_seeds()
    # That random walks are short for 50 parameters is what is measured here.
    ignore_fit_warnings()
    modules[arguments.command].main(arguments)


if __name__ == "__main__":
    main()
