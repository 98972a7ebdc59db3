"""The order of rooms, and what must never stand in the tree."""

import ast
from pathlib import Path

import pytest

import nmt

ROOT = Path(nmt.__file__).parent
# Data flows downwards: a module imports from its own room and from rooms above it.
ROOMS = [
    "errors", "strict_yaml", "config", "cpu_memory", "storage", "data", "model", "checkpoints",
    "decoding", "evaluation", "training", "reporting", "cli", "__main__",
]  # fmt: skip
MODULES = sorted(ROOT.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    """Rooms whose names a module imports, wherever in it; `if TYPE_CHECKING` counts too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("nmt.")}
    return found & set(ROOMS)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_only_downwards(path: Path):
    if path == ROOT / "__init__.py":
        return
    allowed = ROOMS[: ROOMS.index(room_of(path)) + 1]
    assert imported_rooms(path) <= set(allowed)


def test_every_room_is_listed():
    assert len(MODULES) > 40
    assert {room_of(path) for path in MODULES} - {"__init__"} == set(ROOMS)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_can_run_what_a_file_says(path: Path):
    calls = {
        ast.unparse(node.func)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    }
    forbidden = {"torch.load", "pickle.load", "pickle.loads", "yaml.load", "eval", "exec"}
    assert not calls & forbidden
