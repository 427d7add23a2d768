"""Compiled functions, cached on disk if there is a folder to write to."""

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload, register_jitable

WORD = ir.IntType(64)

# Divisions by zero give infinities, as in NumPy. Functions called only by compiled code need no wrapper for
# callers of C or Python.
_INNER = {"error_model": "numpy", "no_cfunc_wrapper": True, "no_cpython_wrapper": True}


def compiled(function=None, **options):
    """Compile a function at its first call, and cache the result on disk if possible."""
    if function is None:
        return lambda function: compiled(function, **options)
    options = {"error_model": "numpy", "nogil": True, **options}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # There is no folder that numba may write to.
        return njit(**options)(function)


def compilable(function=None, **options):
    """Make a function callable from compiled code; Python still calls the original."""
    if function is None:
        return lambda function: compilable(function, **options)
    return register_jitable(**_INNER, **options)(function)


def compiled_for(generic, **options):
    """Make compiled code call, instead of a generic, what the decorated function returns for the types."""
    return overload(generic, jit_options={**_INNER, **options})


@intrinsic
def call_address(typing_context, address, arguments):
    """Call the function at an address, whose arguments and result are integers."""

    def generate(context, builder, signature, values):
        function = ir.FunctionType(WORD, [WORD] * arguments.count)
        words = cgutils.unpack_tuple(builder, values[1])
        return builder.call(builder.inttoptr(values[0], function.as_pointer()), words)

    return types.int64(types.int64, types.UniTuple(types.int64, arguments.count)), generate


def _part_of(vector, n_dimensions):
    """(numba's type of a part of a vector, a function that generates it from where it begins)."""
    kind = types.Array(vector.dtype, n_dimensions, "C", readonly=not vector.mutable)

    def generate(context, builder, signature, values):
        from numba.np.arrayobj import populate_array

        parent = context.make_array(vector)(context, builder, values[0])
        part = context.make_array(kind)(context, builder)
        size = context.get_constant(types.intp, context.get_abi_sizeof(parent.data.type.pointee))
        strides = [size] if n_dimensions == 1 else [builder.mul(values[-1], size), size]
        data = builder.gep(parent.data, [values[1]])
        populate_array(part, data, values[2:], strides, size, None)
        return part._getvalue()

    return kind, generate


@intrinsic
def vector_at(typing_context, vector, first, size):
    """A part of a vector, which does not keep the vector alive.

    A slice does, and checks its bounds, by some hundred lines of machine code for every use.
    """
    kind, generate = _part_of(vector, 1)
    return kind(vector, types.intp, types.intp), generate


@intrinsic
def matrix_at(typing_context, vector, first, n_rows, n_columns):
    """A part of a vector as a matrix, which does not keep the vector alive."""
    kind, generate = _part_of(vector, 2)
    return kind(vector, types.intp, types.intp, types.intp), generate
