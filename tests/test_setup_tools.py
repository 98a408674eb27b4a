"""tools/: is the environment complete, the generated code fresh, are the notebooks bare."""

import json
import shutil
from pathlib import Path

import pytest

from tools import generated, notebooks, satisfied

ROOT = Path(__file__).resolve().parent.parent


def test_what_is_absent_or_too_old_is_named():
    elsewhere = "no-such-package>=1; sys_platform == 'plan9'"
    lacking = list(satisfied.unmet(["no-such-package>=1", "pytest>=9999", "pytest>=1", elsewhere]))

    assert lacking[0] == "no-such-package is not installed"
    assert lacking[1].startswith("pytest is ")
    assert lacking[1].endswith("needed is >=9999")
    assert len(lacking) == 2


def record(site: Path, origin: dict | None) -> None:
    """Make `site` look as if the course were installed in it."""
    info = site / "rpc_throughput_course-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: rpc-throughput-course\nVersion: 0.1.0\n")
    if origin:
        (info / "direct_url.json").write_text(json.dumps(origin))


def test_only_an_editable_install_of_this_checkout_counts(tmp_path, monkeypatch):
    """Otherwise the tests would test other code than the one that is read."""
    origins = {
        "editable from here": {"url": ROOT.as_uri(), "dir_info": {"editable": True}},
        "a copy": {"url": ROOT.as_uri(), "dir_info": {}},
        "another checkout": {"url": ROOT.parent.as_uri(), "dir_info": {"editable": True}},
        "from an index": None,
    }
    counts = []
    for name, origin in origins.items():
        (site := tmp_path / name).mkdir()
        record(site, origin)
        with monkeypatch.context() as patch:
            patch.syspath_prepend(site)
            if satisfied.installed_from_here("rpc-throughput-course"):
                counts.append(name)

    assert counts == ["editable from here"]
    assert not satisfied.installed_from_here("rpc-throughput-course-not-installed")


def test_a_change_of_the_contract_is_noticed(tmp_path):
    assert list(generated.differences(ROOT / "proto")) == []
    shutil.copytree(ROOT / "proto", tmp_path / "proto")
    contract = tmp_path / "proto" / "kvstore" / "v1" / "kvstore.proto"
    text = contract.read_text()
    contract.write_text(text.replace("bytes key = 1;", "bytes key = 3;"))
    assert contract.read_text() != text

    (difference,) = generated.differences(tmp_path / "proto")
    assert "kvstore_pb2.py differs" in difference


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


def with_traces(notebook: dict) -> None:
    notebook["cells"][1]["metadata"]["execution"] = {"iopub.status.busy": "2026-01-01"}


def with_nonsense(notebook: dict) -> None:
    notebook["cells"][0]["cell_type"] = "poem"


@pytest.mark.parametrize(
    ("defect", "says", "can_be_fixed"),
    [
        (with_output, "has outputs", True),
        (with_traces, "has metadata of a run or an editor", True),
        (with_nonsense, "is not a valid notebook", False),
    ],
)
def test_what_is_amiss_is_reported_and_fixed_where_a_tool_can(
    defect, says, can_be_fixed, tmp_path, capsys
):
    file, notebook = tmp_path / "lesson.ipynb", bare()
    defect(notebook)
    file.write_text(json.dumps(notebook))

    statuses = [notebooks.main(how, tmp_path) for how in ([], ["--fix"], [])]

    assert f"lesson.ipynb: {says}" in capsys.readouterr().out
    assert statuses == ([1, 0, 0] if can_be_fixed else [1, 1, 1])
    after = json.loads(file.read_text())
    assert [c["source"] for c in after["cells"]] == [c["source"] for c in bare()["cells"]]
    assert (after == notebook) != can_be_fixed
    assert list(notebooks.problems_of(json.dumps(bare()))) == ["is not in the format of Jupyter"]
