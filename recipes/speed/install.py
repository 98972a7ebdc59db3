"""The peers' environments: one virtual environment each, all with this project's own PyTorch.

    python -m recipes.speed.install [--environments DIR] [PEER ...]

What the peers pin often excludes today's PyTorch, and another build of it would take gigabytes. So
an environment sees the packages of the one that runs this, after its own, and where a peer's pins
exclude them, it is installed without its dependencies and those it needs are named here.
"""

import argparse
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nmt.cli.terminal import run_script, say
from nmt.errors import InputError
from nmt.storage import atomic

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = Path("runs/speed/environments")
_DONE = "installed.txt"


@dataclass(frozen=True)
class Packages:
    """What pip installs for a peer."""

    packages: tuple[str, ...]
    options: tuple[str, ...] = ("-c", str(ROOT / "constraints.txt"))
    variables: dict[str, str] = field(default_factory=dict)


_ALONE = ("--no-deps", "--no-build-isolation")  # whose pins exclude what is here

# Without an entry a system needs nothing that this project does not have.
PACKAGES = {
    "marian": Packages(("transformers==5.23.0",)),
    "ctranslate2": Packages(("ctranslate2==4.8.5",)),
    "sockeye": Packages(("sockeye==3.1.34", "numpy==1.26.4"), _ALONE),
    "joeynmt": Packages(
        ("joeynmt==2.3.0", "importlib_metadata==8.5.0", "zipp==3.21.0", "subword-nmt==0.3.8"),
        _ALONE,
    ),
    "fairseq": Packages(
        ("fairseq==0.12.2", "hydra-core==1.0.7", "omegaconf==2.0.6", "bitarray==3.12.3",
         "antlr4-python3-runtime==4.8", "cffi==2.1.1", "pycparser==3.12"),
        _ALONE,
        {"READTHEDOCS": "1"},  # its C++ parts, which training does not need, do not compile
    ),
}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> None:
    """Installs the peers named in `argv`."""
    parser = argparse.ArgumentParser(description="Installs the peers of the comparison.")
    parser.add_argument("peers", nargs="*", metavar="PEER", default=sorted(PACKAGES))
    parser.add_argument("--environments", type=Path, default=ENVIRONMENTS, metavar="DIR")
    arguments = parser.parse_args(argv)
    for peer in arguments.peers:
        say(f"{peer}: {installed(peer, arguments.environments)}")


def installed(system: str, environments: Path) -> Path:
    """The Python that has a system, installed first if need be.

    Raises:
        InputError: pip cannot install it here.
    """
    wanted = PACKAGES.get(system)
    if wanted is None:
        return Path(sys.executable)
    # as it is called, not where links lead: that tells Python its environment
    folder = Path(os.path.abspath(environments)) / system  # noqa: PTH100
    python, content = folder / "bin" / "python", "\n".join((*wanted.packages, *_base()))
    done = folder / _DONE
    if not (done.is_file() and done.read_text() == content):
        say(f"installing {system} in {folder}")
        _install(wanted, folder, python, folder.with_suffix(".log"))
        atomic.write_file(done, content)
    return python


def _base() -> list[str]:
    """The folders that this environment's packages are in."""
    return sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})


def _install(wanted: Packages, folder: Path, python: Path, log: Path) -> None:
    venv.create(folder, clear=True, symlinks=True)
    own = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    (Path(own) / "base.pth").write_text("".join(f"{path}\n" for path in _base()))
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", *wanted.options]
    with log.open("wb") as output:
        status = subprocess.run(
            [*command, *wanted.packages],
            env=os.environ | wanted.variables,
            stdout=output,
            stderr=subprocess.STDOUT,
        ).returncode
    if status:
        raise InputError(f"pip cannot install it, {log} says why, leave it out or mend that")


if __name__ == "__main__":
    run_script("install", main)
