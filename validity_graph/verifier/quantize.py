"""Int8 arithmetic for an exported pair network, and 4-bit storage of the weights that it runs on.

Every product with a constant weight becomes an integer product: int8 weights with one scale per output
channel, activations in 8 bits with a range taken while running; the heads' small layers round their weights
alone.  One range per input is the fast way; the projections that contract (more inputs than outputs: the
second half of each feed-forward block) read activations with rare large values, so they take one range per
token.  A 4-bit model stores each weight in blocks of ``BLOCK`` inputs with a scale each and unpacks it to
int8 once, by constant folding, when a session opens: 4 bits on disk, the speed of int8.  Embedding tables get
a scale per row (int8) or per block (4 bits); a compact model has 4-bit tables under int8 products.  Works on
ONNX files; knows nothing of training.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from validity_graph.errors import MissingExtraError
from validity_graph.verifier import exact_products

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from onnxruntime.quantization.matmul_nbits_quantizer import (
        DefaultWeightOnlyQuantConfig,
        MatMulNBitsQuantizer,
    )
except ImportError:
    raise MissingExtraError("exporting weights", needs="onnx", extra="train") from None

#: Inputs of one output that share a scale in 4-bit storage.
BLOCK = 64
LOWEST_4_BITS, HIGHEST_4_BITS = -8, 7
#: First version of the operators in which 4-bit numbers are unpacked by blocks.
INT4_OPSET = 21
#: Embedding tables of fewer rows stay float: they are small and read everywhere.
SMALLEST_TABLE = 100
#: Part of the name of the table of tokens, which is most of a small network.
WORDS = "word_embeddings"
#: Names of the constants that every integer product shares.
_CONSTANTS = {
    "int8_top": np.array(127, np.float32),
    "int8_smallest": np.array(1e-12, np.float32),
    "int8_middle": np.array(128.5, np.float32),
    "int8_zero": np.array(128, np.uint8),
    "int8_last_axis": np.array([-1], np.int64),
    "int8_one": np.array(1, np.float32),
    "int8_origin": np.array(0, np.int8),
}
Array = NDArray[np.float32]


def quantize_int8(source: str | Path, output: str | Path) -> None:
    """Write the float ONNX file ``source`` with int8 weights to ``output``."""
    model = onnx.load(str(source))
    quantize_tables(model)
    quantize_products(model, pack=False)
    onnx.save(model, str(output))


def quantize_compact(source: str | Path, output: str | Path) -> None:
    """Write the float ONNX file ``source`` with int8 weights and 4-bit embeddings to ``output``."""
    whole = onnx.load(str(source))
    # Reading 4-bit rows is slow enough to count, so the tables that take little room stay out of it.
    small = [n.name for n in whole.graph.node if n.op_type == "Gather" and WORDS not in n.input[0]]
    model = _with_int4_tables(source, but=small)
    quantize_tables(model)
    _at_least(model, INT4_OPSET)
    quantize_products(model, pack=False)
    onnx.save(model, str(output))


def quantize_int4(source: str | Path, output: str | Path) -> None:
    """Write the float ONNX file ``source`` with 4-bit weights and embeddings to ``output``."""
    model = _with_int4_tables(source)
    quantize_products(model, pack=True)
    onnx.save(model, str(output))


def _with_int4_tables(source: str | Path, *, but: Sequence[str] = ()) -> onnx.ModelProto:
    """Load ``source`` with 4-bit embedding tables, except for the look-ups named in ``but``."""
    blocks = DefaultWeightOnlyQuantConfig(
        block_size=BLOCK,
        is_symmetric=True,
        bits=4,
        op_types_to_quantize=("Gather",),
        quant_axes=(("Gather", 1),),
    )
    # A block of zeros has scale 0, which the quantiser handles after dividing by it.
    with _quiet(), np.errstate(divide="ignore", invalid="ignore"):
        model = onnx.load(str(source))
        quantizer = MatMulNBitsQuantizer(model, nodes_to_exclude=list(but), algo_config=blocks)
        quantizer.process()
    found: onnx.ModelProto = quantizer.model.model
    return found


def quantize_products(model: onnx.ModelProto, *, pack: bool) -> None:
    """Replace every product with a constant weight, in place; with ``pack`` encoder weights take 4 bits."""
    graph = model.graph
    stored = {table.name: table for table in graph.initializer}
    ranges: set[str] = set()
    written: set[str] = set()
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        weight = _weight(node, stored)
        if weight is None:
            nodes.append(node)
            continue
        name, head = node.input[1], node.op_type == "Gemm"
        if name not in written:
            written.add(name)
            nodes += _packed(graph, name, weight) if pack and not head else _whole(graph, name, weight)
        contracts = weight.shape[0] > weight.shape[1]
        nodes += _head(node) if head else _product(node, ranges=ranges, by_row=contracts)
    if pack:
        _at_least(model, INT4_OPSET)
    graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in _CONSTANTS.items())
    del graph.node[:]
    graph.node.extend(nodes)
    used = set(_read_by(nodes))
    kept = [table for table in graph.initializer if table.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)


def largest_products() -> onnx.ModelProto:
    """Return the model that ``exact_products`` asks; its file is this, serialised."""
    weight = np.full((exact_products.INPUTS, 40), 127, np.int8)
    kinds = {"unsigned": TensorProto.UINT8, "signed": TensorProto.INT8}
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", [kind, "weight"], [f"{kind}_sums"]) for kind in kinds],
        "largest_products",
        [tensor(kind, number, ["rows", exact_products.INPUTS]) for kind, number in kinds.items()],
        [tensor(f"{kind}_sums", TensorProto.INT32, ["rows", 40]) for kind in kinds],
        [numpy_helper.from_array(weight, "weight")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def _at_least(model: onnx.ModelProto, version: int) -> None:
    for opset in model.opset_import:
        if opset.domain in ("", "ai.onnx"):
            opset.version = max(opset.version, version)


def _read_by(nodes: Sequence[onnx.NodeProto]) -> Iterator[str]:
    """Names that nodes read, those inside their branches too."""
    for node in nodes:
        yield from node.input
        for attribute in node.attribute:
            yield from _read_by(attribute.g.node)


def _weight(node: onnx.NodeProto, stored: dict[str, onnx.TensorProto]) -> Array | None:
    """Return the constant factor of a product, ``(inputs, outputs)``; None for every other node."""
    if node.op_type not in ("MatMul", "Gemm") or node.input[1] not in stored:
        return None
    value = np.asarray(numpy_helper.to_array(stored[node.input[1]]), dtype=np.float32)
    if value.ndim != 2:
        return None
    turned = any(a.name == "transB" and a.i for a in node.attribute)
    return value.T if turned else value


def _whole(graph: onnx.GraphProto, name: str, weight: Array) -> list[onnx.NodeProto]:
    """Store a weight as int8 with a scale per output."""
    scale = np.abs(weight).max(axis=0) / np.float32(127.0)
    scale[scale == 0.0] = 1.0
    _store(graph, f"{name}_quantized", np.rint(weight / scale).astype(np.int8))
    _store(graph, f"{name}_scale", scale)
    return []


def _packed(graph: onnx.GraphProto, name: str, weight: Array) -> list[onnx.NodeProto]:
    """Store a weight in 4 bits; returns the nodes that unpack it to int8, which are folded on opening."""
    digits, ratio, scale = int4(weight.T)
    graph.initializer.append(_nibbles(digits, f"{name}_int4"))
    _store(graph, f"{name}_half", ratio.astype(np.float16))
    _store(graph, f"{name}_scale", scale)
    return [
        helper.make_node("Cast", [f"{name}_half"], [f"{name}_ratio"], to=TensorProto.FLOAT),
        helper.make_node(
            "DequantizeLinear",
            [f"{name}_int4", f"{name}_ratio"],
            [f"{name}_spread"],
            axis=1,
            block_size=BLOCK,
        ),
        helper.make_node("QuantizeLinear", [f"{name}_spread", "int8_one", "int8_origin"], [f"{name}_rows"]),
        helper.make_node("Transpose", [f"{name}_rows"], [f"{name}_quantized"], perm=[1, 0]),
    ]


def _nibbles(digits: NDArray[np.int8], name: str) -> onnx.TensorProto:
    """Pack numbers from -8 to 7 two to a byte, the first one in the lower half."""
    flat = np.append(digits.ravel(), np.zeros(digits.size % 2, np.int8)).view(np.uint8) & 15
    tensor = TensorProto(name=name, data_type=TensorProto.INT4, dims=digits.shape)
    tensor.raw_data = (flat[0::2] | flat[1::2] << 4).tobytes()
    return tensor


def int4(rows: Array) -> tuple[NDArray[np.int8], Array, Array]:
    """Round ``rows`` ``(outputs, inputs)`` to 4 bits.

    Returns digits from -8 to 7 ``(outputs, inputs)``; the scale of each block in units of its row's int8
    scale ``(outputs, blocks)``; and the int8 scales ``(outputs,)``.  The largest magnitude of a block becomes
    -8; the last block may be shorter.
    """
    outputs, inputs = rows.shape
    blocks = np.pad(rows, ((0, 0), (0, -inputs % BLOCK))).reshape(outputs, -1, BLOCK)
    high, low = blocks.max(axis=2), blocks.min(axis=2)
    step = np.where(high > -low, high, low) / np.float32(LOWEST_4_BITS)
    safe = np.where(step == 0.0, np.float32(1.0), step)[..., None]
    digits = np.clip(np.rint(blocks / safe), LOWEST_4_BITS, HIGHEST_4_BITS)
    scale = np.abs(digits * step[..., None]).max(axis=(1, 2)) / np.float32(127.0)
    scale[scale == 0.0] = 1.0
    kept = digits.reshape(outputs, -1)[:, :inputs].astype(np.int8)
    return kept, step / scale[:, None], scale.astype(np.float32)


def _product(node: onnx.NodeProto, *, ranges: set[str], by_row: bool) -> list[onnx.NodeProto]:
    """Nodes of one integer product, named as ``node`` with ``_quant``; inputs are rounded once for all."""
    given, weight, output = node.input[0], node.input[1], node.output[0]
    name = f"{given}_{'rows' if by_row else 'all'}"
    nodes = []
    if name not in ranges:
        ranges.add(name)
        nodes += _by_row(given, name) if by_row else _by_tensor(given, name)
    zero = "int8_zero" if by_row else f"{name}_zero"
    nodes += [
        helper.make_node(
            "MatMulInteger", [f"{name}_uint8", f"{weight}_quantized", zero], [f"{output}_int32"],
            name=f"{node.name}_quant",
        ),
        helper.make_node("Cast", [f"{output}_int32"], [f"{output}_float"], to=TensorProto.FLOAT),
        *(_scaled_rows if by_row else _scaled)(output, f"{name}_scale", f"{weight}_scale"),
    ]  # fmt: skip
    return nodes


def _scaled(output: str, given: str, weight: str) -> list[onnx.NodeProto]:
    """Multiply the scales first: onnxruntime fuses this form with the product."""
    return [
        helper.make_node("Mul", [given, weight], [f"{output}_scale"]),
        helper.make_node("Mul", [f"{output}_float", f"{output}_scale"], [output]),
    ]


def _scaled_rows(output: str, given: str, weight: str) -> list[onnx.NodeProto]:
    """Multiply by one scale after the other: that fusion would take the first row's scale for all rows."""
    return [
        helper.make_node("Mul", [f"{output}_float", given], [f"{output}_scaled"]),
        helper.make_node("Mul", [f"{output}_scaled", weight], [output]),
    ]


