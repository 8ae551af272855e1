"""A compiled loop on a team of OpenMP threads, without the interpreter.

Threads that call compiled loops from Python wait for each other's turn in the interpreter to begin and to end: 40 to 60
microseconds a loop on two cores. Here the threads run a function that is compiled with the loop, so they need none.
"""

from types import FunctionType
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

_SYMBOL = "GOMP_parallel"
_launchers: dict[Any, Any] = {}


def run_in_team(openmp: int, kernel: Any, parts: int, n_rows: int, multiple: int, *arguments: Any) -> None:
    """Call ``kernel(start, stop, *arguments)`` for so many ranges of rows, each on a thread of its own.

    Args:
        openmp: address of ``GOMP_parallel`` of the library whose threads are used.
        kernel: a loop compiled by numba without the interpreter's lock; what it returns is lost.
        parts: number of ranges, and of threads at most.
        n_rows: how many rows the ranges cover.
        multiple: of which each range starts at one.
        arguments: of the loop.
    """
    if kernel not in _launchers:
        llvmlite.binding.add_symbol(_SYMBOL, openmp)
        # A function of its own for each loop, with a name and a file by which numba finds it in its cache.
        code = _launch.__code__.replace(co_filename=kernel.py_func.__code__.co_filename)
        function = FunctionType(code, {"_in_parallel": _in_parallel, "kernel": kernel, "__name__": kernel.__module__})
        function.__qualname__, function.__module__ = f"{kernel.__name__}_in_team", kernel.__module__
        _launchers[kernel] = njit(nogil=True, cache=True, error_model="numpy")(function)
    _launchers[kernel](parts, n_rows, multiple, *arguments)


def _launch(parts, n_rows, multiple, *arguments):  # type: ignore[no-untyped-def]
    _in_parallel(kernel, parts, n_rows, multiple, arguments)  # type: ignore[name-defined, call-arg]  # noqa: F821


@intrinsic
def _in_parallel(_typing: Any, kernel: Any, parts: Any, n_rows: Any, multiple: Any, arguments: Any) -> Any:
    """Have numba compile ``_call_in_parallel``."""
    return types.void(kernel, types.intp, types.intp, types.intp, arguments), _call_in_parallel


def _call_in_parallel(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    """Emit a call of ``GOMP_parallel(member, &shared, parts, 0)``, shared being the next part and the values."""
    kernel, *_, arguments = signature.args
    _, parts, *_ = values
    next_part = ir.Constant(context.get_value_type(types.intp), 0)
    shared = cgutils.alloca_once_value(builder, cgutils.pack_struct(builder, [next_part, *values[1:]]))
    member = _emit_member(context, builder.module, kernel, arguments, shared.type)
    number, pointer = ir.IntType(32), cgutils.voidptr_t
    parallel = ir.FunctionType(ir.VoidType(), [member.type, pointer, number, number])
    builder.call(
        cgutils.get_or_insert_function(builder.module, parallel, _SYMBOL),
        [member, builder.bitcast(shared, pointer), builder.trunc(parts, number), ir.Constant(number, 0)],
    )
    return context.get_dummy_value()


def _emit_member(context: Any, module: Any, kernel: Any, arguments: Any, shared: Any) -> Any:
    """Emit what each thread runs: while parts are left, take the next and call the loop on its rows.

    The team may be smaller than asked for: inside another parallel region it is one thread.
    """
    member = ir.Function(module, ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t]), module.get_unique_name("member"))
    member.linkage = "internal"
    call = kernel.get_call_type(context.typing_context, (types.intp, types.intp, *arguments.types), {})
    compiled = kernel.dispatcher.get_compile_result(call)
    context.active_code_library.add_linking_library(compiled.library)

    builder = ir.IRBuilder(member.append_basic_block())
    take, work, end = (member.append_basic_block() for _ in range(3))
    data = builder.bitcast(member.args[0], shared)
    _, parts, n_rows, multiple, packed = cgutils.unpack_tuple(builder, builder.load(data), 5)
    builder.branch(take)

    builder.position_at_end(take)
    one = ir.Constant(parts.type, 1)
    part = builder.atomic_rmw("add", cgutils.gep_inbounds(builder, data, 0, 0), one, "monotonic")
    builder.cbranch(builder.icmp_signed("<", part, parts), work, end)

    def bound(part: Any) -> Any:
        equal_shares = builder.sdiv(builder.mul(n_rows, part), parts)
        below = builder.mul(builder.sdiv(equal_shares, multiple), multiple)
        return builder.select(builder.icmp_signed("==", part, parts), n_rows, below)

    builder.position_at_end(work)
    limits = bound(part), bound(builder.add(part, one))
    each = cgutils.unpack_tuple(builder, packed, len(arguments))
    context.call_internal_no_propagate(builder, compiled.fndesc, compiled.signature, [*limits, *each])
    builder.branch(take)

    builder.position_at_end(end)
    builder.ret_void()
    return member
