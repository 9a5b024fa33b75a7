"""Turn plain loops into machine code, keeping the result on disk where that is possible.

Imports numba, so this module is only imported by code that is about to run a compiled loop; importing
``validity_graph`` never does.  Knows nothing of graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numba

Loop = TypeVar("Loop", bound=Callable[..., object])


def compiled(loop: Loop) -> Loop:
    """Return ``loop`` compiled on its first call for the types it is called with; it releases the GIL.

    The machine code is cached next to the module, else in the user's cache directory, else (neither is
    writable) nowhere: then every process compiles again.
    """
    return _compiled(loop, forceinline=False)


def inlined(formula: Loop) -> Loop:
    """Return ``formula`` as ``compiled`` does, and copied into every compiled loop that calls it."""
    return _compiled(formula, forceinline=True)


def _compiled(loop: Loop, *, forceinline: bool) -> Loop:
    try:
        function: Loop = numba.njit(cache=True, nogil=True, forceinline=forceinline)(loop)
    except RuntimeError:
        # numba found no directory that it may write to.
        function = numba.njit(nogil=True, forceinline=forceinline)(loop)
    return function
