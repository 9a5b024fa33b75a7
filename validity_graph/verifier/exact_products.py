"""Whether this processor adds products of 8-bit numbers exactly, as onnxruntime multiplies here.

x86 processors without VNNI add pairs of them in 16 bits, which overflow: onnxruntime has slower products that
do not (``session.x64quantprecision``), and uses them on every x86 processor that asks, which costs one with
VNNI four tenths of its speed and gains nothing.  So the runtime is asked, once a process, to multiply the
largest numbers there are; that needs no list of processors and holds for kernels that are still to come.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from onnxruntime import SessionOptions

#: Two products, written by ``quantize.largest_products``: ``unsigned`` and ``signed`` numbers times 127.
LARGEST = Path(__file__).parent / "largest_products.onnx"
#: Numbers that are added up in each sum, and how many rows are asked: one and several run in other kernels.
INPUTS = 16
ROWS = (1, 5)


def require(options: SessionOptions) -> None:
    """Let a session with these ``options`` multiply exactly, by the fastest products that do."""
    if not are_exact():
        options.add_session_config_entry("session.x64quantprecision", "1")


@cache
def are_exact() -> bool:
    """Whether products come out exact without being asked for."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(LARGEST), options, providers=["CPUExecutionProvider"])
    for rows in ROWS:
        given = {
            "unsigned": np.full((rows, INPUTS), 255, np.uint8),
            "signed": np.full((rows, INPUTS), 127, np.int8),
        }
        unsigned, signed = session.run(None, given)
        if np.any(unsigned != INPUTS * 255 * 127) or np.any(signed != INPUTS * 127 * 127):
            return False
    return True
