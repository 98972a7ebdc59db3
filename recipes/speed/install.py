"""Installs each peer in a separate virtual environment; all peers use this project's PyTorch.

    python -m recipes.speed.install [--environments DIR] [PEER ...]

Peers often pin versions that exclude the current PyTorch, and another build of PyTorch would take
gigabytes. Therefore a peer's environment can also import the packages of the environment that runs
this script. If a peer's pins exclude these packages, the peer is installed without its
dependencies, and `PACKAGES` lists the dependencies that the peer needs.
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
    """The packages that pip installs for a peer, with pip's options and environment variables."""

    packages: tuple[str, ...]
    options: tuple[str, ...] = ("-c", str(ROOT / "constraints.txt"))
    variables: dict[str, str] = field(default_factory=dict)


_ALONE = ("--no-deps", "--no-build-isolation")  # for peers whose pins exclude installed packages

# A system that is not listed needs only this project's packages
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
        {"READTHEDOCS": "1"},  # skips the C++ extensions, which do not compile
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
    """Returns the Python interpreter of a system, and first installs the system if necessary.

    Raises:
        InputError: pip cannot install the system on this machine.
    """
    wanted = PACKAGES.get(system)
    if wanted is None:
        return Path(sys.executable)
    # links are not resolved, because Python finds its environment by this path
    folder = Path(os.path.abspath(environments)) / system  # noqa: PTH100
    python, content = folder / "bin" / "python", "\n".join((*wanted.packages, *_base()))
    done = folder / _DONE
    if not (done.is_file() and done.read_text() == content):
        say(f"Installing {system} in {folder}.")
        _install(wanted, folder, python, folder.with_suffix(".log"))
        atomic.write_file(done, content)
    return python


def _base() -> list[str]:
    """Returns the directories that contain the packages of this environment."""
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
        raise InputError(
            f"pip could not install {folder.name}. See {log}, or leave out {folder.name}."
        )


if __name__ == "__main__":
    run_script("install", main)
