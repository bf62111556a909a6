"""The report: complete in itself, escaped, and readable in a browser, wide and narrow."""

from __future__ import annotations

import copy
import html
import html.parser
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from cases.command import command
from cases.studies import arms

import scalable_bandits as sb
from scalable_bandits.report import page
from scalable_bandits.runs.result import best_points
from scalable_bandits.studies import Problem, Replicate, Study

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
HOSTILE = "<script>alert('x')</script> & \"quoted\" $x_1$ $\\none$"
VOID = {"meta", "link", "img", "br", "hr", "input"}


def build(replicate: Replicate) -> Problem:
    return arms(replicate, "ucb <i> $\\none$")


TOY = Study(
    name="toy", title=f"A toy, naïve {HOSTILE}", source="nowhere", cases=("a & b", HOSTILE), build=build, horizon=40,
    replicates=2, duration="no time", timed=True,
)  # fmt: skip


@pytest.fixture(scope="module")
def places(tmp_path_factory) -> dict[str, Path]:
    """A study's store, a simulation, a run with several priors, and one of a user's function."""
    folder = tmp_path_factory.mktemp("report")
    TOY.run(store=folder / "study")
    square, line = sb.Grid([[0, 1], [0, 1]], 12), sb.Grid([[0, 1]], 30)
    options: dict[str, Any] = {"noise": 0.1, "regularization": 0.01}
    policy = sb.GPUCB(square, sb.RBF(0.2), scale=5, **options)
    sb.simulate(policy, sb.GPSample(square, sb.RBF(0.2), sb.GaussianNoise(0.1)), 30, store=folder / "run.zarr")
    priors = [sb.Prior(HOSTILE, sb.RBF(0.2)), sb.Prior("high", sb.RBF(0.2), mean=40.0)]
    world = sb.GPSample(line, sb.RBF(0.2), sb.GaussianNoise(0.1))
    sb.simulate(sb.PEGPUCB(line, priors, **options), world, 30, store=folder / "priors.zarr")
    tuned = sb.GPEI(sb.Box([[0, 10], [0, 1]]), sb.RBF((3.0, 0.3)), **options)
    sb.maximize(lambda x: -float(x[0]), tuned, 12, store=folder / "tuned.zarr")
    return {path.name: path for path in folder.iterdir()}


@pytest.fixture(scope="module")
def pages(places) -> dict[str, str]:
    class Pages(dict[str, str]):
        def __missing__(self, name: str) -> str:  # a page takes seconds: only those that are looked at
            return self.setdefault(name, page(places[name]))

    return Pages()


KINDS = ("study", "run.zarr", "priors.zarr", "tuned.zarr")


class Reader(html.parser.HTMLParser):
    """Text, tags and what they refer to; tags that do not close are an error."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.links, self.words = [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [(tag, name, value) for name, value in attributes if name in ("src", "href", "srcset", "data")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


@pytest.mark.parametrize(
    "name", ["study", *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != "study")]
)
def test_complete_in_itself(pages, name):
    """Parses; no scripts; whatever it refers to is in it; and so are the figures' own references."""
    found = read(pages[name])
    assert not {"script", "iframe", "object", "embed"} & set(found.tags)
    assert found.tags.count("img") >= 2
    assert all(value.startswith(("data:", "#")) for _, _, value in found.links)
    assert not re.search(r"@import|url\(", pages[name])
    targets = {value for _, name, value in found.links if value.startswith("#")}
    assert targets
    assert all(f'id="{target[1:]}"' in pages[name] for target in targets)


def test_a_study_has_every_policy_and_case(pages):
    words = "".join(read(pages["study"]).words)
    for expected in (*TOY.cases, "ucb <i> $\\none$", "random", TOY.title, "8 of 8 runs"):
        assert expected in words
    assert "Run what is missing" not in words
    assert "Time per round" in words
    assert "numpy" in words


