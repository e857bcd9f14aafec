"""Two visits to one comparison group as one."""

import msgspec

from backends.base import Problem
from suite.analysis.controls import DELAY_KEY, group_resolution
from suite.analysis.ratio import paired_logs
from suite.pooling import pooled
from suite.record import Cell

P = Problem(m=4, n=4, k=4)


def cell(backend="b", device="cpu", samples=(1.0, 2.0), rounds=(0, 1), **more):
    return Cell(
        problem=P, backend=backend, device=device, samples_s=samples, round_of=rounds,
        inner=(1,) * len(samples), **more,
    )  # fmt: skip


def test_the_same_candidate_keeps_the_samples_of_both_visits_in_rounds_of_their_own():
    (one,) = pooled([cell(flags=("noisy",))], [cell(samples=(3.0, 4.0, 5.0), rounds=(0, 0, 1))])
    assert one.samples_s == (1.0, 2.0, 3.0, 4.0, 5.0)
    assert one.round_of == (0, 1, 2, 2, 3)
    assert one.times_s == (1.0, 2.0, 3.5, 5.0)
    assert len(one.inner) == 5 and one.flags == ("noisy",)


def test_pairs_stay_pairs_when_one_side_changed_its_candidate():
    first = [cell(), cell("old", "cuda")]
    second = [cell(samples=(8.0, 8.0)), cell("new", "cuda", samples=(2.0, 2.0))]
    cpu, gpu = pooled(first, second)
    assert cpu.samples_s == (1.0, 2.0, 8.0, 8.0) and gpu.samples_s == (2.0, 2.0)
    assert list(paired_logs(cpu, gpu).round(6)) == [1.386294, 1.386294]


def test_another_thread_count_is_another_candidate():
    (one,) = pooled([cell(threads=1)], [cell(threads=2)])
    assert one.threads == 2 and one.samples_s == (1.0, 2.0) and one.round_of == (2, 3)


def test_a_visit_without_a_time_says_so_and_costs_no_earlier_one():
    failed = msgspec.structs.replace(cell(), samples_s=(), round_of=(), inner=(), skip_reason="no memory")
    once = pooled([cell()], [failed])
    assert once == [failed, cell()]
    assert pooled([failed], [cell()])[0].samples_s == (1.0, 2.0)
    (again,) = pooled(once, [cell()])
    assert again.samples_s == (1.0, 2.0, 1.0, 2.0) and again.round_of == (0, 1, 2, 3)


def test_a_side_that_could_not_be_opened_again_keeps_its_time_and_its_controls():
    first = [cell(), cell("g", "cuda", kernel_hash="h"),
             cell("g", "cuda", role="control_aa", kernel_hash="h")]  # fmt: skip
    skipped = cell("g", "cuda", samples=(), rounds=(), skip_reason="no memory")
    found = pooled(first, [cell(), skipped])
    assert found[1:] == [skipped, *first[1:]]
    assert list(paired_logs(found[0], found[2])) == [0.0, 0.0]


def test_controls_that_a_visit_could_not_afford_stay_while_their_candidate_does():
    control = cell(role="control_aa", samples=(1.0, 2.1))
    once, kept = pooled([cell(), control], [cell()])
    assert once.round_of == (0, 1, 2, 3) and kept == control
    assert group_resolution([once, kept]).controls
    assert [c.role for c in pooled([cell(), control], [cell("other")])] == ["candidate"]


def test_a_third_visit_counts_on_from_the_second():
    twice = pooled([cell()], [cell()])
    assert pooled(twice, [cell()])[0].round_of == (0, 1, 2, 3, 4, 5)


def test_what_a_later_visit_did_not_ask_about_stays():
    first = [cell(transfer="resident"), cell(transfer="always"), cell("rival", role="pilot")]
    found = pooled(first, [cell(transfer="resident")])
    assert [(c.transfer, c.role, len(c.samples_s)) for c in found] == [
        ("resident", "candidate", 4), ("always", "candidate", 2), ("resident", "pilot", 2),
    ]  # fmt: skip


def test_visits_are_numbered_on_and_counts_add_up():
    first = cell(visit_of=(0, 0), throttled=2, outliers=1, slow_visits=(0,))
    once = pooled([first], [cell(visit_of=(0, 0), outliers=1)])
    (twice,) = pooled(once, [cell(visit_of=(0, 0), throttled=2, slow_visits=(0,))])
    assert twice.visit_of == (0, 0, 1, 1, 2, 2) and twice.slow_visits == (0, 2)
    assert (twice.throttled, twice.outliers) == (4, 2)


def test_each_visit_has_the_known_delay_of_its_own():
    """The machine is 1.3 times slower in the later visits, and so is the delay; there is no noise."""

    def visit(time_s, rounds):
        about = {"rounds": tuple(range(rounds)), "visit_of": (0,) * rounds}
        delay_s = 0.05 * time_s
        delayed = cell(role="control_delay", samples=(time_s + delay_s,) * rounds,
                       config={DELAY_KEY: delay_s}, **about)  # fmt: skip
        return [cell(samples=(time_s,) * rounds, **about), delayed]

    twice = pooled(visit(1.0, 12), visit(1.3, 8))
    assert group_resolution(twice).ratio < 1.0001
    thrice = pooled(twice, visit(1.3, 8))
    assert group_resolution(thrice).ratio < 1.0001
    without = pooled(thrice, visit(2.0, 8)[:1])
    assert group_resolution(without).ratio < 1.0001 and len(without) == 2
