"""Writes the generated parts of README and docs from committed records: `python docs/generate.py`.

A part stands between `<!-- generated: NAME -->` and `<!-- end -->`. With `--check` nothing is written, and
the exit status is 1 when a part is stale.
"""

from __future__ import annotations

import re
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from backends import _cuda_verified  # noqa: E402
from backends.arithmetic import ITEMSIZE  # noqa: E402
from backends.base import Problem  # noqa: E402
from suite import journal, ladder, profiles  # noqa: E402
from suite.analysis import ladder_cuda as cuda_analysis  # noqa: E402
from suite.analysis.ladder import dtypes, sizes  # noqa: E402
from suite.ladder_cuda import RECORDS, intensity  # noqa: E402
from suite.record import Run  # noqa: E402
from suite.render import figures, markdown, summary, tables  # noqa: E402
from suite.render import ladder_cuda as cuda_tables  # noqa: E402
from suite.render import ladder_cuda_details as cuda_details  # noqa: E402
from suite.render import model as model_tables  # noqa: E402
from suite.render import peers as peers_tables  # noqa: E402
from suite.render.ladder import details, overview  # noqa: E402

PART = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
NOTHING = "Nothing has been recorded yet."
USUAL_SIZE = 4096


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def verdicts() -> str:
    """The answer table of every recorded machine, with what holds for its figures."""
    return "".join(head + markdown.table(shown) for head, shown in recorded())


def answers() -> str:
    """The answer tables alone."""
    return "".join(head + table(shown.columns, shown.rows) for head, shown in recorded())


def recorded() -> list[tuple[str, tables.Shown]]:
    """A line that names the machine, and its verdicts, for every recorded one."""
    found = [(profiles.headline(run), run) for run in profiles.available()]
    return [
        (
            f"RECORDED on an **{about['gpu']}** with {about['cpu']}, {about['created'][:10]}:\n\n",
            tables.verdicts(run, summary.lines(run)),
        )
        for about, run in found
    ]


def record() -> dict[str, Any]:
    """cuda/verified.json, empty when there is none."""
    path = _cuda_verified.path()
    return msgspec.json.decode(path.read_bytes()) if path.exists() else {}


def sweep() -> str:
    """Adaptive crossovers beside exhaustive ones."""
    rows = [
        (
            f"{row['op']} {row['dtype']}, {row['mode']}, {row['host_memory']}",
            *(answer(row[way]) for way in ("adaptive", "exhaustive")),
            "yes" if row["agree"] else "NO",
            "yes" if row["narrow"] else "NO",
            ", ".join(map(str, row["against"])) or "none",
        )
        for row in record().get("sweep", [])
    ]
    columns = (
        "question",
        "adaptive: stable from (band)",
        "exhaustive: stable from (band)",
        "agree",
        "narrow",
        "sizes against",
    )
    return table(columns, rows) if rows else ""


def answer(found: dict[str, Any]) -> str:
    """`144 (128 … 144), 17 sizes`."""
    low, high = found["band"]
    band = f" ({low} … {high})" if low is not None and high is not None else ""
    return f"{found['stable_from'] or found['kind']}{band}, {found['sizes']} sizes"


def kernels() -> str:
    """Median time and rate of each verified kernel and of cuBLAS, alone, data resident."""
    content = record()
    timings = [
        (name, entry["status"], timing)
        for name, entry in content.get("kernels", {}).items()
        for timing in entry.get("timings", [])
    ]
    timings += [(timing["backend"], "", timing) for timing in content.get("peers", [])]
    rows = [kernel_row(*entry) for entry in timings if entry[2]["samples_s"]]
    columns = ("problem", "backend", "median", "rate", "status")
    return table(columns, sorted(rows)) if rows else ""


def kernel_row(name: str, status: str, timing: dict[str, Any]) -> tuple[str, ...]:
    """One row of the kernel table; GEMM has a rate in FLOP/s, the others in bytes/s of the least traffic."""
    problem = msgspec.convert(timing["problem"], Problem)
    median_s = statistics.median(timing["samples_s"])
    size = f"{problem.m}×{problem.n}×{problem.k}" if problem.op == "gemm" else f"{problem.m}×{problem.n}"
    rate = f"{problem.bytes_min / median_s / 1e9:.0f} GB/s"
    if problem.op == "gemm":
        rate = f"{problem.flops / median_s / 1e12:.2f} TFLOP/s"
    return (
        f"{problem.op}{' transposed' if problem.trans_a else ''} {problem.dtype} in {problem.math}, {size}",
        name,
        figures.time(median_s),
        rate,
        status,
    )


def ladder_cpu() -> str:
    """Every recorded climb of the CPU's ladder: the rates by size, and all about the largest size."""
    return "\n".join(map(_climb, sorted((ROOT / "docs" / "records").glob("ladder-cpu-*.json"))))


