"""Int8 and 4-bit weights for an exported pair network, placed where they cost least accuracy.

Embedding tables get one scale per row.  Projections that contract (more inputs than outputs: the second
half of each feed-forward block) read activations with rare large values, so they are quantised in blocks
with a scale per row of the input (``MatMulNBits``, 8 bits); all others take one dynamic range per input
and one scale per output channel, which is faster.  Works on ONNX files; knows nothing of training.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from validity_graph.errors import MissingExtraError

try:
    import onnx
    from onnx import helper, numpy_helper
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.matmul_nbits_quantizer import (
        DefaultWeightOnlyQuantConfig,
        MatMulNBitsQuantizer,
    )
except ImportError:
    raise MissingExtraError("exporting weights", needs="onnx", extra="train") from None

#: Inputs that share a scale in a contracting projection, and values that do in a 4-bit model.
BLOCK = 64
BLOCK_OF_4_BITS = 64
#: Embedding tables of fewer rows stay float: they are small and read everywhere.
SMALLEST_TABLE = 100
#: MatMulNBits computes with int8 inputs at this accuracy level.
INT8_INPUTS = 4


def quantize_int8(source: str | Path, output: str | Path) -> None:
    """Write the float ONNX file ``source`` with int8 weights to ``output``."""
    model = onnx.load(str(source))
    quantize_tables(model)
    with tempfile.TemporaryDirectory() as folder, _quiet():
        stage = Path(folder)
        onnx.save(model, str(stage / "tables.onnx"))
        quantize_dynamic(
            str(stage / "tables.onnx"),
            str(stage / "dynamic.onnx"),
            weight_type=QuantType.QInt8,
            per_channel=True,
            op_types_to_quantize=["MatMul", "Gemm"],
            nodes_to_exclude=contracting(model),
        )
        blocks = DefaultWeightOnlyQuantConfig(
            block_size=BLOCK,
            is_symmetric=True,
            accuracy_level=INT8_INPUTS,
            bits=8,
            op_types_to_quantize=("MatMul",),
        )
        last = MatMulNBitsQuantizer(onnx.load(str(stage / "dynamic.onnx")), algo_config=blocks)
        last.process()
        last.model.save_model_to_file(str(output))


def quantize_int4(source: str | Path, output: str | Path) -> None:
    """Write the float ONNX file ``source`` with 4-bit weights and embeddings to ``output``."""
    blocks = DefaultWeightOnlyQuantConfig(
        block_size=BLOCK_OF_4_BITS,
        is_symmetric=True,
        accuracy_level=INT8_INPUTS,
        bits=4,
        op_types_to_quantize=("MatMul", "Gather"),
        quant_axes=(("MatMul", 0), ("Gather", 1)),
    )
    # A block of zeros has scale 0, which the quantiser handles after dividing by it.
    with _quiet(), np.errstate(divide="ignore", invalid="ignore"):
        quantizer = MatMulNBitsQuantizer(onnx.load(str(source)), algo_config=blocks)
        quantizer.process()
        quantizer.model.save_model_to_file(str(output))


def contracting(model: onnx.ModelProto) -> list[str]:
    """Names of the products with a constant weight of more rows (inputs) than columns (outputs)."""
    shape = {table.name: tuple(table.dims) for table in model.graph.initializer}
    return [
        node.name
        for node in model.graph.node
        if node.op_type == "MatMul"
        and len(shape.get(node.input[1], ())) == 2
        and shape[node.input[1]][0] > shape[node.input[1]][1]
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
    graph.initializer.append(
        numpy_helper.from_array(np.rint(rows / scale).astype(np.int8), table.name + "_int8")
    )
    graph.initializer.append(numpy_helper.from_array(scale.astype(np.float32), table.name + "_scale"))


def _look_up(table: str, index: str, output: str) -> list[onnx.NodeProto]:
    """Nodes that look ``index`` up in the split table and write floats to ``output``."""
    return [
        helper.make_node("Gather", [table + "_int8", index], [output + "_int8"]),
        helper.make_node("Cast", [output + "_int8"], [output + "_float"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Gather", [table + "_scale", index], [output + "_scale"]),
        helper.make_node("Mul", [output + "_float", output + "_scale"], [output]),
    ]


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the quantisers' chatter, which goes through the root logger, out of the caller's log."""
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)
    try:
        yield
    finally:
        root.setLevel(level)
