"""Bytes and numbers at addresses, inside of compiled kernels: single ones, and 32 bytes at a time.

Kernels pass addresses, not arrays: a dozen arrays passed from function to function cost more than all that is done
with them, to run and to compile. Every buffer has PAD bytes more than it holds, so that no step of 32 needs to look
at the end. Whoever calls a kernel keeps the arrays alive.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
import pyarrow as pa
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

from tasks.normalize.columnar.compiled import forget_stale

F = TypeVar("F", bound=Callable[..., object])
Array = np.ndarray[Any, Any]

PAD = 64
_BYTE, _LONG, _MASK = ir.IntType(8), ir.IntType(64), ir.IntType(32)
_WIDE = ir.VectorType(_BYTE, 32)
_INT = numba.types.int64


def kernel(function: F) -> F:
    """`function` compiled once and cached on disk; it releases the GIL."""
    forget_stale()
    try:
        return cast(F, numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:
        # Neither the package's folder nor the user's cache can be written.
        return cast(F, numba.njit(nogil=True)(function))


def inner(function: F) -> F:
    """`function` compiled for other kernels only: a door to Python would take longer to compile than the rest."""
    return cast(F, numba.njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function))


def _intrinsic(function: Callable[..., Any]) -> Callable[..., int]:
    return cast(Callable[..., int], intrinsic(function))


def _pointer(builder: Any, address: Any, kind: Any) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


def _every(byte: int) -> Any:
    return ir.Constant(_WIDE, [byte] * 32)


@_intrinsic
def peek(typing: Any, address: Any) -> Any:
    """The byte at an address, as a number."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.zext(builder.load(_pointer(builder, args[0], _BYTE)), _LONG)

    return _INT(_INT), code


@_intrinsic
def poke(typing: Any, address: Any, byte: Any) -> Any:
    """Writes a byte; gives the address after it."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(builder.trunc(args[1], _BYTE), _pointer(builder, args[0], _BYTE))
        return builder.add(args[0], ir.Constant(_LONG, 1))

    return _INT(_INT, _INT), code


@_intrinsic
def get(typing: Any, table: Any, place: Any) -> Any:
    """The number (int64) at a place of a table."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.gep(_pointer(builder, args[0], _LONG), [args[1]]))

    return _INT(_INT, _INT), code


@_intrinsic
def put(typing: Any, table: Any, place: Any, value: Any) -> Any:
    """Writes a number (int64) at a place of a table."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], builder.gep(_pointer(builder, args[0], _LONG), [args[1]]))
        return context.get_dummy_value()

    return numba.types.void(_INT, _INT, _INT), code


@_intrinsic
def quoting(typing: Any, address: Any) -> Any:
    """A bit for each of the 32 bytes at `address` that JSON strings must escape: quote, backslash, control."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = builder.load(_pointer(builder, args[0], _WIDE), align=1)
        quote = builder.icmp_unsigned("==", found, _every(34))
        slash = builder.icmp_unsigned("==", found, _every(92))
        control = builder.icmp_unsigned("<", found, _every(32))
        mask = builder.bitcast(builder.or_(builder.or_(quote, slash), control), _MASK)
        return builder.zext(mask, _LONG)

    return _INT(_INT), code


@_intrinsic
def equal(typing: Any, address: Any, byte: Any) -> Any:
    """A bit for each of the 32 bytes at `address` that is `byte`."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = builder.load(_pointer(builder, args[0], _WIDE), align=1)
        nothing, first = ir.Constant(_WIDE, ir.Undefined), ir.Constant(_MASK, 0)
        lane = builder.insert_element(nothing, builder.trunc(args[1], _BYTE), first)
        wanted = builder.shuffle_vector(lane, nothing, ir.Constant(ir.VectorType(_MASK, 32), [0] * 32))
        return builder.zext(builder.bitcast(builder.icmp_unsigned("==", found, wanted), _MASK), _LONG)

    return _INT(_INT, _INT), code


@_intrinsic
def move(typing: Any, to: Any, address: Any) -> Any:
    """Copies the 32 bytes at `address`."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = builder.load(_pointer(builder, args[1], _WIDE), align=1)
        builder.store(found, _pointer(builder, args[0], _WIDE), align=1)
        return context.get_dummy_value()

    return numba.types.void(_INT, _INT), code


@_intrinsic
def lowest(typing: Any, mask: Any) -> Any:
    """The place of the lowest bit of a mask that is not 0."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], cgutils.true_bit)

    return _INT(_INT), code


@_intrinsic
def count_bits(typing: Any, mask: Any) -> Any:
    """How many bits of a mask are set."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return _INT(_INT), code


@inner
def copy(to: int, start: int, end: int) -> int:
    """Copies the bytes from `start` to `end`; gives the address after the copy."""
    after = to + end - start
    while start < end:
        move(to, start)
        start += 32
        to += 32
    return after


def address(array: Array) -> int:
    """Where the elements of an array, side by side, begin."""
    # A sixth of the time of `array.ctypes.data`; kernels are called a dozen times a megabyte.
    return int(pa.py_buffer(array).address)
