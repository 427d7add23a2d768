"""Sums of gradients and losses over a table or a batch, compiled once for a kind of target.

    full batch:     g(theta) = sum_i grad ell_i(theta)
    Poisson batch:  g(theta) = (1/q) sum_{i in S} grad ell_i(theta),   each i in S with probability q
    cyclic batch:   the same with q = 1/L, S the next of L batches into which the table is cut

A sum is cut into chunks whose number depends on public sizes only and which are added up in order, so
the result is the same on any number of cores.
"""

import ast
import ctypes
import hashlib
import math
import sys
import weakref
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange, typeof, types
from numba.core import cgutils
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.ccallback import CFunc
from numba.core.errors import TypingError
from numba.core.registry import cpu_target
from numba.core.sigutils import normalize_signature
from numba.extending import intrinsic

from .._jit import WORD, call_address, compilable, compiled_for
from ..models import (
    add_gradient,
    implements,
    loss_differences,
    n_examples,
    prior_potential,
    pullback,
    selected_from,
    shared_parameters,
)
from ..models.base import ALIGNMENT, has_table, in_random_order, is_in_random_order
from ..privacy.rounding import n_chunks

# Cores, and functions of a target that are compiled once and reached by their addresses.
#
#     1 = entry(address of the target, address of the job, number of a chunk)
#
# numba compiles whatever a function calls into it once more: a core that called a gradient by name
# would hold a copy of it, and a second copy to run on several cores, and would be compiled anew for
# every kind of target. An entry is compiled once for a kind of target, and cores call it through a
# pointer without knowing that kind. A job is a named tuple of numbers and arrays, which include those
# that results are written to. Its chunks are shared out among several cores by one loop, compiled
# once for all entries.
#
# An address keeps nothing alive: a target lives as long as the memory of `compiled_layout`, and a job as
# long as its caller holds it.


_OPTIONS: dict[str, Any] = {"error_model": "numpy"}
_CORE: dict[str, Any] = {**_OPTIONS, "nogil": True, "no_cfunc_wrapper": True}
_PACKAGE_FOLDER = Path(__file__).parents[1]
_PACKAGE = __name__.partition(".")[0]


def _sources(root):
    """The files that end up in compiled cores."""
    # Compiled code takes constants from one module of `privacy`.
    files = [root / "_jit.py", root / "privacy" / "rounding.py"]
    for folder in ("_compute", "models", "samplers"):
        files += sorted((root / folder).rglob("*.py"))
    return files


def _hash(texts):
    digest = hashlib.sha256()
    for text in texts:
        digest.update(hashlib.sha256(text).digest())
    return digest.hexdigest()[:16]


_FILES = _sources(_PACKAGE_FOLDER)
_AS_IMPORTED = _hash(path.read_bytes() for path in _FILES)


@cache
def _fingerprint():
    """A hash of the code that ends up in compiled cores."""
    # Parsing takes a tenth of a process's first fit, so the hash is kept for sources with the same bytes.
    name = f"sources-{_AS_IMPORTED}.{sys.implementation.cache_tag}"
    kept = IndexDataCacheFile(FunctionCache(_sources).cache_path, name, _AS_IMPORTED)
    code = kept.load("code")
    if code is None:
        code = _hash_of_code(_PACKAGE_FOLDER, _AS_IMPORTED)
        with suppress(OSError):
            kept.save("code", code)
    return code


def _hash_of_code(root, as_imported):
    """A hash of what files say to Python, and of where they are.

    If they have changed since the package was imported, the hash of what was imported stands for it.
    """
    paths = _sources(root)
    texts = [path.read_bytes() for path in paths]
    if _hash(texts) != as_imported:
        return as_imported
    names = (path.relative_to(root).as_posix() for path in paths)
    return _hash(
        f"{name} {code_of(text)}".encode() for name, text in zip(names, texts, strict=True)
    )


