"""Write `kvstore/v1` from `proto/`, or with `--check` say whether it still says the same.

Written with an old generator on purpose: generated code refuses a protobuf or grpcio that is older
than its generator, so the generator's version is the floor in pyproject.toml. The environment
holds a newer one. For writing, the old one is therefore fetched into a temporary folder; checking
uses the newer one and compares what both understood, not the bytes they wrote.
"""

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

ROOT = Path(__file__).resolve().parent.parent
GENERATOR = "grpcio-tools==1.78.0"  # the floor of grpcio; its protobuf is 6.31.1
Call = tuple[str, str]
"""The kind of a method, such as `unary_unary`, and its path."""


def main(arguments: Sequence[str]) -> int:
    """Write or check; the exit status of a check is 1 when something is stale."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    if not parser.parse_args(arguments).check:
        return write(ROOT)
    stale = list(differences(ROOT / "proto"))
    for difference in stale:
        print(f"{difference}: run `python3 course.py generate`")
    return 1 if stale else 0


def write(target: Path) -> int:
    """Write the code for every file of `proto/` below `target`, with the old generator."""
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
        # The folder is apart from the environment: what would conflict in it, does not here.
        fetched = subprocess.call([*pip, "--no-warn-conflicts", "--target", folder, GENERATOR])
        if fetched:
            print(f"could not fetch {GENERATOR}: writing needs the internet")
            return fetched
        outputs = [f"--{kind}_out={target}" for kind in ("python", "pyi", "grpc_python")]
        files = [str(path) for path in sources(ROOT / "proto")]
        protoc = [sys.executable, "-m", "grpc_tools.protoc", "-I", str(ROOT / "proto")]
        settings = {**os.environ, "PYTHONPATH": folder}  # before what is installed
        return subprocess.call([*protoc, *outputs, *files], env=settings)


def sources(proto: Path) -> list[Path]:
    """The files of the contract, in a stable order."""
    return sorted(proto.rglob("*.proto"))


def differences(proto: Path) -> Iterator[str]:
    """What of the code in `kvstore/v1` no longer says what the contract in `proto` says."""
    for name, wanted in compiled(proto).items():
        module = name.removesuffix(".proto").replace("/", ".")
        try:
            messages = importlib.import_module(f"{module}_pb2")
            calls = importlib.import_module(f"{module}_pb2_grpc")
        except ImportError as error:
            yield f"{name}: no code was written from it ({error})"
            continue
        if messages.DESCRIPTOR.serialized_pb != wanted.SerializeToString(deterministic=True):
            yield f"{name}: {module}_pb2 says something else"
        if calls_of(calls, wanted) != calls_wanted(wanted):
            yield f"{name}: {module}_pb2_grpc has other methods"


def compiled(proto: Path) -> dict[str, FileDescriptorProto]:
    """What the installed compiler understands of each file, by its name in the contract."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "contract.bin")
        protoc = [sys.executable, "-m", "grpc_tools.protoc", "-I", str(proto)]
        files = [str(path) for path in sources(proto)]
        subprocess.run([*protoc, f"--descriptor_set_out={out}", *files], check=True)
        everything = FileDescriptorSet.FromString(out.read_bytes())
    return {file.name: without_json_names(file) for file in everything.file}


def without_json_names(file: FileDescriptorProto) -> FileDescriptorProto:
    """The same file as generated code holds it: the compiler adds the usual names for JSON."""
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
    """Stands in for a gRPC channel and notes which methods a stub asks it for."""

    def __init__(self) -> None:
        self.calls: set[Call] = set()

    def __getattr__(self, kind: str) -> object:
        return lambda path, **_settings: self.calls.add((kind, path))


def calls_of(module: object, file: FileDescriptorProto) -> set[Call]:
    """The methods that the stubs of a generated module call."""
    channel = _Channel()
    for service in file.service:
        getattr(module, f"{service.name}Stub", lambda _channel: None)(channel)
    return channel.calls


def calls_wanted(file: FileDescriptorProto) -> set[Call]:
    """The methods that the contract promises."""
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
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