def _climb(path: Path) -> str:
    run = journal.load_run(path)
    about = (
        f"{run.machine['cpu']['model']}, {run.machine['threads']['usable']} threads, {run.created[:10]}:\n\n"
    )
    shown = [table for d in dtypes(run) for table in (overview(run, d), details(run, d, sizes(run, d)[-1]))]
    return about + "\n".join(map(markdown.table, shown))


def cuda_climbs() -> list[Run]:
    """The recorded climbs of GPUs."""
    return [journal.load_run(path) for path in sorted(RECORDS.glob("*.json"))]


def ladder_cuda() -> str:
    """Every recorded climb of a GPU: the rates by problem, and all about the largest square one."""
    return "\n".join(map(_cuda_climb, cuda_climbs()))


def _cuda_climb(run: Run) -> str:
    shown = cuda_tables.overviews(run)
    for group in cuda_analysis.groups(run):
        if group[0] == "square":
            shown.append(cuda_details.details(run, group, _usual(run, group)))
    return f"{cuda_tables.recorded(run)}:\n\n" + "\n".join(map(markdown.table, shown))


def _usual(run: Run, group: cuda_analysis.Group) -> Problem:
    """The size that one figure of a rung is given at: 4096, or else the largest."""
    found = cuda_analysis.problems(run, group)
    return next((p for p in found if p.m == USUAL_SIZE), found[-1])


def ladder_cuda_short() -> str:
    """The fastest variant of each rung in each arithmetic, at the usual size and at others; then gemv."""
    return "\n".join(f"{_short_climb(run)}\n{_short_gemv(run)}" for run in cuda_climbs())


def _short_climb(run: Run) -> str:
    squares = [group for group in cuda_analysis.groups(run) if group[0] == "square"]
    usual = max((_usual(run, group).m for group in squares), default=USUAL_SIZE)
    others = sorted({p.m for group in squares for p in cuda_analysis.problems(run, group)} - {usual})
    rows = [row for group in squares for row in _short_rows(run, group, usual, others)]
    columns = ("rung", "arithmetic", "TFLOP/s", "% of cuBLAS", "% of the roof", "FLOP/B of the tile", "gain")
    more = tuple(f"% of cuBLAS at {size}" for size in others)
    said = "The fastest variant of each rung, named where it is not the default."
    head = f"{cuda_tables.recorded(run)}, M = N = K = {usual}. {said}"
    return f"{head}\n\n{table((*columns, *more), rows)}"


def _short_rows(
    run: Run, group: cuda_analysis.Group, usual: int, others: Sequence[int]
) -> list[tuple[str, ...]]:
    by_size = {p.m: p for p in cuda_analysis.problems(run, group)}
    found = {
        size: {cuda_analysis.stem_of(s): s for s in cuda_analysis.bests(run, group, by_size[size])}
        for size in (usual, *others)
        if size in by_size
    }
    stems = dict.fromkeys(stem for steps in found.values() for stem in steps)
    return [
        (
            *short_row(stem, found.get(usual, {}).get(stem), group),
            *(of_cublas(found.get(size, {}).get(stem)) for size in others),
        )
        for stem in stems
    ]


def short_row(stem: str, step: cuda_analysis.Step | None, group: cuda_analysis.Group) -> tuple[str, ...]:
    """Empty cells where there is no time."""
    how = f"{group[1]} in {group[2]}"
    if step is None or not step.time_s:
        return stem, how, "—", "", "", "", ""
    tile = step.cell.config.get("flop_per_byte", {}).get("tile")
    return (
        step.rung["name"],
        how,
        figures.significant(step.flop_s / 1e12),
        f"{step.of_reference * 100:.0f}" if step.of_reference else "",
        f"{step.share * 100:.0f}" if step.share else "",
        figures.significant(tile) if tile else "",
        f"×{figures.significant(step.gain)}" if step.gain and step.rung["name"] != "cublas" else "",
    )


def of_cublas(step: cuda_analysis.Step | None) -> str:
    """`107 (sliced)`: percent, and the variant where it is not the default."""
    if step is None or not step.of_reference:
        return ""
    variant = cuda_analysis.variant_of(step)
    return f"{step.of_reference * 100:.0f}" + (f" ({variant})" if variant else "")


def _short_gemv(run: Run) -> str:
    """Our fastest kernel for y = A x at every size beside cuBLAS."""
    groups = [group for group in cuda_analysis.groups(run) if group[0] in ("gemv", "gemv_t")]
    rows = [row for group in groups for row in _gemv_rows(run, group)]
    columns = ("y = A x", "arithmetic", "size", "fastest of ours", "GB/s", "% of cuBLAS", "% of copying")
    return table(columns, rows) if rows else ""