@pytest.mark.slow
def test_a_finished_dataset_and_an_unfinished_study(tmp_path):
    study = attrs.evolve(TOY, cases=("a",), replicates=2)
    sb_store = tmp_path / "study"
    study.run(store=sb_store)
    shutil.rmtree(next(sb_store.glob("a/random/0001")))
    text = page(sb_store)
    assert "3 of 4 runs" in text
    assert f"scalable-bandits resume {sb_store}" in text
    from scalable_bandits import store

    (tmp_path / "made").mkdir()
    store.save(study.run(), tmp_path / "made" / "result.zarr")
    assert "4 of 4 runs" in page(tmp_path / "made")


@pytest.mark.slow
def test_a_study_without_a_source_says_nothing_of_it(tmp_path):
    attrs.evolve(TOY, source="", cases=("a",), replicates=1).run(store=tmp_path / "study")
    text = page(tmp_path / "study")
    assert "<dt>study</dt>" in text
    assert "<dt>source</dt>" not in text


def test_a_named_study_says_its_command(tmp_path):
    study = Study.load("srinivas2010-synthetic")
    study.run(replicates=1, horizon=12, seed=5, policies=["GP-UCB", "random"], store=tmp_path / "kept")
    words = "".join(read(page(tmp_path / "kept")).words)
    command = re.search(r"scalable-bandits run .*?--policy random", words, re.DOTALL).group()
    expected = "srinivas2010-synthetic --replicates 1 --horizon 12 --seed 5 --policy GP-UCB --policy random"
    assert command.replace(" \\\n ", "") == f"scalable-bandits run {expected}"


@pytest.mark.parametrize("name", ["mine", "srinivas2010-synthetic"])
@pytest.mark.sampled(2)
@pytest.mark.slow
def test_a_study_of_a_file_has_it_in_the_page(name, tmp_path, monkeypatch):
    """What the page says gives the same numbers again; a copy that was changed does not go by its first name."""
    from scalable_bandits import store

    tables = Study.load("srinivas2010-synthetic").to_dict()
    tables["policies"] = {label: tables["policies"][label] for label in ("GP-UCB", "random")}
    result = Study.from_dict({**tables, "name": name, "title": name}).run(replicates=2, horizon=12, seed=5)
    store.save(result, tmp_path / "result.zarr")
    words = "".join(read(page(tmp_path)).words)
    assert "srinivas2010-synthetic" not in words or name == "srinivas2010-synthetic"
    text = words.partition("save it as study.toml")[2].partition("Run the study again")[0]
    (tmp_path / "study.toml").write_text(text)
    assert "scalable-bandits run study.toml\n" in words
    monkeypatch.chdir(tmp_path)
    assert command("run", "study.toml", "--out", "again").exit_code == 0
    again = store.load(tmp_path / "again" / "result.zarr").load()
    np.testing.assert_array_equal(again["regret"], result["regret"])


@pytest.mark.slow
def test_published_numbers_stand_beside_the_named_study_alone(tmp_path):
    study = Study.load("janz2020-table1")
    tables = copy.deepcopy(study.to_dict())
    tables["shared"]["policies"]["delta"] = 0.2
    for changed, kept in ((Study.from_dict(tables), tmp_path / "changed"), (study, tmp_path / "named")):
        changed.run(cases=["d = 1"], policies=["pi-GP-UCB"], replicates=1, horizon=20, store=kept)
    assert "Published results" in page(tmp_path / "named")
    assert "Published results" not in page(tmp_path / "changed")


