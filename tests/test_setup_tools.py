"""tools/: is the environment complete, the generated code fresh, are the notebooks bare."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tools import generated, notebooks, satisfied

ROOT = Path(__file__).resolve().parent.parent


# ---- is this environment complete ----------------------------------------------------------


def test_what_is_absent_or_too_old_is_named():
    lacking = list(satisfied.unmet(["no-such-package>=1", "pytest>=9999", "pytest>=1"]))

    assert lacking[0] == "no-such-package is not installed"
    assert lacking[1].startswith("pytest is ")
    assert lacking[1].endswith("needed is >=9999")
    assert len(lacking) == 2


def test_what_another_system_needs_is_not_missed():
    assert list(satisfied.unmet(["no-such-package>=1; sys_platform == 'plan9'"])) == []


def record(site: Path, origin: dict | None) -> None:
    """Make `site` look as if the course were installed in it."""
    info = site / "rpc_throughput_course-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: rpc-throughput-course\nVersion: 0.1.0\n")
    if origin:
        (info / "direct_url.json").write_text(json.dumps(origin))


@pytest.mark.parametrize(
    ("origin", "here"),
    [
        ({"url": ROOT.as_uri(), "dir_info": {"editable": True}}, True),
        ({"url": ROOT.as_uri(), "dir_info": {}}, False),
        ({"url": ROOT.parent.as_uri(), "dir_info": {"editable": True}}, False),
        (None, False),
    ],
    ids=["editable from here", "a copy", "another checkout", "from an index"],
)
def test_only_an_editable_install_of_this_checkout_counts(origin, here, tmp_path, monkeypatch):
    """Otherwise the tests would test other code than the one that is read."""
    record(tmp_path, origin)
    monkeypatch.syspath_prepend(tmp_path)

    assert satisfied.installed_from_here("rpc-throughput-course") is here


def test_a_course_that_is_not_installed_at_all_is_not_from_here():
    assert not satisfied.installed_from_here("rpc-throughput-course-of-nobody")


# ---- is the generated code fresh -----------------------------------------------------------


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    """A copy of the contract, to be changed."""
    return Path(shutil.copytree(ROOT / "proto", tmp_path / "proto"))


def test_the_code_says_what_the_contract_says():
    assert list(generated.differences(ROOT / "proto")) == []


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("bytes key = 1;", "bytes key = 3;", "kvstore_pb2 says something else"),
        ("rpc Delete(", "rpc Erase(", "kvstore_pb2_grpc has other methods"),
        (
            "returns (stream PipelineResponse)",
            "returns (PipelineResponse)",
            "kvstore_pb2_grpc has other methods",
        ),
    ],
    ids=["number of a field", "name of a method", "kind of a method"],
)
def test_a_change_of_the_contract_is_noticed(old, new, told, contract):
    file = contract / "kvstore" / "v1" / "kvstore.proto"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))

    assert any(told in difference for difference in generated.differences(contract))


def test_a_new_file_of_the_contract_is_noticed(contract):
    (contract / "kvstore" / "v1" / "extra.proto").write_text(
        'syntax = "proto3"; package kvstore.v1; message Extra { bytes text_of_it = 1; }'
    )

    (difference,) = generated.differences(contract)
    assert difference.startswith("kvstore/v1/extra.proto: no code was written from it")


def test_the_generator_is_the_floor_that_pyproject_promises():
    floor = generated.GENERATOR.split("==")[1].removesuffix(".0")

    assert f'"grpcio>={floor}"' in (ROOT / "pyproject.toml").read_text()


# ---- are the notebooks bare ----------------------------------------------------------------


def bare() -> dict:
    """A notebook as it is to be committed."""
    cells = [
        {"cell_type": "markdown", "id": "a", "metadata": {}, "source": ["# Grüße\n", "Text"]},
        {
            "cell_type": "code",
            "execution_count": None,
            "id": "b",
            "metadata": {"tags": ["exercise"]},
            "outputs": [],
            "source": ["1 + 1"],
        },
    ]
    return notebooks.stripped({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def with_output(notebook: dict) -> None:
    notebook["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["2"]}]


def with_count(notebook: dict) -> None:
    notebook["cells"][1]["execution_count"] = 3


def with_no_id(notebook: dict) -> None:
    del notebook["cells"][0]["id"]


def with_traces(notebook: dict) -> None:
    notebook["cells"][1]["metadata"]["execution"] = {"iopub.status.busy": "2026-01-01"}


def with_version(notebook: dict) -> None:
    notebook["metadata"]["language_info"]["version"] = "3.13.0"


def with_same_ids(notebook: dict) -> None:
    notebook["cells"][1]["id"] = "a"


def with_nonsense(notebook: dict) -> None:
    notebook["cells"][0]["cell_type"] = "poem"


DEFECTS = {
    with_output: "has outputs",
    with_count: "has outputs",
    with_no_id: "has a cell with no id",
    with_traces: "has metadata that running or looking at it left behind",
    with_version: "has metadata that running or looking at it left behind",
}
BEYOND_REPAIR = {with_same_ids: "has two cells with the same id", with_nonsense: "is not a valid"}


def test_a_bare_notebook_is_fine():
    assert list(notebooks.amiss(notebooks.laid_out(bare()))) == []


@pytest.mark.parametrize(("defect", "told"), {**DEFECTS, **BEYOND_REPAIR}.items())
def test_what_is_amiss_is_said(defect, told):
    notebook = bare()
    defect(notebook)

    (said,) = notebooks.amiss(notebooks.laid_out(notebook))
    assert said.startswith(told)


@pytest.mark.parametrize("text", ["", "{}", "[]", "no json", '{"cells": 3}'])
def test_what_is_no_notebook_is_said(text, tmp_path):
    (tmp_path / "a.ipynb").write_text(text)

    (said,) = notebooks.amiss(text)

    assert said.startswith("is not a valid notebook")
    assert notebooks.fixed(tmp_path / "a.ipynb") == [said]
    assert (tmp_path / "a.ipynb").read_text() == text


def test_another_layout_is_said():
    assert list(notebooks.amiss(json.dumps(bare()))) == ["is laid out in another way"]


@pytest.mark.parametrize("defect", DEFECTS)
def test_fix_puts_right_what_can_be(defect, tmp_path):
    notebook = bare()
    defect(notebook)
    file = tmp_path / "lesson.ipynb"
    file.write_text(json.dumps(notebook))

    assert notebooks.main([], tmp_path) == 1
    assert notebooks.main(["--fix"], tmp_path) == 0
    assert notebooks.main([], tmp_path) == 0
    assert [cell["source"] for cell in json.loads(file.read_text())["cells"]] == [
        cell["source"] for cell in bare()["cells"]
    ]


def test_an_id_that_was_given_once_stays():
    notebook = bare()
    with_no_id(notebook)
    once = notebooks.stripped(notebook)

    assert notebooks.stripped(once) == once
    assert once["cells"][0]["id"] == "cell-001"


def test_jupyter_lays_a_notebook_out_the_same_way(tmp_path):
    """Opening and saving a lesson must not change its bytes."""
    file = tmp_path / "lesson.ipynb"
    file.write_text(notebooks.laid_out(bare()), encoding="utf-8")

    nbformat.write(nbformat.read(file, as_version=4), file)

    assert file.read_text(encoding="utf-8") == notebooks.laid_out(bare())


def test_ruff_leaves_the_layout_alone(tmp_path):
    """`check --fix` lays out first and formats the code second."""
    notebook = bare()
    notebook["cells"][1]["source"] = ["x = ( 1+1 )\n", "print( 'ü' )"]
    file = tmp_path / "lesson.ipynb"
    file.write_text(notebooks.laid_out(notebook), encoding="utf-8")

    subprocess.run([sys.executable, "-m", "ruff", "format", "-q", file], check=True)

    assert '"x = 1 + 1\\n"' in file.read_text(encoding="utf-8")
    assert list(notebooks.amiss(file.read_text(encoding="utf-8"))) == []
