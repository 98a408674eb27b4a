"""`course.py bench processes`: which numbers of processes a machine measures."""

from benchmarks.cost import Cost
from benchmarks.processes import FEW, MOST_PROCESSES, setups

COST = Cost(100e-6, 200e-6, 50e-6, 150e-6)


def test_two_cores_measure_one_and_two_of_each():
    assert setups(COST, 1) == setups(COST, 2) == list(FEW)


def test_a_larger_machine_measures_what_should_fill_its_cores():
    # per core 3,333 operations/s, of which each generator sends 20,000 and each server does 6,667
    assert setups(COST, 16)[len(FEW) :] == [(2, 4), (3, 8)]
    assert setups(COST, 12)[len(FEW) :] == [(2, 4), (2, 6)]


def test_no_machine_starts_more_processes_than_it_may():
    assert max(map(sum, setups(COST, 1024))) <= MOST_PROCESSES