def code_of(text):
    """A module's syntax tree without docstrings, written out without the places of its lines."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        if documented and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return ast.dump(tree)


class _Cache(FunctionCache):
    """numba's cache of a function, filed under the code of this package.

    numba looks at the text of the function's own file and at the line where it begins, and not at what the
    function calls. For a file of the user's this is still all that is looked at.
    """

    def __init__(self, function):
        super().__init__(function)
        name, stamp = self._impl.filename_base, self._impl.locator.get_source_stamp()
        if Path(function.__code__.co_filename) in _FILES:
            name = f"{function.__module__}.{function.__qualname__}.{sys.implementation.cache_tag}"
            stamp = _fingerprint()
        self._cache_file = IndexDataCacheFile(self.cache_path, f"{name}-{_fingerprint()}", stamp)

    def save_overload(self, sig, data):
        """File compiled code, unless a class in its signature is not found by its name.

        Such a class is filed by value, and another one when it is loaded: what is loaded would never fit, and
        be loaded again at every call.
        """
        if all(map(_is_found_by_name, getattr(sig, "args", sig))):
            super().save_overload(sig, data)


def _is_found_by_name(kind):
    """Whether the classes of named tuples in a numba type are attributes of their modules."""
    if isinstance(kind, types.BaseNamedTuple):
        named = kind.instance_class
        if getattr(sys.modules.get(named.__module__), named.__qualname__, None) is not named:
            return False
    return all(map(_is_found_by_name, kind)) if isinstance(kind, types.BaseTuple) else True


def _keep(made, function):
    """Let a compiled function be kept on disk, if there is a folder to write to."""
    with suppress(RuntimeError):
        made._cache = _Cache(function)
    return made


def _is_ours(target):
    """Whether a target's code is this package's; arrays have none."""
    return isinstance(target, np.ndarray) or type(target).__module__.partition(".")[0] == _PACKAGE


class CompiledCore:
    """A compiled function of a target, or of arrays: cached on disk for this package's targets only.

    It is filed under a hash of the code of all samplers and targets; comments and docstrings do not count. A
    target of the user's may change without this package noticing, so it is compiled once per process.

    Parameters
    ----------
    function : callable
        Its first argument is a target or an array.
    """

    def __init__(self, function):
        self._fresh = njit(**_CORE)(function)

    @cached_property
    def _cached(self):
        function = self._fresh.py_func
        return _keep(njit(**_CORE)(function), function)

    def __call__(self, target, *args):
        return (self._cached if _is_ours(target) else self._fresh)(target, *args)


class Entry:
    """A function of a target, reached by its address; cached as a `CompiledCore` is.

    Parameters
    ----------
    job : type
        A ``NamedTuple`` class.
    kinds : list
        numba's types of its fields.

    Notes
    -----
    The decorated function takes pointers to a target and a job, which `at` reads, and the number of a chunk.
    It returns 1; any other value means that an error was raised.
    """

    jobs: dict[type, types.BaseTuple] = {}

    def __init__(self, job, kinds):
        self._job = types.BaseTuple.from_types(kinds, job)
        self.jobs[job] = self._job
        self._compiled = {}

    def __call__(self, function):
        self._function = function
        return self

    def address(self, target):
        """The address of the code for targets of this kind, which is compiled where it is not yet."""
        kind = typeof(target)
        if kind not in self._compiled:
            pointers = types.CPointer(kind), types.CPointer(self._job)
            signature = types.int64(*pointers, types.int64)
            made = _compiled_callback(signature, self._function, _is_ours(target))
            # A second thread must not free code that a first one may be running.
            self._compiled.setdefault(kind, made)
        return self._compiled[kind].address


def _compiled_callback(signature, function, cached, **options):
    made = CFunc(function, normalize_signature(signature), {}, {**_OPTIONS, **options})
    if cached:
        _keep(made, function)
    made.compile()
    return made


@intrinsic
def _write(typing_context, value, address):
    """Write a value to an address."""

    def generate(context, builder, signature, values):
        place = builder.inttoptr(values[1], context.get_data_type(value).as_pointer())
        context.pack_value(builder, value, values[0], place)
        return context.get_dummy_value()

    return types.void(value, types.int64), generate


@intrinsic
def address_of(typing_context, job):
    """The address of a job, which is good until the calling function returns."""
    expected = Entry.jobs[job.instance_class]
    if job != expected:
        raise TypingError(f"an entry takes {expected}, not {job}.")

    def generate(context, builder, signature, values):
        place = cgutils.alloca_once(builder, context.get_data_type(job))
        context.pack_value(builder, job, values[0], place)
        return builder.ptrtoint(place, WORD)

    return types.int64(job), generate


@intrinsic
def tuple_at(typing_context, pointer):
    """The tuple that a pointer points to; its arrays count no references."""

    def generate(context, builder, signature, values):
        value = context.unpack_value(builder, pointer.dtype, values[0])
        return _ownerless(context, builder, pointer.dtype, value)

    return pointer.dtype(pointer), generate


def _ownerless(context, builder, kind, value):
    if isinstance(kind, types.BaseTuple):
        pairs = zip(kind, cgutils.unpack_tuple(builder, value), strict=True)
        return context.make_tuple(
            builder, kind, [_ownerless(context, builder, *pair) for pair in pairs]
        )
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        return array._getvalue()
    if context.data_model_manager[kind].contains_nrt_meminfo():
        raise TypingError(
            f"a target may hold numbers and arrays only, but this one holds a {kind}."
        )
    return value


@CompiledCore
def _lay_out(target, address):
    _write(target, address)
    return n_examples(target)


def compiled_layout(target):
    """(a target as compiled code has it in memory, its number of records)."""
    context = cpu_target.target_context
    size = context.get_abi_sizeof(context.get_data_type(typeof(target)))
    buffer = (ctypes.c_char * size)()
    buffer.target = target  # Whose arrays live as long as the memory.
    memory = np.frombuffer(buffer, np.uint8)
    return memory, _lay_out(target, memory.ctypes.data)


def cache_folder() -> str | None:
    """The folder that holds compiled code, or None if there is none.

    numba creates a folder in it for each folder of sources.
    """
    path = getattr(_lay_out._cached.stats, "cache_path", None)
    if path is None:
        return None
    path = Path(path)
    # Beside the sources it is the package, whose folders have one of their own each.
    return str(_PACKAGE_FOLDER if path.name == "__pycache__" else path.parent)


def count_examples(target):
    """A target's number of records."""
    return compiled_layout(target)[1]


