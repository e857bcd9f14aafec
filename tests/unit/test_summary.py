"""What a line says of the sizes between which nothing was looked at."""

import pytest

from backends.base import Problem
from suite.record import Cell, Run, group_key
from suite.render import summary

SIZES = (64, 128, 256, 512, 1024)


def timed(size, device, provenance="measured"):
    problem = Problem(m=size, n=size, k=size)
    seconds = 1e-4 if device == "cuda" else 1e-9 * size**2
    return Cell(
        problem=problem, backend=device, device=device, group=group_key(problem, "pageable"),
        samples_s=(seconds,) * 8, round_of=tuple(range(8)), inner=(1,) * 8, provenance=provenance,
    )  # fmt: skip


def line(sizes, options, **more):
    both = tuple(timed(size, device, **more) for size in sizes for device in ("cpu", "cuda"))
    (found,) = summary.lines(Run(options=options, cells=both))
    return found


@pytest.mark.parametrize(
    ("measured", "spacing"),
    [
        ((*SIZES, 96, 192, 384, 768), 2.0),  # refined everywhere: still only a factor of 2 was looked at
        (SIZES, 2.0),
        ((64, 128, 512, 1024), 4.0),  # no time for 256
        ((64, 128, 192, 320, 512, 1024), 4.0),
        ((*SIZES, 4096), 4.0),
        ((256,), 1.0),
    ],
)
def test_the_spacing_is_that_of_the_sizes_asked_for(measured, spacing):
    assert line(measured, {"sizes": list(SIZES)}).crossover.spacing == spacing


def test_without_the_sizes_asked_for_it_is_the_widest_gap_measured():
    assert line((64, 96, 128), {}).crossover.spacing == 1.5


def test_the_sizes_asked_for_here_say_nothing_of_a_recorded_machine():
    assert line((64, 96, 128), {"sizes": [64, 128]}, provenance="recorded").crossover.spacing == 1.5


def test_a_question_has_the_best_thread_count_unless_it_says_so():
    found = line(SIZES, {})
    assert found.question.threads is None
    assert [entry.note for entry in found.entries] == [""] * 5
