"""Compare `kvstore/v1` with `proto/`; `course.py check --generate` writes it.

An old generator is used on purpose: generated code refuses a protobuf or grpcio older than its
generator, so the version of the generator is the floor in pyproject.toml. The environment has a
newer one. Generating therefore installs the old generator into a temporary folder. Checking uses
the newer one and compares the descriptors in both.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GENERATOR = "grpcio-tools==1.78.0"  # the floor of grpcio; its protobuf is 6.31.1


def main() -> int:
    """Compare; the exit status is 1 if a file is stale."""
    stale = list(differences(ROOT / "proto"))
    for difference in stale:
        print(f"{difference}: run `python3 course.py check --generate`")
    return 1 if stale else 0


def write(target: Path) -> int:
    """Generate the code for every file of `proto/` below `target`, with the old generator."""
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
        # Packages in this folder cannot conflict with those of the environment.
        fetched = subprocess.call([*pip, "--no-warn-conflicts", "--target", folder, GENERATOR])
        if fetched:
            print(f"could not install {GENERATOR}: generating needs the internet")
            return fetched
        outputs = [f"--{kind}_out={target}" for kind in ("python", "pyi", "grpc_python")]
        settings = {**os.environ, "PYTHONPATH": folder}  # takes precedence over installed packages
        return subprocess.call(_protoc(ROOT / "proto", *outputs), env=settings)


def _protoc(proto: Path, *outputs: str) -> list[str]:
    files = [str(path) for path in sorted(proto.rglob("*.proto"))]
    return [sys.executable, "-m", "grpc_tools.protoc", "-I", str(proto), *outputs, *files]


def differences(proto: Path) -> Iterator[str]:
    """Yield the differences between the code in `kvstore/v1` and the contract in `proto`."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(_protoc(proto, f"--python_out={folder}"), check=True)
        for wanted in sorted(Path(folder).rglob("*_pb2.py")):
            name = wanted.relative_to(folder)
            if not (here := ROOT / name).is_file():
                yield f"{name}: no code was written from its contract"
            elif _descriptor(here) != _descriptor(wanted):
                yield f"{name} differs from the contract"


def _descriptor(module: Path) -> list[str]:
    """Return the line with the contract: it is the same whichever generator wrote it."""
    lines = module.read_text("utf-8").splitlines()
    return [line for line in lines if "AddSerializedFile(" in line]


if __name__ == "__main__":
    sys.exit(main())
