"""Cores, and functions of a target that are compiled once and reached by their addresses.

    1 = entry(address of the target, address of the job, number of a chunk)

numba compiles whatever a function calls into it once more: a core that called a gradient by name would hold a
copy of it, and a second copy to run on several cores, and would be compiled anew for every kind of target. An
entry is compiled once for a kind of target, and cores call it through a pointer without knowing that kind. A
job is a named tuple of numbers and arrays, which include those that results are written to. Its chunks are
shared out among several cores by one loop, compiled once for all entries.

An address keeps nothing alive: a target lives as long as the memory of `laid_out`, and a job as long as its
caller holds it.
"""

import ast
import ctypes
import hashlib
import sys
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit, prange, typeof, types
from numba.core import cgutils
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.ccallback import CFunc
from numba.core.errors import TypingError
from numba.core.registry import cpu_target
from numba.core.sigutils import normalize_signature
from numba.extending import intrinsic

from ..._compiled import WORD, call_address, compilable
from ...targets import n_examples

_OPTIONS: dict[str, Any] = {"error_model": "numpy"}
_CORE: dict[str, Any] = {**_OPTIONS, "nogil": True, "no_cfunc_wrapper": True}
_ROOT = Path(__file__).parents[2]
_PACKAGE = __name__.partition(".")[0]


def _sources(root):
    """Return the files that end up in compiled cores."""
    # Compiled code takes constants from one module of `privacy`.
    files = [root / "_compiled.py", root / "privacy" / "floating_point.py"]
    for folder in ("samplers", "targets"):
        files += sorted((root / folder).rglob("*.py"))
    return files


def _hash(texts):
    digest = hashlib.sha256()
    for text in texts:
        digest.update(hashlib.sha256(text).digest())
    return digest.hexdigest()[:16]


_FILES = _sources(_ROOT)
_AS_IMPORTED = _hash(path.read_bytes() for path in _FILES)


@cache
def _fingerprint():
    """Return a hash of the code that ends up in compiled cores."""
    # Parsing takes a tenth of a process's first fit, so the hash is kept for sources with the same bytes.
    name = f"sources-{_AS_IMPORTED}.{sys.implementation.cache_tag}"
    kept = IndexDataCacheFile(FunctionCache(_sources).cache_path, name, _AS_IMPORTED)
    found = kept.load("code")
    if found is None:
        found = _hash_of_code(_ROOT, _AS_IMPORTED)
        with suppress(OSError):
            kept.save("code", found)
    return found


def _hash_of_code(root, as_imported):
    """Return a hash of what files say to Python, and of where they are.

    If they have changed since the package was imported, the hash of what was imported stands for it.
    """
    paths = _sources(root)
    texts = [path.read_bytes() for path in paths]
    if _hash(texts) != as_imported:
        return as_imported
    names = (path.relative_to(root).as_posix() for path in paths)
    return _hash(f"{name} {_code(text)}".encode() for name, text in zip(names, texts, strict=True))


def _code(text):
    """Return a module's syntax tree without docstrings, written out without the places of its lines."""
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
        """Return its address for targets of this kind; compile it if necessary."""
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
    """Return the address of a job, which is good until the calling function returns."""
    expected = Entry.jobs[job.instance_class]
    if job != expected:
        raise TypingError(f"an entry takes {expected}, not {job}.")

    def generate(context, builder, signature, values):
        place = cgutils.alloca_once(builder, context.get_data_type(job))
        context.pack_value(builder, job, values[0], place)
        return builder.ptrtoint(place, WORD)

    return types.int64(job), generate


@intrinsic
def at(typing_context, pointer):
    """Return the tuple that a pointer points to; its arrays count no references."""

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


def laid_out(target):
    """Return (a target as compiled code has it in memory, its number of records)."""
    context = cpu_target.target_context
    size = context.get_abi_sizeof(context.get_data_type(typeof(target)))
    buffer = (ctypes.c_char * size)()
    buffer.target = target  # Whose arrays live as long as the memory.
    memory = np.frombuffer(buffer, np.uint8)
    return memory, _lay_out(target, memory.ctypes.data)


def cache_folder() -> str | None:
    """Return the folder that holds compiled code, or None if there is none.

    numba creates a folder in it for each folder of sources.
    """
    path = getattr(_lay_out._cached.stats, "cache_path", None)
    if path is None:
        return None
    path = Path(path)
    # Beside the sources it is the package, whose folders have one of their own each.
    return str(Path(__file__).parents[2] if path.name == "__pycache__" else path.parent)


def count_examples(target):
    """Return a target's number of records."""
    return laid_out(target)[1]


_loops: list[CFunc] = []


def _each_chunk(entry, target, job, n_chunks):
    done = 0
    for chunk in prange(n_chunks):
        done += call_address(entry, (target, job, np.int64(chunk)))
    return done


def several_cores():
    """Return the address of the loop over chunks on several cores."""
    if not _loops:
        signature = types.int64(*[types.int64] * 4)
        _loops.append(_compiled_callback(signature, _each_chunk, True, parallel=True))
    return _loops[0].address


# For every constant of Python's, `do_chunks` would be compiled anew.
ONE_CHUNK, NO_LOOP = np.int64(1), np.int64(0)


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