_loops: list[CFunc] = []


def _each_chunk(entry, target, job, n_chunks):
    done = 0
    for chunk in prange(n_chunks):
        done += call_address(entry, (target, job, np.int64(chunk)))
    return done


def several_cores():
    """The address of the loop over chunks on several cores."""
    if not _loops:
        signature = types.int64(*[types.int64] * 4)
        _loops.append(_compiled_callback(signature, _each_chunk, True, parallel=True))
    return _loops[0].address


# For every constant of Python's, `do_chunks` would be compiled anew.
ONE_CHUNK = np.int64(1)
NO_LOOP = np.int64(0)


@compilable
def do_chunks(entry, target, job, n_chunks, loop):
    """Have all chunks of a job done, by the loop at an address, or one after the other if that is zero."""
    if entry == 0:
        raise RuntimeError("the oracle was made for other batches.")
    if loop != 0:
        done = call_address(loop, (entry, target, job, n_chunks))
    else:
        done = 0
        for chunk in range(n_chunks):
            done += call_address(entry, (target, job, chunk))
    if done != n_chunks:
        raise RuntimeError("a function of the target raised an error, which is printed above.")


class GradientOracle(NamedTuple):
    """A target's gradients as cores know them: see `gradient_oracle`.

    Attributes
    ----------
    target, table : int
        Addresses of the target and of its table, which live as long as ``chunks``.
    shared_parameters, of_rows, of_members, pullback : int
        Addresses of entries; those that are not needed are zero.
    inner, sums : ndarray
        Room for the table's parameters, and for its sums.
    chunks : ndarray of shape (n_chunks, n_sums)
        Room for those of chunks of the table.
    n_examples : int
    """

    target: int
    table: int
    shared_parameters: int
    of_rows: int
    of_members: int
    pullback: int
    inner: np.ndarray
    sums: np.ndarray
    chunks: np.ndarray
    n_examples: int


