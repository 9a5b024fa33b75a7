"""Imports run one way, and the core stands without any extra."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "validity_graph"
HEAVY = (
    "torch",
    "torch_geometric",
    "transformers",
    "peft",
    "onnx",
    "networkx",
    "pyarrow",
    "httpx",
    "hypothesis",
)
#: Rank of each module: it may import, when it is loaded, only modules of a lower rank or of its own package.
RANK = {
    "errors": 0,
    "compiled": 0,
    "records": 1,
    "ordering": 1,
    "schema": 1,
    "store": 2,
    "database": 3,
    "formats": 2,
    "blocking": 2,
    "topology": 2,
    "credit": 2,
    "embedding": 2,
    "matching": 1,
    "ranking": 2,
    "encode": 3,
    "ancestry": 4,
    "counterfactual": 5,
    "mirror": 3,
    "admission": 3,
    "kernels": 3,
    "interchange": 3,
    "candidates": 3,
    "verifier": 3,
    "support_features": 3,
    "supports": 4,
    "resident": 4,
    "trails": 2,
    "paths": 3,
    "explain": 4,
    "voices": 5,
    "standing": 6,
    "archive": 5,
    "asking": 6,
    "judge": 7,
    "inference": 5,
    "verification": 5,
    "testing": 5,
    "graph": 8,
    "layer": 8,
    "display": 9,
    "cli_input": 9,
    "cli_verifier": 9,
    "cli": 10,
}
#: ``kernels`` are arrays in and arrays out; verifier and candidates know records, not graphs.
FORBIDDEN = {"kernels": {"records", "encode", "store"}, "verifier": {"graph"}, "candidates": {"graph"}}


def modules() -> list[tuple[str, Path]]:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).parts
        if parts != ("__init__.py",):
            found.append((parts[0].removesuffix(".py"), path))
    return found


def loaded_imports(path: Path) -> set[str]:
    """What a module imports when it is loaded: not what is inside functions or TYPE_CHECKING."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text(encoding="utf-8")))
    return found


@pytest.mark.parametrize(("name", "path"), modules(), ids=lambda value: str(value))
def test_imports_point_down(name, path):
    for imported in loaded_imports(path):
        parts = imported.split(".")
        if parts[0] != "validity_graph" or len(parts) < 2 or parts[1] not in RANK or parts[1] == name:
            continue
        assert RANK[parts[1]] <= RANK[name], f"{name} may not import {parts[1]}"
        assert parts[1] not in FORBIDDEN.get(name, set()), f"{name} may not know {parts[1]}"


def test_every_module_has_its_place():
    assert {name for name, _ in modules()} - {"integrations", "report", "spark"} == set(RANK)


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT.parent, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_package_pulls_in_nothing_heavy():
    found = run(
        "import sys, validity_graph; "
        "print([m for m in sys.modules if m.split('.')[0] in "
        f"{(*HEAVY, 'onnxruntime', 'numba', 'scipy', 'sqlalchemy', 'numpy')!r}])"
    )
    assert found.strip() == "[]"


def test_the_core_runs_with_every_extra_blocked():
    found = run(
        f"""
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {HEAVY!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
from validity_graph import ValidityGraph
graph = ValidityGraph.open()
graph.add("job", "I work at Acme as an analyst")
graph.add("commute", "I commute to Acme HQ every day", depends_on=["job"])
graph.add("quit", "I quit Acme, I work at Globex now")
graph.verify()
print(graph.check()["commute"].status.value, graph.explain("commute").paths[0][0].source)
print([item.memory.id for item in graph.retrieve("where do I work", k=1)])
import validity_graph.cli
try:
    import validity_graph.testing
except ImportError as missing:
    print(missing)
"""
    )
    assert found.splitlines()[0] == "outdated quit"
    assert (
        found.splitlines()[-1]
        == 'validity_graph.testing needs hypothesis: pip install "validity-graph[testing]"'
    )
