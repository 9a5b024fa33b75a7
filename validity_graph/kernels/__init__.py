"""Kernels: arrays in, arrays out.  This is the only place where one is chosen.

Values cross this border in the caller's numbering; inside, in that of ``Topology``.  Never imports
records.  Methods and their formulas: SEMANTICS sections 3 and 4.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from validity_graph.errors import InputError
from validity_graph.topology import Topology

#: Module of each back end, under one contract: arrays in and out, internal numbering.
_MODULES = {"numba": "on_numba", "numpy": "on_numpy", "torch": "torch_arrays"}


@dataclass(frozen=True, slots=True)
class Propagation:
    """Invalidity of every memory and how it was reached.

    ``invalidity`` [n] in [0, 1], caller's numbering, dtype of the topology's weights; ``converged`` says
    that every cyclic component settled, ``rounds`` the most rounds that one took (0 without cycles).
    """

    invalidity: NDArray[np.floating]
    converged: bool
    rounds: int


def propagate(
    topology: Topology, direct: ArrayLike, *, method: str = "noisy_or", backend: str = "numba"
) -> Propagation:
    """Push direct evidence ``direct`` [n] in [0, 1], caller's numbering, through the graph.

    ``backend`` is "numba", "numpy" or "torch".  Raises ``InputError`` for evidence outside [0, 1] or of
    another length, an unknown method or back end.  SEMANTICS section 3.
    """
    if method != "noisy_or":
        raise InputError(f'method={method!r} must be "noisy_or" here')
    evidence = _checked(direct, topology.order.size, what="direct")
    kernel: Any = _backend(backend)
    if backend == "torch":
        return _by_torch(kernel, topology, evidence)
    invalidity, rounds, converged = kernel.noisy_or(topology, evidence[topology.order])
    return Propagation(invalidity[topology.rank], converged, rounds)


def inherited(topology: Topology, invalidity: ArrayLike, *, backend: str = "numba") -> NDArray[np.float64]:
    """Return what each memory inherits, ``1 - (1 - q_v) * (1 - l_v)``, float64[n], caller's numbering.

    ``invalidity`` [n] in [0, 1], as ``propagate`` returns it; ``backend`` is "numba" or "numpy".  Raises
    ``InputError`` as ``propagate`` does.
    """
    if backend == "torch":
        raise InputError('backend="torch" has no kernel for what is inherited; take "numba" or "numpy"')
    values = _checked(invalidity, topology.order.size, what="invalidity")
    kernel: Any = _backend(backend)
    result: NDArray[np.float64] = kernel.inherited(topology, values[topology.order])[topology.rank]
    return result


def losses(topology: Topology, invalidity: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what each memory loses through requirements and through supports: q and l, float64[n] each.

    ``invalidity`` [n] in [0, 1], as ``propagate`` returns it; caller's numbering.  Raises ``InputError`` as
    ``propagate`` does.  SEMANTICS section 3.
    """
    from validity_graph.kernels import node

    values = _checked(invalidity, topology.order.size, what="invalidity")[topology.order]
    required, supported = np.empty(values.size), np.empty(values.size)
    structure = topology.indptr, topology.requires_end, topology.source, topology.weight, topology.opens
    node.losses(*structure, values, required, supported)
    return required[topology.rank], supported[topology.rank]


def _by_torch(kernel: Any, topology: Topology, direct: NDArray[np.floating]) -> Propagation:  # noqa: ANN401
    """Propagate by torch on the CPU: it takes and returns tensors in the caller's numbering."""
    import torch

    tensor = torch.tensor(direct.astype(topology.weight.dtype))
    invalidity, rounds, converged = kernel.noisy_or_rounds(topology, tensor)
    return Propagation(invalidity.numpy(), converged, rounds)


def _backend(name: str) -> ModuleType:
    if name not in _MODULES:
        raise InputError(f"backend={name!r} must be one of {', '.join(_MODULES)}")
    return importlib.import_module(f"validity_graph.kernels.{_MODULES[name]}")


def _checked(values: ArrayLike, count: int, *, what: str) -> NDArray[np.floating]:
    array = np.asarray(values)
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    if array.shape != (count,):
        raise InputError(f"{what} has shape {array.shape}; it needs one number for each of {count} memories")
    wrong = ~((array >= 0) & (array <= 1))
    if wrong.any():
        v = int(np.argmax(wrong))
        raise InputError(f"{what}[{v}]={array[v]} must lie in [0, 1]")
    return array
