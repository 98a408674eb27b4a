"""`course.py wheelhouse`: what is there is not fetched again, unless it is for one system alone."""

from tools import wheelhouse


def test_a_wheel_for_every_system_is_fetched_once(tmp_path):
    for name in ("jupyter_core-5.9.1-py3-none-any.whl", "numpy-2.4.6-cp311-cp311-win_amd64.whl"):
        (tmp_path / name).touch()

    wanted = ["jupyter-core==5.9.1", "numpy==2.4.6", "jupyter-core==5.9.2"]
    assert wheelhouse.missing(wanted, tmp_path) == ["numpy==2.4.6", "jupyter-core==5.9.2"]
