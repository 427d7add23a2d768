"""What the cores of all samplers share: compiling, execution in blocks, gradients, lattice steps."""
