"""Pictures of the page `docs/figures.md`, drawn from the results in `docs/results/`.

A picture is one panel, 3.75 inches wide: two stand beside each other on a screen, one above the other on a phone. Its
file has the digest of the results that it was drawn from, so that a test can tell without drawing.
"""

from __future__ import annotations

import hashlib
import io
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from scalable_bandits import analysis, plots
from scalable_bandits.plots import COLOURS
from scalable_bandits.plots.curves import FEW
from scalable_bandits.plots.style import logarithmic
from scalable_bandits.runs.readable import significant
from scalable_bandits.studies import Study

FOLDER = Path(__file__).parent / "figures"
WIDTH, HEIGHT = 3.75, 2.45  # inches, without the legend
ROW = 0.165  # inches of a row of the legend
FONTS = {
    "font.size": 8.5,
    "legend.fontsize": 8.0,
    "axes.titlesize": 9.0,
    "axes.labelsize": 8.5,
    "figure.constrained_layout.w_pad": 0.06,
}
BLUE, RED, GREEN, PINK, ORANGE, SKY, BLACK, GREY = COLOURS
BROWN, INDIGO, WINE, FOREST, TEAL, OLIVE, PURPLE = (
    "#8C510A", "#332288", "#882255", "#117733", "#44AA99", "#999933", "#AA4499"
)  # fmt: skip
# Colour and style of each policy of the page; variants of a policy share its colour.
POLICIES = {
    "GP-UCB": (BLUE, "-"), "IGP-UCB": (RED, "-"), "GP-TS": (GREEN, "-"), "GP-EI": (ORANGE, "-"), "GP-PI": (PINK, "-"),
    "GP-EI, best y": (ORANGE, "--"), "GP-PI, best y": (PINK, "--"), "GP-EI, xi = R": (ORANGE, "-."),
    "MiniGP-EI": (ORANGE, ":"), "IGP-UCB, 4 l": (RED, "--"), "GP-TS, narrow": (GREEN, "--"), "random": (GREY, ":"),
    "mean only": (BLACK, "--"), "variance only": (BLACK, ":"), "pi-GP-UCB": (SKY, "-"),
    "pi-GP-UCB, tightened": (SKY, "--"), "T^q cubes at first": (SKY, "-"), "one cube at first": (BLUE, "--"),
    "SupKernelUCB": (INDIGO, "-"), "PE-GP-UCB": (WINE, "-"), "MLE": (INDIGO, "--"), "fully Bayesian": (FOREST, "-"),
    "regret balancing": (OLIVE, "-."), "R-GP-UCB": (PURPLE, "--"), "R-GP-UCB, P_T unknown": (PURPLE, "-"),
    "SW-GP-UCB": (OLIVE, "--"), "SW-GP-UCB, P_T unknown": (OLIVE, "-"), "SW-GP-UCB, Theorem 2": (OLIVE, ":"),
    "WGP-UCB": (FOREST, "--"), "TV-GP-UCB": (TEAL, "-."), "ET-GP-UCB": (PINK, "-."), "PIMS": (BLACK, "-"),
    "PS-EI": (BROWN, "--"), "IRGP-UCB": (INDIGO, "-."), "LB-GP-UCB": (WINE, "-."), "BKB": (FOREST, "-."),
    "BKB, qbar = 0.5": (FOREST, ":"), "BBKB": (PURPLE, "-."), "BBKB, C = 4": (PURPLE, ":"), "improved": (RED, "-"),
    "whitehouse": (TEAL, "--"), "flynn-reeb": (BLUE, "-."), "time of day": (TEAL, "-"), "average": (BROWN, "-"),
    "average rating": (BROWN, "-."), "Thompson sampling": (GREEN, "-."), "Thompson sampling, narrow": (GREEN, ":"),
    "UCB1": (BLUE, ":"), "successive rejects": (WINE, ":"), "GP-EI, cold": (ORANGE, "-"), "ours": (ORANGE, "-"),
    "TPE": (WINE, "--"), "GPSampler": (FOREST, "-."), "BoTorch": (INDIGO, "-"),
    "CMA-ES": (BLUE, "--"), "TuRBO": (TEAL, "-"), "HEBO": (RED, "-"), "SMAC": (PURPLE, "-"), "Vizier": (GREEN, "-"),
    "Ax": (SKY, "--"), "NGOpt": (BROWN, ":"), "GP-UCB, blind": (BLACK, "-."),
}  # fmt: skip
LOOKS = {name: {"color": colour, "linestyle": style, "linewidth": 1.7} for name, (colour, style) in POLICIES.items()}


