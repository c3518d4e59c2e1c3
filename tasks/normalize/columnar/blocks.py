"""Unescaping 64 bytes at a time, where the processor can push the kept bytes of a block together (AVX-512 VBMI2).

Which bytes are escaped is found for the whole block by arithmetic on bit masks, as simdjson does it (Langdale, Lemire:
Parsing gigabytes of JSON per second, 2019). Text of agents has an escape every 25 bytes: one after the other, each
waits for the one before.
"""

from collections.abc import Callable
from typing import Any, cast

import numba
from llvmlite import ir
from numba.core import cgutils, codegen
from numba.extending import intrinsic

_BYTE, _LONG = ir.IntType(8), ir.IntType(64)
_BLOCK, _FLAGS = ir.VectorType(_BYTE, 64), ir.VectorType(ir.IntType(1), 64)
_SHORT = {"n": 10, "t": 9, "r": 13, "b": 8, "f": 12}
_ODD = 0xAAAAAAAAAAAAAAAA


def _intrinsic(function: Callable[..., Any]) -> Callable[[int, int, int], tuple[int, int]]:
    return cast(Callable[[int, int, int], tuple[int, int]], intrinsic(function))


def has_blocks() -> bool:
    """Whether this processor has what `unescape_block` needs."""
    features: str = numba.config.CPU_FEATURES or codegen.get_host_cpu_features()
    return {"+avx512vbmi2", "+avx512bw"} <= set(features.split(","))


@_intrinsic
def unescape_block(typing: Any, at: Any, to: Any, carry: Any) -> Any:
    """Unescapes 64 bytes of a JSON string: masks of where something else stands, and of the escaping backslashes.

    Something else: a quote that ends the string, a control character, or what follows a backslash and is no short
    escape; bytes written from there on mean nothing. carry: 1 when the last byte before was an escaping backslash.
    64 bytes can be read from `at` on, and be written from `to` on.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        text = builder.load(builder.inttoptr(args[0], _BLOCK.as_pointer()), align=1)
        slash, quote, solidus = (_bits(builder, _is(builder, text, byte)) for byte in b'\\"/')
        control = _bits(builder, builder.icmp_unsigned("<", text, _every(32)))
        letters = {byte: _is(builder, text, ord(letter)) for letter, byte in _SHORT.items()}
        # A run of backslashes carries through the subtraction: its first escapes, its second is escaped, and so on.
        first = builder.and_(slash, builder.not_(args[2]))
        shifted = builder.or_(builder.shl(first, _number(1)), _number(_ODD))
        either = builder.xor(builder.sub(shifted, first), _number(_ODD))
        escaping, escaped = builder.and_(either, slash), builder.xor(either, builder.or_(slash, args[2]))
        known = builder.or_(builder.or_(slash, quote), solidus)
        for flags in letters.values():
            known = builder.or_(known, _bits(builder, flags))
        ends = builder.and_(quote, builder.not_(escaped))
        stops = builder.or_(builder.or_(ends, control), builder.and_(escaped, builder.not_(known)))
        meant, wide = text, builder.bitcast(escaped, _FLAGS)
        for byte, flags in letters.items():
            meant = builder.select(builder.and_(wide, flags), _every(byte), meant)
        kind = ir.FunctionType(_BLOCK, [_BLOCK, _BLOCK, _FLAGS])
        pack = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx512.mask.compress.v64i8")
        kept = builder.bitcast(builder.not_(escaping), _FLAGS)
        packed = builder.call(pack, [meant, _every(0), kept])
        builder.store(packed, builder.inttoptr(args[1], _BLOCK.as_pointer()), align=1)
        return context.make_tuple(builder, signature.return_type, [stops, escaping])

    integer = numba.types.int64
    return numba.types.UniTuple(integer, 2)(integer, integer, integer), code


def _number(value: int) -> Any:
    return ir.Constant(_LONG, value)


def _every(byte: int) -> Any:
    return ir.Constant(_BLOCK, [byte] * 64)


def _is(builder: Any, text: Any, byte: int) -> Any:
    return builder.icmp_unsigned("==", text, _every(byte))


def _bits(builder: Any, flags: Any) -> Any:
    return builder.bitcast(flags, _LONG)
