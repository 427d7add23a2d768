"""Compiled functions, cached on disk if there is a folder to write to."""

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload, register_jitable

WORD = ir.IntType(64)

# Divisions by zero give infinities, as in NumPy. Functions called only by compiled code need no C wrapper.
_INNER = {"error_model": "numpy", "no_cfunc_wrapper": True}


def compiled(function):
    """Compile a function at its first call, and cache the result on disk if possible."""
    options = {"error_model": "numpy", "nogil": True}
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
