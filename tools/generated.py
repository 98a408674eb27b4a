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
Call = tuple[str, str]
"""The kind of a method, such as `unary_unary`, and its path."""


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
        files = [str(path) for path in sources(ROOT / "proto")]
        protoc = [sys.executable, "-m", "grpc_tools.protoc", "-I", str(ROOT / "proto")]
        settings = {**os.environ, "PYTHONPATH": folder}  # takes precedence over installed packages
        return subprocess.call([*protoc, *outputs, *files], env=settings)


def sources(proto: Path) -> list[Path]:
    """Return the files of the contract, in a stable order."""
    return sorted(proto.rglob("*.proto"))


def differences(proto: Path) -> Iterator[str]:
    """Yield the differences between the code in `kvstore/v1` and the contract in `proto`."""
    for name, wanted in compiled(proto).items():
        module = name.removesuffix(".proto").replace("/", ".")
        try:
            messages = importlib.import_module(f"{module}_pb2")
            calls = importlib.import_module(f"{module}_pb2_grpc")
        except ImportError as error:
            yield f"{name}: no code was written from it ({error})"
            continue
        if messages.DESCRIPTOR.serialized_pb != wanted.SerializeToString(deterministic=True):
            yield f"{name}: {module}_pb2 differs from the contract"
        if calls_of(calls, wanted) != calls_wanted(wanted):
            yield f"{name}: {module}_pb2_grpc has other methods than the contract"


def compiled(proto: Path) -> dict[str, FileDescriptorProto]:
    """Return the descriptor of each file from the installed compiler, by file name."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "contract.bin")
        protoc = [sys.executable, "-m", "grpc_tools.protoc", "-I", str(proto)]
        files = [str(path) for path in sources(proto)]
        subprocess.run([*protoc, f"--descriptor_set_out={out}", *files], check=True)
        everything = FileDescriptorSet.FromString(out.read_bytes())
    return {file.name: without_json_names(file) for file in everything.file}


def without_json_names(file: FileDescriptorProto) -> FileDescriptorProto:
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


class _Channel:
    """A fake gRPC channel that records the methods of a stub."""

    def __init__(self) -> None:
        self.calls: set[Call] = set()

    def __getattr__(self, kind: str) -> object:
        return lambda path, **_settings: self.calls.add((kind, path))


def calls_of(module: object, file: FileDescriptorProto) -> set[Call]:
    """Return the methods that the stubs of a generated module call."""
    channel = _Channel()
    for service in file.service:
        getattr(module, f"{service.name}Stub", lambda _channel: None)(channel)
    return channel.calls


def calls_wanted(file: FileDescriptorProto) -> set[Call]:
    """Return the methods in the contract."""
    side = {False: "unary", True: "stream"}
    return {
        (
            f"{side[method.client_streaming]}_{side[method.server_streaming]}",
            f"/{file.package}.{service.name}/{method.name}",
        )
        for service in file.service
        for method in service.method
    }


if __name__ == "__main__":
    sys.exit(main())
