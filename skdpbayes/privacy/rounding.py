"""What doubles do to a Gaussian mechanism, and why the claims hold all the same.

An update is ``theta - drift + noise``. Computed naively it leaks twice: the low bits of the result
tell which sums of a double and a noise value are possible at all (Mironov 2012; for the Gaussian,
Holohan and Braghin 2021), and a sum over records, rounded at every addition, can move by more than
its mathematical sensitivity when one record changes (Casacuberta et al. 2022). The answer:

- ``theta``, the drift and the noise are rounded to one lattice, of spacing ``2^-24`` times the noise's
  standard deviation (rounded down to a power of two). Sums of lattice points are exact, so the update
  is a lattice Gaussian shifted by a lattice vector: rounding, applied to an ideal Gaussian mechanism,
  and so post-processing. Of the drift this is the records' part; the prior's, which is the same on all
  tables, is rounded by itself. A cell near the centre collects some ``2^28`` outputs of the normal generator.
- rounding the drift moves it by at most one spacing per coordinate more than the records do, and the
  sum over records errs by at most ``gamma n G`` with ``gamma`` the longest chain of additions times the
  unit roundoff. Both enlarge the sensitivity that is accounted for, by the factors below.
- states are confined to a box of ``2^22`` noise deviations around zero. That keeps every sum exact and,
  where two chains at different states are compared, bounds by how much their rounding can differ. Both parts
  of a drift are cut at 32 times that, from where the noise does not bring a state back into the box.
"""

import math

import numpy as np

# Lattice units of a noise's deviation, in bits.
LATTICE_BITS = 24
# Lattice units of half a box, in bits.
BOX_BITS = 22
# Truncation radius in lattice units: 2^5 boxes of 2^22, which a chain confined to its box never reaches.
LARGEST_UNITS = 2.0 ** (LATTICE_BITS + BOX_BITS + 5)
# Most chunks that a sum is added up from.
MAX_CHUNKS = 64
# Least number of records of a chunk.
RECORDS_PER_CHUNK = 256
# Unit roundoff of doubles.
UNIT_ROUNDOFF = 2.0**-53


def n_chunks(expected_records):
    """Into how many parts a sum over records is cut: fixed by public sizes alone."""
    return int(min(MAX_CHUNKS, max(1, expected_records // RECORDS_PER_CHUNK)))


def lattice_spacing(noise_scale):
    """The spacing of the lattice for the smallest noise of a run."""
    return 2.0 ** (math.floor(math.log2(noise_scale)) - LATTICE_BITS)


def on_lattice(values, noise, spacing):
    """Values with noise, both rounded to one lattice, on which their sum is exact."""
    units = np.clip(values / spacing, -LARGEST_UNITS, LARGEST_UNITS)
    return spacing * (np.rint(units) + np.rint(noise / spacing))


def box_half_width(noise_scale):
    """The largest distance of a coordinate from zero: a lattice point."""
    return 2.0 ** (LATTICE_BITS + BOX_BITS) * lattice_spacing(noise_scale)


def covered_records(n_samples, neighboring_relation):
    """Number of records a table may have, given its public size: ten times as many if it is private."""
    return n_samples if neighboring_relation == "replace_one" else 10 * n_samples


def sum_inflation(n_samples, n_parameters, neighboring_relation):
    """The factor by which rounding can enlarge the sensitivity of a sum over records."""
    records = covered_records(n_samples, neighboring_relation)
    chain = records / n_chunks(n_samples) + MAX_CHUNKS + n_parameters + 8
    return 1.0 + 2.0 * UNIT_ROUNDOFF * chain * records


def rounding_shift(n_parameters, smallest_noise_scale):
    """The largest distance by which rounding can move the drift beyond what the records do.

    The spacing itself jumps where the noise passes a power of two; this bound is continuous.
    """
    return math.sqrt(n_parameters) * 2.0**-LATTICE_BITS * smallest_noise_scale


def contraction_slack(n_parameters, smallest_noise_scale):
    """The largest distance by which rounding can leave two states farther apart after a contraction.

    In units of the lattice, for each coordinate: 1 for the noise, whose rounding is undone to compare the
    states before it; 1 for that of the records' part of the drift; 1 for that of the prior's; and for each
    table ``gamma ||theta||`` for the products of rows, or of the prior's precision, with ``theta``, ``gamma``
    being ``n_parameters`` and a few more unit roundoffs and ``||theta||`` at most the box's.
    """
    box = 2.0 ** (LATTICE_BITS + BOX_BITS) * 2.0 * UNIT_ROUNDOFF
    units = 3.0 + 2.0 * box * (n_parameters + 8)
    return units * rounding_shift(n_parameters, smallest_noise_scale)
