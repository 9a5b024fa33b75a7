"""Credit for memory operations: what each one deserves in hindsight ([PRM]).

Knows arrays only.  Formulas: SEMANTICS section 6.
"""

from __future__ import annotations

from validity_graph.credit.minform import min_credit, sum_credit

__all__ = ["min_credit", "sum_credit"]
