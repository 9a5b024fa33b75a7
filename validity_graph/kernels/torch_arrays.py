"""The torch kernel under the contract of the other kernels: arrays in and out, internal numbering.

What ``kernels.propagate`` runs for ``backend="torch"``; ``on_torch`` itself takes tensors and batches.
Formulas: SEMANTICS section 3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from validity_graph.errors import MissingExtraError

try:
    import torch
except ImportError as error:
    raise MissingExtraError('kernel "torch"', needs="torch", extra="torch") from error

from validity_graph.kernels.on_torch import noisy_or_rounds
from validity_graph.kernels.torch_factors import Weights, factors
from validity_graph.kernels.torch_plan import Block, Plan
from validity_graph.topology import Topology


def noisy_or(
    topology: Topology, direct: NDArray[np.floating], *, out: NDArray[np.floating] | None = None
) -> tuple[NDArray[np.floating], int, bool]:
    """Return ``(invalidity, rounds, converged)`` as ``on_numpy.noisy_or`` does; the same arguments."""
    values = torch.from_numpy(direct.astype(topology.weight.dtype)[topology.rank])
    result, rounds, converged = noisy_or_rounds(topology, values)
    invalidity: NDArray[np.floating] = result.numpy()[topology.order]
    if out is None:
        return invalidity, rounds, converged
    out[:] = invalidity
    return out, rounds, converged


def inherited(topology: Topology, invalidity: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return what each memory inherits from ``invalidity`` [n] as ``on_numpy.inherited`` does; float64[n]."""
    plan = Plan(topology)
    state = torch.from_numpy(np.array(invalidity, dtype=np.float64))[:, None]
    weights = Weights.of(plan, torch.from_numpy(topology.weight.astype(np.float64)))
    block = Block(slice(None), plan.requirement, plan.support, plan.justification, slice(None))
    parts = factors(block, weights, state[plan.requirement.source], state[plan.support.source])
    result: NDArray[np.float64] = parts.inherited[:, 0].numpy()
    return result