def _gemv_rows(run: Run, group: cuda_analysis.Group) -> list[tuple[str, ...]]:
    found = []
    for problem in cuda_analysis.problems(run, group):
        step = cuda_analysis.fastest_of_ours(cuda_analysis.steps(run, group, problem))
        stored = "A by columns" if problem.trans_a else "A by rows"
        if step is not None:
            share, part = (f"{x * 100:.0f}" if x else "" for x in (step.of_reference, step.share))
            rate = figures.significant(step.byte_s / 1e9)
            found.append(
                (stored, f"{group[1]} in {group[2]}", str(problem.m), step.rung["name"], rate, share, part)
            )
    return found


def ladder_cuda_rungs() -> str:
    """Every kernel file: what it teaches, its default tile and the intensity of that."""
    rows = []
    for rung in ladder.provider("cuda").rungs():
        kernel = getattr(rung.backend, "kernel", None)
        if kernel is None or rung.beside:
            continue
        h, tile = kernel.header, kernel.variant.tile
        value = intensity(h, kernel.variant, ITEMSIZE[h.dtypes[0]])
        maths = ", ".join(dict.fromkeys(h.math))
        shape = "×".join(map(str, tile[:2] if h.op == "gemm" else tile[:1] if h.op == "gemv" else tile[1:2]))
        link = f"[{rung.name}](../cuda/kernels/{kernel.path.name})"
        rows.append((link, h.teaches, maths, shape, f"{figures.significant(value)} ({h.dtypes[0]})"))
    return table(("rung", "teaches", "arithmetic", "tile", "FLOP/B"), rows)


def peers() -> str:
    """For every recorded comparison with other libraries, the bars: met or not, with the figure."""
    return "\n".join(
        f"{peers_tables.headline(run)}\n\n{_plain(peers_tables.bars(run))}" for run in peer_runs()
    )


def peers_figures() -> str:
    """Every figure of those comparisons, a table for each class, type and number of threads."""
    return "\n".join(
        "\n".join([f"{peers_tables.headline(run)}\n", *map(markdown.table, peers_tables.by_class(run))])
        for run in peer_runs()
    )


def peer_runs() -> list[Run]:
    """The recorded comparisons."""
    return [journal.load_run(path) for path in sorted((ROOT / "docs" / "records").glob("peers-*.json"))]


def model_errors() -> str:
    """How far the model of every recorded machine is off where it was not fitted."""
    return "\n".join(
        f"RECORDED on an **{profiles.headline(run)['gpu']}**, {run.created[:10]}:\n\n"
        + table(model_tables.ERRORS, model_tables.errors(run))
        for run in profiles.available()
    )


def simulated() -> str:
    """How often the search is right on simulated machines, and how many of those asked for were reached."""
    found = msgspec.json.decode((ROOT / "docs" / "records" / "simulated.json").read_bytes())
    rows = [
        (
            f"{float(noise):.0%}",
            f"{level['machines']} of {found['asked_machines']}",
            f"{level['held']:.1%}",
            f"{level['machines_with_a_wrong_verdict']:.1%}",
            f"{level['wrong_verdicts']:.2%}",
            f"{level['median_band']:.1%}",
        )
        for noise, level in found["levels"].items()
    ]
    columns = (
        "noise and drift",
        "machines reached",
        "true crossover in the band",
        "machines with a wrong verdict",
        "sizes with one",
        "band (median)",
    )
    return table(columns, rows)


def _plain(shown: tables.Shown) -> str:
    """A table and its notes without a heading."""
    return table(shown.columns, shown.rows) + "".join(f"\n{note}\n" for note in shown.notes)


PARTS = {
    "model-errors": model_errors,
    "peers": peers,
    "peers-figures": peers_figures,
    "verdicts": verdicts,
    "answers": answers,
    "sweep": sweep,
    "simulated": simulated,
    "kernels": kernels,
    "ladder-cpu": ladder_cpu,
    "ladder-cuda": ladder_cuda,
    "ladder-cuda-short": ladder_cuda_short,
    "ladder-cuda-rungs": ladder_cuda_rungs,
}


def documents(root: Path) -> list[Path]:
    """Every document that may have generated parts."""
    return [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]


def renewed(text: str) -> str:
    """`text` with every generated part written anew. KeyError for an unknown part."""
    return PART.sub(lambda part: f"{part[1]}{(PARTS[part[2]]() or NOTHING).rstrip()}\n{part[3]}", text)


def stale(root: Path = ROOT) -> list[str]:
    """Documents whose generated parts are not what the records say."""
    texts = {path: path.read_text() for path in documents(root)}
    return [str(path.relative_to(root)) for path, text in texts.items() if renewed(text) != text]


def main() -> int:
    """Rewrite, or with --check only look."""
    names = stale()
    if "--check" not in sys.argv:
        for name in names:
            path = ROOT / name
            path.write_text(renewed(path.read_text()))
    print("\n".join(names) or "all generated parts are up to date")
    return 1 if names and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
