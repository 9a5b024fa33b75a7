"""The verifier: how strongly a later memory overturns an earlier one ([V3] sections 5, 6 and 13).

The names below load on first use, so importing the package costs nothing and needs neither onnxruntime nor
torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from validity_graph.verifier.calibrator import Calibrator as Calibrator
    from validity_graph.verifier.gate import DualEvidenceGate as DualEvidenceGate
    from validity_graph.verifier.gate import GateForm as GateForm
    from validity_graph.verifier.heads import OnnxHead as OnnxHead
    from validity_graph.verifier.heads import SlotHead as SlotHead
    from validity_graph.verifier.llm import EndpointError as EndpointError
    from validity_graph.verifier.llm import LLMHead as LLMHead
    from validity_graph.verifier.router import Route as Route
    from validity_graph.verifier.router import Router as Router
    from validity_graph.verifier.router import RoutingReport as RoutingReport
    from validity_graph.verifier.scoring import Scores as Scores
    from validity_graph.verifier.scoring import Verifier as Verifier

_HOME = {
    "Calibrator": "calibrator",
    "DualEvidenceGate": "gate",
    "EndpointError": "llm",
    "GateForm": "gate",
    "LLMHead": "llm",
    "OnnxHead": "heads",
    "Route": "router",
    "Router": "router",
    "RoutingReport": "router",
    "Scores": "scoring",
    "SlotHead": "heads",
    "Verifier": "scoring",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module attribute may be anything
    """Import the module that holds ``name`` (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
