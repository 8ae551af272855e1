"""Compiled code that calls a compiled loop over rows for several ranges, on OpenMP's threads.

No thread but the caller meets the interpreter, for whose lock they would sleep: with a callback in Python a small loop
took 22 microseconds on two threads, so it takes 4.
"""

# mypy: disable-error-code="no-untyped-def"

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from angpn.kernels.openmp import ADDRESSES

_INT, _LONG = ir.IntType(32), ir.IntType(64)
_ANY = ir.IntType(8).as_pointer()
# void member(data) is what a thread of a team runs; void parallel(member, data, n_threads, flags) runs it on all.
_MEMBER = ir.FunctionType(ir.VoidType(), [_ANY])
_FUNCTIONS = {
    "GOMP_parallel": ir.FunctionType(ir.VoidType(), [_MEMBER.as_pointer(), _ANY, _INT, _INT]),
    "omp_get_thread_num": ir.FunctionType(_INT, []),
    "omp_get_num_threads": ir.FunctionType(_INT, []),
}
for _name in _FUNCTIONS:  # compiled code is linked to these, also where it never calls them since there is no OpenMP
    llvmlite.binding.add_symbol(f"angpn_{_name}", ADDRESSES.get(_name, 1))


@cache
def in_ranges(loop: Any) -> Callable[..., bool]:
    """Return the compiled function of bounds (k + 1,) and a tuple of arguments that runs ``loop`` on k threads.

    It calls ``loop(start, stop, *arguments)`` for each range between two bounds, and returns whether one failed for
    want of memory. A thread has the same range each time, whose rows its caches may hold.

    The references to arrays are not counted inside. Counts are atomic: one takes longer than a loop over fifty numbers,
    and threads that take rows of the same array would wait for each other.
    """
    name, code = f"{loop.__name__}_in_ranges", loop.py_func.__code__
    # numba finds compiled code again by file, line and name, but not that of a function inside another. It looks for
    # changes in the file of the loop alone: after a change of this file, empty its cache.
    code = _template.__code__.replace(
        co_name=name, co_qualname=name, co_filename=code.co_filename, co_firstlineno=code.co_firstlineno
    )
    run = FunctionType(code, {"__name__": loop.__module__, "_run": _run, "_loop": loop}, name)
    compile_it: Any = njit(nogil=True, cache=loop.stats.cache_path is not None)
    compiled: Callable[..., bool] = compile_it(run)
    return compiled


def _template(bounds, arguments):
    return _run(_loop, bounds, arguments)  # noqa: F821 - its globals are set above


_loop: Any


def _run_ranges(_, loop, bounds, arguments):
    kinds = types.int64, types.int64, *arguments.types

    def generate(context, builder, signature, values):
        loop.dispatcher.compile(kinds)
        compiled = loop.dispatcher.overloads[kinds]
        context.active_code_library.add_linking_library(compiled.library)
        limits = context.make_array(bounds)(context, builder, values[1])
        n_ranges = builder.sub(cgutils.unpack_tuple(builder, limits.shape)[0], _LONG(1))
        passed = [
            _uncounted(context, builder, kind, value)
            for kind, value in zip(arguments.types, cgutils.unpack_tuple(builder, values[2]), strict=True)
        ]
        task = cgutils.pack_struct(builder, [n_ranges, limits.data, cgutils.false_byte, *passed])
        shared = cgutils.alloca_once_value(builder, task)

        def run_range(builder, shared, part):
            """Run the loop between two bounds."""
            _, data, _, *passed = (
                builder.load(cgutils.gep_inbounds(builder, shared, 0, k)) for k in range(len(kinds) + 1)
            )
            start, stop = (builder.load(builder.gep(data, [place])) for place in (part, builder.add(part, _LONG(1))))
            arguments = [start, stop, *passed]
            status, _ = context.call_internal_no_propagate(builder, compiled.fndesc, compiled.signature, arguments)
            with builder.if_then(status.is_error):
                builder.store(cgutils.true_byte, cgutils.gep_inbounds(builder, shared, 0, 2))

        with builder.if_else(builder.icmp_signed("==", n_ranges, _LONG(1))) as (alone, together):
            with alone:
                run_range(builder, shared, _LONG(0))
            with together:
                member = _member(builder.module, shared.type, run_range)
                data, n_threads = builder.bitcast(shared, _ANY), builder.trunc(n_ranges, _INT)
                _call(builder, "GOMP_parallel", member, data, n_threads, _INT(0))
        failed = builder.load(cgutils.gep_inbounds(builder, shared, 0, 2))
        return builder.icmp_unsigned("!=", failed, cgutils.false_byte)

    return types.boolean(loop, bounds, arguments), generate


_run: Any = intrinsic(_run_ranges)


def _member(module, kind, run_range):
    """Return the function that a thread of a team runs: its range, and those of threads that are missing.

    Inside another parallel region a team is one thread.
    """
    member = ir.Function(module, _MEMBER, module.get_unique_name("member"))
    member.linkage = "internal"
    builder = ir.IRBuilder(member.append_basic_block())
    shared = builder.bitcast(member.args[0], kind)
    n_ranges = builder.load(cgutils.gep_inbounds(builder, shared, 0, 0))
    number, size = (builder.sext(_call(builder, name), _LONG) for name in ("omp_get_thread_num", "omp_get_num_threads"))
    with cgutils.for_range_slice(builder, number, n_ranges, size) as (part, _):
        run_range(builder, shared, part)
    builder.ret_void()
    return member


def _call(builder, name, *arguments):
    function = cgutils.get_or_insert_function(builder.module, _FUNCTIONS[name], f"angpn_{name}")
    return builder.call(function, arguments)


def _uncounted(context, builder, kind, value):
    """Return an array whose references are not counted; the caller of the loop holds it. Other values stay."""
    if not isinstance(kind, types.Array):
        return value
    array = context.make_array(kind)(context, builder, value)
    array.meminfo = cgutils.get_null_value(array.meminfo.type)
    return array._getvalue()
