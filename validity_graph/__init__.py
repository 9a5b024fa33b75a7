"""Tells which of an AI agent's memories are still true, how sure that is, and why."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from validity_graph.errors import InputError, StoreError, UnknownMemoryError, ValidityGraphError
    from validity_graph.explain import Thresholds
    from validity_graph.graph import ValidityGraph
    from validity_graph.kernels import propagate
    from validity_graph.records import Edge, Evidence, Explanation, Memory, Reason, Status, Verdict

# Resolved on first use: importing the package must cost nothing that the caller does not need.
_HOME = {
    "ValidityGraph": "graph",
    "Memory": "records",
    "Edge": "records",
    "Evidence": "records",
    "Verdict": "records",
    "Explanation": "records",
    "Status": "records",
    "Reason": "records",
    "Thresholds": "explain",
    "propagate": "kernels",
    "ValidityGraphError": "errors",
    "InputError": "errors",
    "UnknownMemoryError": "errors",
    "StoreError": "errors",
}

__all__ = [
    "Edge",
    "Evidence",
    "Explanation",
    "InputError",
    "Memory",
    "Reason",
    "Status",
    "StoreError",
    "Thresholds",
    "UnknownMemoryError",
    "ValidityGraph",
    "ValidityGraphError",
    "Verdict",
    "propagate",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401  whatever the name stands for
    """Import the module that holds a public name when it is first asked for."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
