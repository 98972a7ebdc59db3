"""Checks the import order of the packages, and that nothing can run code from a file."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import nmt
from nmt.storage import names
from nmt.storage.atomic import PREFIX

ROOT = Path(nmt.__file__).parent
# A module may import only from its own package and from packages listed before it.
ROOMS = [
    "errors", "paper", "system", "signals", "processes", "storage", "config", "model", "cpu_memory",
    "demo_language", "data", "runs", "decoding", "documents", "translator", "lines", "evaluation",
    "training", "benchmark", "reporting", "export", "serving", "cli", "__main__",
]  # fmt: skip
MODULES = sorted(ROOT.rglob("*.py"))
RECIPES = sorted((ROOT.parent / "recipes").rglob("*.py"))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    """Returns the packages imported in a module, including under `if TYPE_CHECKING`."""
    found = set()
    for node in ast.walk(tree_of(path)):
        names = []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("nmt.")}
    return found & set(ROOMS)


def test_imports_go_only_downwards():
    for path in MODULES:
        if path != ROOT / "__init__.py":
            allowed = ROOMS[: ROOMS.index(room_of(path)) + 1]
            assert imported_rooms(path) <= set(allowed), path


def test_the_demo_language_imports_nothing_of_nmt():
    paths = sorted((ROOT / "demo_language").glob("*.py"))
    assert len(paths) > 5
    for path in paths:
        assert imported_rooms(path) <= {"demo_language"}, path


def test_the_paper_module_imports_only_the_standard_library():
    """Checks that nmt/paper.py imports only the standard library."""
    tree = tree_of(ROOT / "paper.py")
    names = [
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    ]
    names += [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert {name.split(".")[0] for name in names} <= set(sys.stdlib_module_names)


def test_every_package_is_listed():
    assert len(MODULES) > 40
    assert {room_of(path) for path in MODULES} - {"__init__"} == set(ROOMS)


def file_of(name: str) -> Path:
    """Returns the file of a module, or the `__init__.py` of a package."""
    path = ROOT.parent / name.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def imported_modules(path: Path) -> set[Path]:
    """Returns the files of nmt imported in a module, including under `if TYPE_CHECKING`."""
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {file_of(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                file = file_of(f"{node.module}.{alias.name}")
                found.add(file if file in MODULES else file_of(str(node.module)))
    return found & set(MODULES)


def test_no_import_cycles():
    graph = {path: imported_modules(path) for path in MODULES}
    assert sum(map(len, graph.values())) > 100
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules


OWNERS = {
    "storage",
    "config",
    "data",
    "runs",
    "export",
}  # packages that may name files of runs and of prepared data


def test_file_names_are_defined_once_and_used_only_by_their_owners():
    known = {*names.IN_RUN, *names.IN_DATA, names.WEIGHTS, names.OPTIMIZER, PREFIX}
    known -= {"model", "train", "validation"}  # words that also have other meanings
    for path in MODULES:
        nodes, room = ast.walk(tree_of(path)), room_of(path)
        found = {node.value for node in nodes if isinstance(node, ast.Constant)} & known
        # names with a second meaning: the parameter for a published test set, the Python package
        # tensorboard, and a setting
        others = {
            "evaluation": {"test_set"}, "cli": {"tensorboard"}, "config": {"tokenizer.model"}
        }.get(room, set())  # fmt: skip
        assert not found - others or room == "storage", path
        assert ROOT / "storage/names.py" not in imported_modules(path) or room in OWNERS, path


def test_the_model_needs_only_torch_and_numpy():
    """Imports the model in a new interpreter and checks the loaded modules."""
    code = """if True:
        import sys
        def loaded(): return {name.split(".")[0] for name in sys.modules}
        import nmt.model.special_ids
        assert "torch" not in loaded()
        import numpy, torch
        before = loaded()
        import nmt.model.kernels.prepacking, nmt.model.kernels.static_stepper, nmt.model.stepper
        print(sorted(loaded() - before - set(sys.stdlib_module_names)))
        print(sorted(name for name in sys.modules if name.startswith("nmt")))
        import nmt.decoding.beam_search
        print(sorted({"sentencepiece", "filelock", "yaml"} & (loaded() - before)))
    """
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    others, ours, of_search = map(ast.literal_eval, run.stdout.splitlines())
    assert others == [] and of_search == []
    paths = (path.relative_to(ROOT.parent) for path in (ROOT / "model").rglob("[!_]*.py"))
    assert {".".join(path.with_suffix("").parts) for path in paths} <= set(ours)
    assert {name for name in ours if not name.startswith("nmt.model")} == {"nmt"}


UNSAFE_MODULES = {
    "cloudpickle", "dill", "joblib", "marshal", "pickle", "runpy", "shelve",
}  # fmt: skip
UNSAFE_CALLS = {  # matched by the last part of a call's name
    "__import__", "exec", "extract", "extractall", "full_load", "full_load_all", "import_module",
    "load_all", "popen", "read_pickle", "system", "unpack_archive", "unsafe_load",
    "unsafe_load_all",
}  # fmt: skip
UNSAFE_EXACTLY = {"builtins.eval", "eval", "torch.hub.load", "torch.load", "yaml.load"}


def unsafe(tree: ast.Module) -> list[str]:
    """Returns the calls in a module that could run code from a file (guarantee A6)."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [name for name in names if name.split(".")[0] in UNSAFE_MODULES]
            found += [name for name in names if name in UNSAFE_CALLS]
        if not isinstance(node, ast.Call):
            continue
        name, keys = ast.unparse(node.func), {k.arg: ast.unparse(k.value) for k in node.keywords}
        if name in UNSAFE_EXACTLY or name.split(".")[-1] in UNSAFE_CALLS:
            found.append(name)
        if name in ("np.load", "numpy.load") and keys.get("allow_pickle") != "False":
            found.append(f"{name} without allow_pickle=False")
        if keys.get("shell", "False") != "False" or "trust_remote_code" in keys:
            found.append(f"{name} with shell or trust_remote_code")
        if name == "yaml.dump" and keys.get("Dumper") != "_Dumper":
            found.append("yaml.dump of any object")
    return found


def test_a6_no_call_can_run_code_from_a_file():
    for path in (*MODULES, *RECIPES):
        assert unsafe(tree_of(path)) == [], path


@pytest.mark.parametrize(
    "source",
    [
        "torch.load(path, weights_only=True)", "import pickle", "from pickle import loads",
        "np.load(path)", "np.load(path, allow_pickle=True)", "yaml.load(text, Loader)",
        "yaml.unsafe_load(text)", "eval(text)", "builtins.exec(text)", "os.system(text)",
        "from os import system", "subprocess.run(text, shell=True)", "os.popen(text)",
        "tar.extractall(path)", "shutil.unpack_archive(path)",
        "load_dataset(name, trust_remote_code=True)", "importlib.import_module(name)",
        "pandas.read_pickle(path)",
    ],
)  # fmt: skip
def test_a6_the_check_finds_unsafe_calls(source: str):
    assert unsafe(ast.parse(source)) != []