def test_a_run_says_what_it_is(pages, places):
    words = {name: "".join(read(pages[name]).words) for name in KINDS if name != "study"}
    assert "GPUCB on GPSample" in words["run.zarr"]
    assert "30 of 30" in words["run.zarr"]
    assert "scalable-bandits resume" in words["run.zarr"]
    assert json.dumps(HOSTILE) in words["priors.zarr"]
    assert "scalable-bandits resume" in words["tuned.zarr"]
    assert "tuned.zarr --rounds 24 --function module:name" in words["tuned.zarr"]
    dl = r"Recommended point</h3>\s+<dl>\s+<dt>x</dt><dd>(\S+), (\S+)</dd>\s+<dt>posterior mean</dt><dd>(\S+)</dd>"
    best = re.search(dl, pages["tuned.zarr"])
    run = sb.ObservationStore.open(places["tuned.zarr"]).read(names=["x", "y"])
    policy = sb.GPEI(sb.Box([[0, 10], [0, 1]]), sb.RBF((3.0, 0.3)), noise=0.1, regularization=0.01)
    policy.tell(run["x"], run["y"])
    expected = [*policy.best().x, policy.best().mean]
    np.testing.assert_allclose([float(number) for number in best.groups()], expected, rtol=1e-3)
    for name in ("run.zarr", "priors.zarr", "tuned.zarr"):
        assert "posterior after the last round" in words[name]


@pytest.mark.slow
def test_a_run_on_a_box_some_of_whose_evaluations_failed(tmp_path):
    """Points given up have numbers, too: those of the rounds are beyond the count of their points."""

    calls = []

    def experiment(x):
        calls.append(x)
        if len(calls) < 5:
            raise RuntimeError("too hot")
        return float(np.sin(x[0]))

    policy = sb.VarianceOnly(sb.Box([[0, 10]]), sb.RBF(3.0), noise=0.1, regularization=0.01)
    found = sb.maximize(experiment, policy, budget=12, parallel=1, retries=0, store=tmp_path / "run.zarr")
    with sb.ObservationStore.open(tmp_path / "run.zarr") as run:
        candidates = run.read(names=["candidate"])["candidate"]
    assert candidates.max() >= len(np.unique(candidates))
    assert found.failed
    assert "dots: observations" in page(tmp_path / "run.zarr")


@pytest.mark.slow
def test_a_tuned_space_is_shown_by_its_names(tmp_path):
    """The best settings as a table, the pictures, and the observations with a column a parameter; `where` or not."""
    space = sb.SearchSpace(
        {
            HOSTILE: sb.Integer(1, 6),
            "rate": sb.Real(1e-4, 0.1, log=True),
            "kind": sb.Categorical(["a", None]),
            "share": sb.Real(0.0, 0.5, when={"kind": "a"}),
        },
        where=lambda setting: setting[HOSTILE] < 6,
    )

    def experiment(setting):
        if setting[HOSTILE] == 5:
            raise RuntimeError("too <hot>")
        return setting[HOSTILE] + setting.get("share", 1.0)

    policy = sb.GPEI(space, sb.RBF(0.8), noise=0.1, regularization=0.01, minimize=True, candidates=64)
    found = sb.minimize(experiment, policy, 12, parallel=1, retries=0, store=tmp_path / "named.zarr")
    text = page(tmp_path / "named.zarr")
    words = read(text).words
    assert f"{best_points(found).heading}." in words
    for title in ("Measured values and the best so far", "Importance of the parameters", "All settings"):
        assert f'alt="{title}"' in text
    cells = [html.unescape(cell) for cell in re.findall(r"<td[^>]*>([^<]*)</td>", text)]
    expected = [cell for row in best_points(found).rows for cell in row]
    assert cells[: len(expected)] == expected
    headings = re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', text)
    titles = ["round", *space.names, "y", "after round", "x", "error"]
    assert [html.unescape(heading) for heading in headings[-len(titles) :]] == titles
    assert "Not drawn" not in text


@pytest.mark.slow
def test_a_run_with_a_function_says_why_its_posterior_is_missing(tmp_path):
    space = sb.Grid([[0, 1]], 20)
    policy = sb.GPUCB(space, sb.RBF(0.2), noise=0.1, regularization=0.01, prior_mean=lambda x: x[:, 0])
    sb.simulate(policy, sb.GPSample(space, sb.RBF(0.2), sb.GaussianNoise(0.1)), 8, store=tmp_path / "run.zarr")
    assert "Not drawn. policy.prior_mean: got" in page(tmp_path / "run.zarr")


