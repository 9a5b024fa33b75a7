"""Edges as the oracle writes them, ``(source, target, weight, type, justification)``, as arrays."""

from __future__ import annotations

import numpy as np

from validity_graph.topology import build_topology


def columns(edges):
    source, target, weight, kind, justification = zip(*edges, strict=True) if edges else ((),) * 5
    return {
        "source": np.array(source, dtype=np.int64),
        "target": np.array(target, dtype=np.int64),
        "weight": np.array(weight, dtype=np.float64),
        "supports": np.array([k == "supports" for k in kind], dtype=bool),
        "justification": np.array(justification, dtype=np.int64),
    }


def topology_of(node_count, edges, premise=None, dtype=np.float64):
    return build_topology(node_count, **columns(edges), premise=premise, dtype=dtype)
