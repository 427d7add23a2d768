"""Random walks, of which only accept/reject decisions are paid for: speed, two modes, and 50 parameters.

    python benchmarks/metropolis.py speed
    python benchmarks/metropolis.py modes --output modes.png
    python benchmarks/metropolis.py mnist mnist.npz --output mnist.png

The samplers are those of `skdpbayes.samplers.metropolis`; neighbours replace one row, and every epsilon
is that of a whole run. What is measured, and how, is said at the top of `metropolis_speed.py`,
`metropolis_modes.py` and `metropolis_mnist.py`.
"""

import argparse
import warnings

import metropolis_mnist
import metropolis_modes
import metropolis_speed
from sklearn.exceptions import ConvergenceWarning

from skdpbayes.exceptions import PrivacyWarning


def main():
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    modules = {"speed": metropolis_speed, "modes": metropolis_modes, "mnist": metropolis_mnist}
    for name, module in modules.items():
        command = commands.add_parser(name, description=module.__doc__.partition("\n")[0])
        command.add_argument("--seeds", type=int, default=3)
        command.add_argument("--quick", action="store_true", help="fewer and smaller runs")
        if name == "mnist":
            command.add_argument("path", help="MNIST: X_train, y_train, X_test, y_test in one .npz")
        if name == "modes":
            command.add_argument("--temperature", type=float, default=500.0)
        if name != "speed":
            command.add_argument("--output", default=f"{name}.png", help="file of the plot")
            command.add_argument("--samplers", nargs="+", default=module.SAMPLERS, metavar="NAME")
    arguments = parser.parse_args()
    # Seeds make a benchmark repeatable; a release must leave random_state=None.
    warnings.filterwarnings("ignore", "A seeded random_state", PrivacyWarning)
    # That random walks are short for 50 parameters is what is measured here.
    warnings.filterwarnings("ignore", category=ConvergenceWarning)
    modules[arguments.command].main(arguments)


if __name__ == "__main__":
    main()
