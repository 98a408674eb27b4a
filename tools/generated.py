"""Compare `kvstore/v1` with `proto/`; `course.py check --generate` writes it.

An old generator is used on purpose: generated code refuses a protobuf or grpcio older than its
generator, so the version of the generator is the floor in pyproject.toml. The environment has a
newer one. Generating therefore installs the old generator into a temporary folder. Checking uses
the newer one and compares descriptors, not bytes.
"""

import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

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
        out = Path(folder, "contract.bin")
        subprocess.run(_protoc(proto, f"--descriptor_set_out={out}"), check=True)
        wanted = FileDescriptorSet.FromString(out.read_bytes())
    for file in map(_without_json_names, wanted.file):
        module = file.name.removesuffix(".proto").replace("/", ".")
        try:
            messages = importlib.import_module(f"{module}_pb2")
        except ImportError as error:
            yield f"{file.name}: no code was written from it ({error})"
            continue
        if messages.DESCRIPTOR.serialized_pb != file.SerializeToString(deterministic=True):
            yield f"{file.name}: {module}_pb2 differs from the contract"


def _without_json_names(file: FileDescriptorProto) -> FileDescriptorProto:
    """Return the descriptor as in generated code: without the compiler's default JSON names."""
    waiting = list(file.message_type)
    while waiting:
        message = waiting.pop()
        waiting += message.nested_type
        for field in message.field:
            first, *others = field.name.split("_")
            if field.json_name == first + "".join(map(str.capitalize, others)):
                field.ClearField("json_name")
    return file


if __name__ == "__main__":
    sys.exit(main())
