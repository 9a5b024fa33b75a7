"""The float network that quantised weights stand for, so that training can go on from what ships.

Reads an ONNX file written by ``export`` and puts its numbers back into a ``PairNetwork`` of the same
architecture: what stayed float as it is, int8 and 4-bit weights multiplied out.  Rounding stays in the
result; a few hundred steps of training mend it.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from validity_graph.errors import InputError, MissingExtraError
from validity_graph.verifier.heads import read_manifest

try:
    import onnx
    import torch
    from onnx import numpy_helper

    from validity_graph.verifier.network import PairNetwork
    from validity_graph.verifier.quantize import BLOCK
except ImportError:
    raise MissingExtraError("restoring weights", needs="torch and onnx", extra="train") from None

Array = NDArray[np.float32]
#: Layers of a checkpoint that a pair network has and never runs, so that they are not exported.
UNUSED = "encoder.pooler."
#: Prefix that export gives to everything inside the network.
INSIDE = "network."
WORDS = "encoder.embeddings.word_embeddings.weight"
#: Name of a product with a weight: the path of its layer, and how the quantiser marked it.
_PRODUCT = re.compile(r"/network/(.+)/(?:Gemm|MatMul)(?:_quant)?")


def restore(network: PairNetwork, weights: str | Path) -> None:
    """Load the exported model of the weights folder ``weights`` into ``network``, in place.

    The token embeddings of ``network`` take the number of rows that the model has.  Raises ``InputError``
    where the folder holds another architecture: a weight of another shape, or one that is missing.
    """
    folder = Path(weights)
    found = multiplied_out(folder / read_manifest(folder)["model"])
    rows = found.get(WORDS, np.empty(0, np.float32)).shape[0]
    if WORDS in network.state_dict() and rows != len(network.state_dict()[WORDS]):
        network.encoder.resize_token_embeddings(rows, mean_resizing=False)  # type: ignore[operator]
    state = {name: own for name, own in network.state_dict().items() if not name.startswith(UNUSED)}
    if missing := sorted(state.keys() - found.keys()):
        raise InputError(f"{folder} lacks {missing[0]}: it was made from another base; give that as --base")
    for name, own in state.items():
        given = torch.from_numpy(np.array(found[name], dtype=np.float32))
        if given.shape != own.shape:
            raise InputError(
                f"{folder}: {name} has shape {tuple(given.shape)}, the base has {tuple(own.shape)}; "
                "give the base that it was made from as --base"
            )
        state[name] = given
    network.load_state_dict(state, strict=False)


def multiplied_out(path: Path) -> dict[str, Array]:
    """Float arrays of an exported model by the name that torch gives them."""
    model = onnx.load(str(path))
    arrays = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    found = {name.removeprefix(INSIDE): a for name, a in arrays.items() if name.startswith(INSIDE)}
    for name in list(found):
        if name.endswith("_int8"):
            table = name.removesuffix("_int8")
            found[table] = found[name] * found[f"{table}_scale"]
    for node in model.graph.node:
        given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "GatherBlockQuantized":
            table = node.input[0].removeprefix(INSIDE).removesuffix("_Q4")
            # Read as signed numbers, one a place.
            rows = arrays[node.input[0]].astype(np.float32)
            found[table] = _scaled(rows, arrays[node.input[2]], block=given["block_size"])
        elif product := _PRODUCT.fullmatch(node.name):
            weight = _factor(node, arrays)
            if weight is not None:
                found[product[1].replace("/", ".") + ".weight"] = weight
    return found


def _factor(node: onnx.NodeProto, arrays: dict[str, NDArray[np.generic]]) -> Array | None:
    """Return the constant factor of a product as torch keeps it, ``(outputs, inputs)``, or None."""
    name = re.sub("_(quantized|whole)$", "", node.input[1])
    if f"{name}_int4" in arrays:
        return _unpacked(name, arrays)
    if f"{name}_quantized" in arrays:
        rounded = arrays[f"{name}_quantized"].astype(np.float32)
        return np.asarray(rounded * arrays[f"{name}_scale"].astype(np.float32), dtype=np.float32).T
    # A float Gemm keeps the name and the layout that torch gave its weight.
    whole = arrays.get(name) if node.op_type == "MatMul" else None
    return None if whole is None else whole.astype(np.float32).T


def _unpacked(name: str, arrays: dict[str, NDArray[np.generic]]) -> Array:
    """Return a weight that is stored in 4 bits, ``(outputs, inputs)``."""
    digits = arrays[f"{name}_int4"].astype(np.float32)
    scale = arrays[f"{name}_half"].astype(np.float32) * arrays[f"{name}_scale"].astype(np.float32)[:, None]
    return _scaled(digits, scale, block=BLOCK)


def _scaled(rows: Array, scale: NDArray[np.generic], *, block: int) -> Array:
    """Rows of numbers around 0, each ``block`` of them times its own scale."""
    spread = np.repeat(scale.reshape(len(rows), -1).astype(np.float32), block, axis=1)
    return np.asarray(rows * spread[:, : rows.shape[1]], dtype=np.float32)