@pytest.mark.slow
def test_the_command(places, tmp_path):
    """Writes, writes over its own pages only, and refuses what is neither a study nor a run with code 2."""

    out = tmp_path / "deep" / "page.html"
    for _ in range(2):
        done = command("report", places["study"], "--out", out)
        assert (done.exit_code, done.stdout) == (0, f"Saved: {out}\n"), done.output
    assert "naïve" in out.read_text(encoding="utf-8")
    other = tmp_path / "notes.html"
    other.write_text("<p>mine</p>")
    done = command("report", places["run.zarr"], "--out", other)
    assert (done.exit_code, other.read_text()) == (2, "<p>mine</p>")
    assert "is not a report" in done.stderr
    done = command("report", tmp_path / "nowhere")
    assert done.exit_code == 2
    assert "neither a study nor a run" in done.stderr
    assert "Traceback" not in done.stderr


def chromium(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        f"--user-data-dir={folder / 'profile'}", "--enable-logging=stderr", "--virtual-time-budget=5000", *arguments,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        pytest.skip(f"{CHROMIUM} does not run here: {done.stderr.strip().splitlines()[-1:]}")
    return done


MEASURE = """
const frame = document.getElementById("frame");
frame.onload = () => {
  const page = frame.contentDocument, root = page.documentElement;
  const beyond = [...page.querySelectorAll("body *")].filter(e => !e.closest(".scroll, pre, svg") &&
    e.getBoundingClientRect().right > root.clientWidth + 0.5).map(e => e.tagName);
  const images = [...page.images].map(i => i.complete && i.naturalWidth > 0 && i.clientWidth > 0.6 * 400);
  document.title = JSON.stringify([root.clientWidth, root.scrollWidth, beyond, images.every(Boolean), images.length]);
};
frame.srcdoc = document.getElementById("page").textContent;
"""


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium in PATH (apt-get install chromium)")
class TestInABrowser:
    """In headless Chromium."""

    @pytest.mark.parametrize("width", [400, 1280])
    @pytest.mark.parametrize("name", ["study", "run.zarr"])
    @pytest.mark.sampled(4)
    def test_nothing_overflows(self, pages, tmp_path, name, width):
        """In a frame of this width nothing sticks out to the right, and every image shows."""
        text = pages[name].replace("</script", "<\\/script")
        frame = f'<iframe id="frame" style="width:{width}px;height:3000px;border:0"></iframe>'
        holder = f'<textarea id="page" hidden>{html.escape(text)}</textarea>'
        outer = f"<!DOCTYPE html><title></title>{frame}{holder}<script>{MEASURE}</script>"
        (tmp_path / "outer.html").write_text(outer)
        done = chromium(tmp_path, "--dump-dom", (tmp_path / "outer.html").as_uri())
        title = html.unescape(re.search(r"<title>(.*?)</title>", done.stdout).group(1))
        inside, scrolled, beyond, shown, images = json.loads(title)
        assert width - 20 <= inside <= width  # a scroll bar
        assert scrolled <= inside
        assert beyond == []
        assert shown
        assert images == pages[name].count("<img ")

    def test_the_console_is_silent(self, pages, tmp_path):
        """Of a page with an error it is not, so that the test would see one."""
        (tmp_path / "page.html").write_text(pages["study"])
        done = chromium(tmp_path, "--dump-dom", (tmp_path / "page.html").as_uri())
        assert "How to reproduce it" in done.stdout
        assert "CONSOLE" not in done.stderr
        (tmp_path / "bad.html").write_text("<!DOCTYPE html><script>missing()</script>")
        assert "CONSOLE" in chromium(tmp_path, "--dump-dom", (tmp_path / "bad.html").as_uri()).stderr
