"""Everything the package raises on purpose.

One base class and a handful of kinds, so that callers catch what they can mend.  Each message names
the thing, the place and the mend.  Knows nothing else of the package.
"""

from __future__ import annotations


class ValidityGraphError(Exception):
    """Base class of every error that this package raises on purpose."""


class InputError(ValidityGraphError, ValueError):
    """A value, a record or a file does not say what it must; nothing was written."""


class UnknownMemoryError(InputError, KeyError):
    """An id was named that the graph does not hold."""

    def __str__(self) -> str:
        """Return the message itself; ``KeyError`` would quote it."""
        return str(self.args[0]) if self.args else ""


class ConflictError(InputError):
    """A record contradicts what is already stored under the same id."""


class ForgottenError(ConflictError):
    """A memory was forgotten on purpose and comes back without being asked for."""


class CycleError(InputError):
    """Retractions form a cycle, so no source in it has a defined force."""


class StoreError(ValidityGraphError):
    """The store cannot be opened, read or migrated."""


class MissingExtraError(ValidityGraphError, ImportError):
    """An optional dependency is needed here; the message holds the command that installs it."""

    def __init__(self, what: str, *, needs: str, extra: str) -> None:
        """Say that ``what`` needs package ``needs``, which the extra ``extra`` installs."""
        super().__init__(f'{what} needs {needs}: pip install "validity-graph[{extra}]"')