class Picture(NamedTuple):
    """A picture of the page."""

    name: str  # of the file, without its suffix
    alt: str  # what is seen
    made_of: Sequence[Path]  # files of results
    draw: Callable[[Axes], Any]
    height: float = HEIGHT  # inches, without the legend

    @property
    def path(self) -> Path:
        """Path of the file."""
        return FOLDER / f"{self.name}.svg"

    @property
    def digest(self) -> str:
        """Digest of the files of results."""
        return hashlib.sha256(b"".join(path.read_bytes() for path in self.made_of)).hexdigest()[:16]

    @property
    def is_current(self) -> bool:
        """Whether the file was drawn from the results."""
        return self.path.is_file() and f"<dc:source>{self.digest}</dc:source>" in self.path.read_text()

    def save(self) -> None:
        """Draw and write the file, with the same bytes each time."""
        with matplotlib.rc_context({**FONTS, "svg.hashsalt": "scalable_bandits", "svg.fonttype": "none"}):
            figure = Figure(figsize=(WIDTH, self.height), layout="constrained")
            ax = figure.subplots()
            self.draw(ax)
            handles, labels = ax.get_legend_handles_labels()
            if labels:
                if all(isinstance(handle, Line2D) for handle in handles):  # as at the end of the curves, from below
                    handles = sorted(handles, key=lambda handle: handle.get_ydata()[-1])
                    labels = [handle.get_label() for handle in handles]
                columns, long = (2 if max(map(len, labels)) < 27 else 1), max(map(len, labels)) > 19
                figure.set_figheight(self.height + ROW * -(-len(labels) // columns) + 0.1)
                figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False,
                              handlelength=1.8 if long else 2.6, columnspacing=1.2, fontsize=7.2 if long else 8.0,
                              labelspacing=0.25, borderpad=0.1)  # fmt: skip
            written = io.StringIO()
            figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None, "Source": self.digest})
        shorter = re.sub(r"\d+\.\d{4,}", lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."),
                         written.getvalue())  # fmt: skip
        self.path.write_text("\n".join(map(str.rstrip, shorter.splitlines())) + "\n")

    def lines(self) -> list[str]:
        """Return the lines of the page that show the picture."""
        text = wrapped(f"![{self.alt}")
        end = f"](figures/{self.name}.svg)"
        return [*text[:-1], text[-1] + end] if len(text[-1] + end) <= 120 else [*text, end]


def wrapped(text: str) -> list[str]:
    """Return a paragraph in lines; names such as GP-UCB stay whole."""
    return textwrap.wrap(text, 118, break_on_hyphens=False)