def _head(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """Nodes of a head's layer: it reads one row of mixed ranges, so only its weight is rounded."""
    given, weight, bias = node.input
    output = node.output[0]
    return [
        helper.make_node("Cast", [f"{weight}_quantized"], [f"{weight}_float"], to=TensorProto.FLOAT),
        helper.make_node("Mul", [f"{weight}_float", f"{weight}_scale"], [f"{weight}_whole"]),
        helper.make_node(
            "MatMul", [given, f"{weight}_whole"], [f"{output}_plain"], name=f"{node.name}_quant"
        ),
        helper.make_node("Add", [f"{output}_plain", bias], [output]),
    ]


def _by_tensor(given: str, name: str) -> list[onnx.NodeProto]:
    """Round an input to 8 bits with one range."""
    outputs = [f"{name}_uint8", f"{name}_scale", f"{name}_zero"]
    return [helper.make_node("DynamicQuantizeLinear", [given], outputs)]


def _by_row(given: str, name: str) -> list[onnx.NodeProto]:
    """Round an input to 8 bits around 128, with a range per row.

    Passes over the whole input are what this costs, so the magnitude is read without writing it, and the cast
    to whole numbers, which cuts, rounds.
    """
    return [
        helper.make_node("ReduceMax", [given, "int8_last_axis"], [f"{name}_highest"], keepdims=1),
        helper.make_node("ReduceMin", [given, "int8_last_axis"], [f"{name}_lowest"], keepdims=1),
        helper.make_node("Neg", [f"{name}_lowest"], [f"{name}_deepest"]),
        helper.make_node("Max", [f"{name}_highest", f"{name}_deepest", "int8_smallest"], [f"{name}_top"]),
        helper.make_node("Div", ["int8_top", f"{name}_top"], [f"{name}_inverse"]),
        helper.make_node("Div", [f"{name}_top", "int8_top"], [f"{name}_scale"]),
        helper.make_node("Mul", [given, f"{name}_inverse"], [f"{name}_scaled"]),
        helper.make_node("Add", [f"{name}_scaled", "int8_middle"], [f"{name}_moved"]),
        helper.make_node("Cast", [f"{name}_moved"], [f"{name}_uint8"], to=TensorProto.UINT8),
    ]


def quantize_tables(model: onnx.ModelProto) -> None:
    """Give every large embedding table, in place, int8 rows and a scale per row."""
    graph = model.graph
    tables = {table.name: table for table in graph.initializer}
    nodes: list[onnx.NodeProto] = []
    done: set[str] = set()
    for node in graph.node:
        table = tables.get(node.input[0]) if node.op_type == "Gather" else None
        if table is None or len(table.dims) != 2 or table.dims[0] < SMALLEST_TABLE:
            nodes.append(node)
            continue
        if table.name not in done:
            _split(graph, table)
            done.add(table.name)
        nodes += _look_up(table.name, node.input[1], node.output[0])
    for name in done:
        graph.initializer.remove(tables[name])
    del graph.node[:]
    graph.node.extend(nodes)


def _split(graph: onnx.GraphProto, table: onnx.TensorProto) -> None:
    """Add the int8 rows and the scales of ``table`` to the graph."""
    rows = numpy_helper.to_array(table)
    scale = np.abs(rows).max(axis=1, keepdims=True) / 127.0
    scale[scale == 0.0] = 1.0
    _store(graph, f"{table.name}_int8", np.rint(rows / scale).astype(np.int8))
    _store(graph, f"{table.name}_scale", scale.astype(np.float32))


def _look_up(table: str, index: str, output: str) -> list[onnx.NodeProto]:
    """Nodes that look ``index`` up in the split table and write floats to ``output``."""
    return [
        helper.make_node("Gather", [table + "_int8", index], [output + "_int8"]),
        helper.make_node("Cast", [output + "_int8"], [output + "_float"], to=TensorProto.FLOAT),
        helper.make_node("Gather", [table + "_scale", index], [output + "_scale"]),
        helper.make_node("Mul", [output + "_float", output + "_scale"], [output]),
    ]


def _store(graph: onnx.GraphProto, name: str, value: NDArray[np.generic]) -> None:
    graph.initializer.append(numpy_helper.from_array(value, name))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the quantiser's chatter, which goes through the root logger, out of the caller's log."""
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)
    try:
        yield
    finally:
        root.setLevel(level)