class _Point(NamedTuple):
    theta: np.ndarray
    inner: np.ndarray


class _Rows(NamedTuple):
    theta: np.ndarray
    size: int
    chunks: np.ndarray


class _Members(NamedTuple):
    theta: np.ndarray
    members: np.ndarray
    size: int
    chunks: np.ndarray


class _GradientSums(NamedTuple):
    theta: np.ndarray
    inner: np.ndarray
    sums: np.ndarray
    size: int
    gradient: np.ndarray
    prior: np.ndarray


_VECTOR = types.float64[::1]
_MATRIX = types.float64[:, ::1]
_NUMBERS = types.int64[::1]


def _add_chunk(target, theta, selection, count, chunks, chunk):
    unit = ALIGNMENT if in_random_order(target) else 1
    units = (count + unit - 1) // unit
    for j in range(chunks.shape[1]):
        chunks[chunk, j] = 0.0
    start = min(count, units * chunk // chunks.shape[0] * unit)
    size = min(count, units * (chunk + 1) // chunks.shape[0] * unit) - start
    add_gradient(target, theta, selected_from(selection, start, size), size, chunks[chunk])


_add_chunk = njit(error_model="numpy", inline="always")(_add_chunk)


@Entry(_Rows, [_VECTOR, types.int64, _MATRIX])
def _of_rows(target, job, chunk):
    job = tuple_at(job)
    _add_chunk(tuple_at(target), job.theta, 0, job.size, job.chunks, chunk)
    return 1


@Entry(_Members, [_VECTOR, _NUMBERS, types.int64, _MATRIX])
def _of_members(target, job, chunk):
    job = tuple_at(job)
    _add_chunk(tuple_at(target), job.theta, job.members, job.size, job.chunks, chunk)
    return 1


@Entry(_Point, [_VECTOR, _VECTOR])
def _shared_parameters(target, job, chunk):
    job = tuple_at(job)
    shared_parameters(tuple_at(target), job.theta, job.inner)
    return 1


@Entry(_GradientSums, [_VECTOR, _VECTOR, _VECTOR, types.int64, _VECTOR, _VECTOR])
def _pullback(target, job, chunk):
    job = tuple_at(job)
    pullback(tuple_at(target), job.theta, job.inner, job.sums, job.size, job.gradient, job.prior)
    return 1


def gradient_oracle(target, n_parameters, n_samples, rate=1.0, n_batches=None, sums_only=False):
    """The compiled functions and arrays that a core needs for a target's gradients.

    Parameters
    ----------
    target : NamedTuple
    n_parameters : int
        Length of a gradient.
    n_samples : int
        Public size of the table, by which sums are cut into chunks.
    rate : float, default=1.0
        At which records are in a Poisson batch; 1 is for the full table.
    n_batches : int or None, default=None
        For batches that take turns, into how many the table is cut.
    sums_only : bool, default=False
        Whether only `sums_at` is asked for.

    Returns
    -------
    oracle : GradientOracle
        For cores in the place of the target.
    batch : None, ndarray, InRandomOrder or CyclicBatches
        For `estimate_gradient`.
    """
    memory, n = compiled_layout(target)
    table, table_memory, sizes = target, memory, (0, n_parameters)
    if has_table(target):
        table, sizes = target.table, target.table_sizes
        table_memory, n = compiled_layout(table)
    if n_batches is not None:
        batch = cyclic_batches(n, n_batches)
    elif is_in_random_order(typeof(table)):
        batch = InRandomOrder(np.empty(n, np.int64))
    else:
        batch = np.empty(n, np.int64) if rate < 1 else None
    count = getattr(table, "n_chunks", n_chunks(rate * n_samples))
    chunks = np.empty((count, sizes[1]))
    # If the oracle had the memory as a field, its type would be compiled into all that takes an oracle.
    weakref.finalize(chunks, len, (memory, table_memory)).atexit = False
    oracle = GradientOracle(
        memory.ctypes.data,
        table_memory.ctypes.data,
        _shared_parameters.address(target) if table is not target else 0,
        _of_rows.address(table) if batch is None else 0,
        0 if batch is None else _of_members.address(table),
        0 if sums_only else _pullback.address(target),
        np.empty(sizes[0]),
        np.empty(sizes[1]),
        chunks,
        n,
    )
    return oracle, batch


def start_of(target, plan):
    """The start of a chain: the target's own, which is public, or zero."""
    start = getattr(target, "start", None)
    return np.zeros(plan.bounds.n_parameters) if start is None else np.array(start, dtype=float)


@implements(n_examples, GradientOracle)
def _count_gradients(oracle):
    return oracle.n_examples


@compilable
def _inner_point(oracle, theta):
    """The parameters of the table at ``theta``."""
    if oracle.shared_parameters == 0:
        return theta
    job = address_of(_Point(theta, oracle.inner))
    do_chunks(oracle.shared_parameters, oracle.target, job, ONE_CHUNK, NO_LOOP)
    return oracle.inner


@compilable
def _add_up(oracle, inner, members, count, loop):
    """Write the table's sums to the oracle's ``sums``, on several cores if ``loop`` is an address."""
    chunks, sums = oracle.chunks, oracle.sums
    if members is None:
        job = address_of(_Rows(inner, count, chunks))
        do_chunks(oracle.of_rows, oracle.table, job, chunks.shape[0], loop)
    else:
        job = address_of(_Members(inner, members, count, chunks))
        do_chunks(oracle.of_members, oracle.table, job, chunks.shape[0], loop)
    for j in range(sums.size):
        sums[j] = 0.0
        for chunk in range(chunks.shape[0]):
            sums[j] += chunks[chunk, j]


@compilable
def gradient_sum(oracle, theta, members, count, loop, gradient, prior):
    """Write the sum of records' gradients, and the prior's; on several cores if ``loop`` is an address.

    The records are the first ``count`` of those whose numbers are in ``members``; None is for the table's.
    """
    inner = _inner_point(oracle, theta)
    _add_up(oracle, inner, members, count, loop)
    job = address_of(_GradientSums(theta, inner, oracle.sums, count, gradient, prior))
    do_chunks(oracle.pullback, oracle.target, job, ONE_CHUNK, NO_LOOP)


@CompiledCore
def _evaluate(oracle, theta, members, count, loop):
    _add_up(oracle, _inner_point(oracle, theta), members, count, loop)


def sums_at(oracle, theta, loop, members=None):
    """The sums of a table, or of the records with given numbers, and nothing else."""
    count = oracle.n_examples if members is None else members.size
    _evaluate(oracle, theta, members, count, loop)
    return oracle.sums.copy()


@compilable
def poisson_batch(generator, n, rate, batch):
    """Write the numbers of a Poisson batch to ``batch`` (length n), and return how many they are.

    Gaps between members are geometric: ``floor(E / -log(1 - q))`` with ``E`` a unit exponential.
    """
    decay = -math.log1p(-rate)
    count = 0
    i = math.floor(generator.standard_exponential() / decay)  # Proposition 7.
    while i < n:
        batch[count] = np.int64(i)
        count += 1
        i += 1.0 + math.floor(generator.standard_exponential() / decay)  # Proposition 7.
    return count


@compilable
def shuffle(generator, batch, count):
    """Bring the first ``count`` numbers of a batch into random order (Fisher and Yates)."""
    for i in range(count - 1, 0, -1):
        j = int(generator.random() * (i + 1))  # Proposition 31.
        batch[i], batch[j] = batch[j], batch[i]


class InRandomOrder(NamedTuple):
    """The full table or Poisson batches, in random order: room for the numbers of their records."""

    members: np.ndarray


class CyclicBatches(NamedTuple):
    """Batches that take turns: record numbers, where each batch ends, and whose turn it is."""

    order: np.ndarray
    ends: np.ndarray
    turn: np.ndarray


def cyclic_batches(n, n_batches):
    """Batches of equal size (to within one) that have yet to be cut."""
    ends = n * np.arange(1, n_batches + 1, dtype=np.int64) // n_batches
    return CyclicBatches(np.arange(n), ends, np.full(1, -1))


@compilable
def next_batch(generator, batches):
    """The numbers of the records whose turn it is; cut the table at random before the first."""
    order, ends = batches.order, batches.ends
    if batches.turn[0] < 0:
        batches.turn[0] = 0
        for i in range(order.size - 1, 0, -1):
            j = generator.integers(0, i + 1)  # Proposition 12.
            order[i], order[j] = order[j], order[i]
        for k in range(ends.size):  # The order in which records are read fastest.
            order[(ends[k - 1] if k > 0 else 0) : ends[k]].sort()
    turn = batches.turn[0]
    batches.turn[0] = (turn + 1) % ends.size
    return order[(ends[turn - 1] if turn > 0 else 0) : ends[turn]]


def reshuffle_batches(batch):
    """Have batches that take turns cut anew before the next step (generic, compiled)."""
    raise NotImplementedError("reshuffle_batches is a generic of compiled code.")


@compiled_for(reshuffle_batches)
def _reshuffle_batches(batch):
    if isinstance(batch, types.BaseNamedTuple) and batch.instance_class is CyclicBatches:

        def forget(batch):
            batch.turn[0] = -1

        return forget
    return lambda batch: None


def estimate_gradient(oracle, generator, theta, rate, batch, loop, gradient, prior):
    """Write the gradients of the negative log likelihood and of the prior's (generic, compiled).

    ``batch`` is what `gradient_oracle` returned with the oracle, ``loop`` as in `gradient_sum`.
    """
    raise NotImplementedError("estimate_gradient is a generic of compiled code.")


@compiled_for(estimate_gradient)
def _estimate_gradient(oracle, generator, theta, rate, batch, loop, gradient, prior):
    def full(oracle, generator, theta, rate, batch, loop, gradient, prior):
        gradient_sum(oracle, theta, None, oracle.n_examples, loop, gradient, prior)

    def poisson(oracle, generator, theta, rate, batch, loop, gradient, prior):
        count = poisson_batch(generator, oracle.n_examples, rate, batch)  # Proposition 7.
        gradient_sum(oracle, theta, batch, count, loop, gradient, prior)
        for j in range(gradient.size):
            gradient[j] /= rate

    def shuffled(oracle, generator, theta, rate, batch, loop, gradient, prior):
        members, count = batch.members, oracle.n_examples
        if rate < 1.0:
            count = poisson_batch(generator, count, rate, members)  # Proposition 7.
        else:
            for i in range(count):
                members[i] = i
        shuffle(generator, members, count)  # Proposition 31.
        gradient_sum(oracle, theta, members, count, loop, gradient, prior)
        for j in range(gradient.size):
            gradient[j] /= rate

    def cyclic(oracle, generator, theta, rate, batch, loop, gradient, prior):
        selected = next_batch(generator, batch)  # Proposition 12.
        gradient_sum(oracle, theta, selected, selected.size, loop, gradient, prior)
        for j in range(gradient.size):
            gradient[j] /= rate

    if isinstance(batch, types.NoneType):
        return full
    if isinstance(batch, types.BaseNamedTuple):
        return cyclic if batch.instance_class is CyclicBatches else shuffled
    return poisson


# Differences of losses over the table, or of records by their numbers, and the prior's potential.
#
#     u_i = (ell_i(theta) - ell_i(theta')) / tau,   confined to [-a, a]
#
# Of a whole table their sum is formed in chunks, added up in order.


# Records whose losses are computed at once.
LOSS_CHUNK = 256

_LOSS_VECTOR = types.float64[::1]


class LossOracle(NamedTuple):
    """A target's losses and its prior, as cores know them: see `loss_oracle`.

    Attributes
    ----------
    memory : ndarray of uint8
        The target, as compiled code has it; keeps it alive.
    target : int
        Its address.
    sums, differences, potential : int
        Addresses of entries; one of the first two is not needed, and zero.
    n_examples : int
    """

    memory: np.ndarray
    target: int
    sums: int
    differences: int
    potential: int
    n_examples: int


class _LossSums(NamedTuple):
    theta: np.ndarray
    proposal: np.ndarray
    temperature: float
    bound: float
    chunks: np.ndarray


class _Differences(NamedTuple):
    theta: np.ndarray
    proposal: np.ndarray
    members: np.ndarray
    size: int
    out: np.ndarray


class _Potential(NamedTuple):
    theta: np.ndarray
    out: np.ndarray


@compilable
def clip_loss(value, bound):
    """The value, clipped to the bound on either side; 0 if it is not a number."""
    if value != value:
        return 0.0
    return min(max(value, -bound), bound)


@Entry(_LossSums, [_LOSS_VECTOR, _LOSS_VECTOR, types.float64, types.float64, _LOSS_VECTOR])
def _sums(target, job, chunk):
    target, job = tuple_at(target), tuple_at(job)
    n = n_examples(target)
    start, stop = n * chunk // job.chunks.size, n * (chunk + 1) // job.chunks.size
    differences = np.empty(LOSS_CHUNK)
    total = 0.0
    for first in range(start, stop, LOSS_CHUNK):
        size = min(LOSS_CHUNK, stop - first)
        loss_differences(target, job.theta, job.proposal, first, size, differences)
        for i in range(size):
            total += clip_loss(differences[i] / job.temperature, job.bound)
    job.chunks[chunk] = total
    return 1


@Entry(_Differences, [_LOSS_VECTOR, _LOSS_VECTOR, types.int64[::1], types.int64, _LOSS_VECTOR])
def _differences(target, job, chunk):
    job = tuple_at(job)
    loss_differences(tuple_at(target), job.theta, job.proposal, job.members, job.size, job.out)
    return 1


@Entry(_Potential, [_LOSS_VECTOR, _LOSS_VECTOR])
def _potential(target, job, chunk):
    job = tuple_at(job)
    job.out[0] = prior_potential(tuple_at(target), job.theta)
    return 1


def loss_oracle(target, by_numbers):
    """The compiled functions and arrays that a core needs for a target's losses.

    Parameters
    ----------
    target : NamedTuple
    by_numbers : bool
        Whether records are asked for by their numbers, instead of the whole table.

    Returns
    -------
    oracle : LossOracle
        For cores in the place of the target.
    """
    memory, n = compiled_layout(target)
    return LossOracle(
        memory,
        memory.ctypes.data,
        0 if by_numbers else _sums.address(target),
        _differences.address(target) if by_numbers else 0,
        _potential.address(target),
        n,
    )


@implements(n_examples, LossOracle)
def _count_losses(oracle):
    return oracle.n_examples


@implements(prior_potential, LossOracle)
def _potential_of_oracle(oracle, theta):
    out = np.empty(1)
    do_chunks(
        oracle.potential, oracle.target, address_of(_Potential(theta, out)), ONE_CHUNK, NO_LOOP
    )
    return out[0]


@implements(loss_differences, LossOracle)
def _differences_of_oracle(oracle, theta, proposal, members, count, out):
    job = address_of(_Differences(theta, proposal, members, count, out))
    do_chunks(oracle.differences, oracle.target, job, ONE_CHUNK, NO_LOOP)


@compilable
def log_ratio_of_all(oracle, theta, proposal, temperature, bound, chunks, loop):
    """``sum_i u_i`` over the whole table, on several cores if ``loop`` is an address."""
    job = address_of(_LossSums(theta, proposal, temperature, bound, chunks))
    do_chunks(oracle.sums, oracle.target, job, chunks.size, loop)
    total = 0.0
    for chunk in range(chunks.size):
        total += chunks[chunk]
    return total


@CompiledCore
def _potential_at(oracle, theta):
    return prior_potential(oracle, theta)


def potential_at(target, theta):
    """``-log p(theta)`` up to a constant."""
    memory, n = compiled_layout(target)
    oracle = LossOracle(memory, memory.ctypes.data, 0, 0, _potential.address(target), n)
    return _potential_at(oracle, theta)