def slug(text: str) -> str:
    """Return a text as part of a file's name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def listed(values: Sequence[tuple[str, float]]) -> str:
    """Say which policies have the least and the largest value."""
    words = [f"{name} {significant(value, 3)}" for name, value in values]
    return ", ".join(words) if len(words) <= 8 else f"{', '.join(words[:4])}, ..., {', '.join(words[-2:])}"


def of_regret(record: Mapping[str, Any], files: Sequence[Path], **options: Any) -> list[Picture]:
    """Return a picture for each case: regret over rounds, or at the end alone where a result has no curves."""
    found = []
    cases = list(dict.fromkeys(row["case"] for row in record["table"] if row["regret"] is not None))
    several = len(Study.registry[record["study"]].cases) > 1
    for case in cases:
        name = record["study"] + (f"-{slug(case)}" if several else "")
        where = f" ({case})" if several else ""
        last = max(row.get("horizon", record["horizon"]) for row in record["table"])
        rows = [
            row for row in record["table"] if row["case"] == case and row.get("horizon", last) == last and row["regret"]
        ]
        average = record.get("measure") == "average"
        ends = listed([(row["policy"], row["average" if average else "regret"]) for row in rows])
        what = f"{'Average' if average else 'Cumulative'} regret"
        if "curves" in record:
            alt = f"{what} over {last:,} rounds{where}, at the end from the least to the most: {ends}."
            found.append(Picture(name, alt, files, _curves(record, case, several, options)))
        else:
            alt = f"{what} after {last:,} rounds{where}, from the least to the most: {ends}."
            found.append(Picture(name, alt, files, _ends(rows, case, record), 0.9 + 0.2 * len(rows)))
        if sum(bool(one["shares"]) for one in record.get("curves", ()) if one["case"] == case) > 1:
            found.append(_of_priors(record, case, name, files))
    return found


def seen(record: Mapping[str, Any]) -> str:
    """Say what a picture of regrets shows."""
    if "curves" not in record:
        return "Dot: mean over the runs; line: its 95 % confidence interval (Student's t)."
    band = "; band: its 95 % confidence interval (Student's t)" if record["replicates"] >= FEW else ""
    return f"Line: mean over the runs{band}."


def _curves(record: Mapping[str, Any], case: str, titled: bool, options: Mapping[str, Any]) -> Callable[[Axes], Any]:
    def draw(ax: Axes) -> None:
        unknown = {one["policy"] for one in record["curves"]} - set(LOOKS)
        if unknown:
            raise ValueError(f"POLICIES of docs/pictures.py: got no colour of {sorted(unknown)}; allowed: one for each")
        plots.regret_curves(record, case, ax, looks=LOOKS, **options)
        for drawn in ax.lines:
            if len(drawn.get_xdata()) < 8:
                drawn.set(marker="o", markersize=3)
        ax.set_title(case if titled else "")

    return draw


def _ends(rows: Sequence[Mapping[str, Any]], case: str, record: Mapping[str, Any]) -> Callable[[Axes], Any]:
    def draw(ax: Axes) -> None:
        regrets, errors = (np.array([row[key] or 0.0 for row in rows]) for key in ("regret", "standard_error"))
        half = analysis.around(regrets, errors, record["replicates"])
        bars(ax, [row["policy"] for row in rows], regrets, half.high - regrets)
        ax.set_xlabel(f"cumulative regret ({record['unit']})")
        if regrets.min() > 0.0 and regrets.max() > 8.0 * regrets.min():
            logarithmic(ax, "x")
        else:
            ax.set_xlim(left=0.0)
        ax.set_title(case if case != record["study"] else "")

    return draw


def bars(ax: Axes, names: Sequence[str], values: Any, halves: Any) -> None:
    """Draw values with intervals, a row each, from the top."""
    for row, (name, value, half) in enumerate(zip(names, values, halves, strict=True)):
        ax.errorbar(value, row, xerr=half, fmt="o", markersize=4, color=POLICIES[name][0], capsize=2)
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.grid(axis="x", alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)


def _of_priors(record: Mapping[str, Any], case: str, name: str, files: Sequence[Path]) -> Picture:
    def draw(ax: Axes) -> None:
        plots.prior_histogram(record, case, ax)
        for container in ax.containers:
            for bar in container:  # type: ignore[attr-defined]
                bar.set_color(POLICIES[container.get_label()][0])

    used = {one["policy"]: one["shares"] for one in record["curves"] if one["case"] == case and one["shares"]}
    most = {policy: max(shares, key=shares.__getitem__) for policy, shares in used.items()}
    words = [f"{policy} used prior {prior} most ({used[policy][prior]:.0%})" for policy, prior in most.items()]
    return Picture(f"{name}-priors", f"Share of the rounds that used each prior: {', '.join(words)}.", files, draw)


def of_published(
    rows: Sequence[Mapping[str, Any]], quantity: str, name: str, files: Sequence[Path], words: str, *, log: bool = False
) -> Picture:
    """Return a picture of measured numbers with standard errors beside published ones, by case."""
    rows = [row for row in rows if row["quantity"] == quantity and row["ours"] is not None]
    cases, policies = (list(dict.fromkeys(row[key] for row in rows)) for key in ("case", "policy"))

    def draw(ax: Axes) -> None:
        for number, policy in enumerate(policies):
            mine = [row for row in rows if row["policy"] == policy]
            x = np.array([cases.index(row["case"]) for row in mine]) + 0.16 * (number - (len(policies) - 1) / 2)
            colour = POLICIES[policy][0]
            errors = [row["standard_error"] or 0.0 for row in mine]
            ax.errorbar(x, [row["ours"] for row in mine], errors, fmt="o", markersize=4.5, color=colour, capsize=2.5,
                        label=f"{policy}, measured")  # fmt: skip
            ax.plot(x, [seconds_of(row["published"]) for row in mine], "_", color=colour, markersize=13,
                    markeredgewidth=2.2, label=f"{policy}, published")  # fmt: skip
        ax.set_xticks(range(len(cases)), cases)
        ax.set_xlim(-0.5, len(cases) - 0.5)
        if log:
            logarithmic(ax, "y")
        else:
            ax.set_ylim(bottom=0.0)
        ax.set_ylabel(words)
        ax.grid(axis="y", alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)

    pairs = [f"{row['policy']} {row['case']} {significant(row['ours'], 2)} ({row['published']})" for row in rows]
    return Picture(name, f"{words.capitalize()}, measured and in brackets published: {', '.join(pairs)}.", files, draw)


def seconds_of(published: str) -> float:
    """Return a published number; a time in seconds."""
    number, _, unit = published.removeprefix("at most ").partition(" ")
    return float(number) * {"": 1.0, "s": 1.0, "min": 60.0, "hours": 3600.0}[unit]
