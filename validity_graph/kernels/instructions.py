"""Processor instructions that numba does not reach by itself, as functions for compiled loops.

``prefetch`` asks for memory ahead of its use; ``stand`` and ``stand_pair`` compute the factor of one
edge and of two neighbouring edges.  Only for code that numba compiles.  Formula: SEMANTICS section 3.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_BYTE = ir.IntType(8).as_pointer()
_INT = ir.IntType(32)
#: Keep a prefetched line in the second-level cache: the first is too small for what is far ahead.
_SECOND_LEVEL = 2


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:  # noqa: ANN401, ARG001
    """``prefetch(array, index)``: start to load ``array[index]``; an index past the end does nothing."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        address = _address(context, builder, signature, arguments)
        kind = ir.FunctionType(ir.VoidType(), [_BYTE, _INT, _INT, _INT])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        # To read (0), as data (1).
        settings = [ir.Constant(_INT, value) for value in (0, _SECOND_LEVEL, 1)]
        builder.call(function, [builder.bitcast(address, _BYTE), *settings])
        return context.get_dummy_value()

    return types.void(array, index), build


@intrinsic  # type: ignore[untyped-decorator]
def stand(typing_context: Any, weight: Any, index: Any, value: Any) -> Any:  # noqa: ANN401, ARG001
    """``stand(weight, index, value)`` is ``1 - weight[index] * value`` in float64, rounded at most twice."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        address = _address(context, builder, signature, arguments)
        return _factor(builder, builder.load(address), arguments[2], ir.DoubleType())

    return types.float64(weight, index, value), build


@intrinsic  # type: ignore[untyped-decorator]
def stand_pair(typing_context: Any, weight: Any, index: Any, value: Any, after: Any) -> Any:  # noqa: ANN401, ARG001
    """``stand(weight, index, value) * stand(weight, index + 1, after)``, both at once."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        address = _address(context, builder, signature, arguments)
        pair = ir.VectorType(address.type.pointee, 2)
        weights = builder.load(builder.bitcast(address, pair.as_pointer()))
        weights.align = context.get_abi_sizeof(address.type.pointee)
        places = [ir.Constant(_INT, i) for i in range(2)]
        values = ir.Constant(ir.VectorType(arguments[2].type, 2), ir.Undefined)
        for place, argument in zip(places, arguments[2:], strict=True):
            values = builder.insert_element(values, argument, place)
        factors = _factor(builder, weights, values, ir.VectorType(ir.DoubleType(), 2))
        return builder.fmul(*(builder.extract_element(factors, place) for place in places))

    return types.float64(weight, index, value, after), build


def _address(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
    """Address of element ``arguments[1]`` of the array ``arguments[0]``."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.gep(array.data, [arguments[1]])


def _factor(builder: Any, weight: Any, value: Any, double: Any) -> Any:  # noqa: ANN401
    """``1 - weight * value``, widened to ``double`` first; one fused instruction where there is one."""
    if weight.type != double:
        weight = builder.fpext(weight, double)
    if value.type != double:
        value = builder.fpext(value, double)
    one = ir.Constant(double, [1.0, 1.0] if isinstance(double, ir.VectorType) else 1.0)
    product = builder.fmul(weight, value, flags=["contract"])
    return builder.fsub(one, product, flags=["contract"])
