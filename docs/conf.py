"""Sphinx: the pages of this folder, and the reference from the docstrings."""

import ast
import base64
import inspect
import json
import logging
import os
import re
import shutil
from importlib import import_module, metadata
from pathlib import Path

from sphinx.errors import ExtensionError
from sphinx.util.inspect import TypeAliasForwardRef

project = "scalable_bandits"
author = copyright = "The scalable_bandits developers"
release = version = metadata.version("scalable_bandits")

extensions = [
    "myst_nb",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
]
exclude_patterns = ["_build", "*.head.md", "gallery"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

nb_execution_mode = "off"  # notebooks are shown with their stored outputs; the pages that run say so themselves
nb_execution_raise_on_error = True
nb_execution_in_temp = True  # what a page writes is gone after it
nb_execution_timeout = 240
nb_merge_streams = True
nb_output_stderr = "remove"  # logs and progress
logging.getLogger("traitlets").setLevel(logging.WARNING)  # not which kernel executes a page
os.environ["JUPYTER_PATH"] = str(Path(__file__).parent / "jupyter")  # a kernel that says errors alone

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "pictures",
    "subsection_order": ["gallery/tuning", "gallery/policies", "gallery/studies"],
    "within_subsection_order": "FileNameSortKey",
    "doc_module": ("scalable_bandits",),  # names in the scripts are links to the reference
    "reference_url": {"scalable_bandits": None},
    "capture_repr": (),
    "image_srcset": ["2x"],
    "reset_modules": ("matplotlib",),
    "download_all_examples": False,
    "show_signature": False,
    "notebook_extensions": set(),
    "min_reported_time": float("inf"),
    "write_computation_times": False,
}

autosummary_generate = True
autodoc_default_options = {"members": True, "show-inheritance": True, "member-order": "bysource"}
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
autodoc_type_aliases = {  # by the names they are written with, for what numpy writes them out as
    name: name for name in ("ArrayLike", "Available", "DTypeLike", "Floats", "Indices", "Mask", "Mean")
}
python_display_short_literal_types = True
numpydoc_show_class_members = False  # autodoc lists them
numpydoc_xref_param_type = False
default_role = "code"

nitpick_ignore_regex = [  # types of others: their references are on a network
    (r"py:.*", rf"({name})\..*")
    for name in ("numpy", "np", "xarray", "pandas", "matplotlib", "optuna", "sklearn", "collections", "pathlib", "os",
                 "contextlib", "abc", "zarr")
] + [("py:class", name) for name in ("ArrayLike", "DTypeLike", "NDArray", "Axes", "Figure", "Path")]  # fmt: skip

html_theme = "furo"
html_title = f"scalable_bandits {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]


def without_private(app, what, name, obj, options, signature, returned):
    """Leave attrs' private fields and defaults that are objects out of a class's signature."""
    if signature and app.env.docname == "api/types":  # these are not made by hand
        return "", returned
    if what == "class" and signature and inspect.isclass(obj) and hasattr(obj, "__attrs_attrs__"):
        shown = [
            parameter.replace(annotation=inspect.Parameter.empty)
            for parameter in inspect.signature(obj).parameters.values()
            if not parameter.name.startswith("_")
        ]
        return str(inspect.Signature(shown)).replace("NOTHING", "..."), returned
    return None


def escape_sizes(app, what, name, obj, options, lines):
    """In docstrings |D| is the size of a set, not a substitution."""
    lines[:] = [re.sub(r"\|([^|`]+)\|", r"\\|\1\\|", line) for line in lines]


def say_fields(app, what, name, obj, options, lines):
    """A named tuple says what its fields are in comments beside them: these, for "Alias for field number 0"."""
    if not any(line.startswith("Alias for field number") for line in lines):
        return
    holder, _, field = name.rpartition(".")
    module, _, kind = holder.rpartition(".")
    source = inspect.getsource(getattr(import_module(module), kind))
    comment = re.search(rf"^    {field}: [^#\n]*# *(.+)$", source, re.MULTILINE)
    lines[:] = [comment[1][0].upper() + comment[1][1:] + "."] if comment else []


PAGES = {
    "readme": "README.md",
    "contributing": "CONTRIBUTING.md",
    "changelog": "CHANGELOG.md",
    "recipes": "cluster/README.md",
}
ROOT = Path(__file__).parent.parent


def mend_links(text, here, above=""):
    """Return the text of a file in a folder with its links to files of the repository as links between pages.

    The page is shown in a folder from which `above` leads to that of this file.
    """

    def mended(link):
        target, _, anchor = link[1].partition("#")
        if "://" in target or not target:
            return link[0]
        path = (here / target).resolve().relative_to(ROOT).as_posix()
        if path.startswith("notebooks/"):
            page = path if path.endswith(".ipynb") else "notebooks.md"
        elif path == "docs/gallery":
            page = "pictures/index.rst"
        else:
            page = next((f"{page}.md" for page, file in PAGES.items() if file == path), path.removeprefix("docs/"))
        if page == path and not path.endswith(".ipynb"):
            return f"](path:{above}../{path})"
        return f"]({above}{page}{'#' + anchor if anchor else ''})"

    return re.sub(r"\]\(([^)\s]+)\)", mended, text)


def from_repository(app, docname, source):
    """Pages that live elsewhere in the repository."""
    if docname in PAGES:
        page = ROOT / PAGES[docname]
        source[0] = mend_links(page.read_text(), page.parent)


def copy_notebooks(app):
    """Copy the notebooks with their outputs to where Sphinx finds them, and the first picture of each."""
    folder = Path(app.srcdir) / "notebooks"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        notebook = json.loads(path.read_text())
        for cell in notebook["cells"]:
            if cell["cell_type"] == "markdown":
                cell["source"] = mend_links("".join(cell["source"]), path.parent, "../")
        notebook["metadata"].setdefault("language_info", {})["pygments_lexer"] = "ipython3"  # lines may begin with !
        (folder / path.name).write_text(json.dumps(notebook))
        outputs = (output.get("data", {}) for cell in notebook["cells"] for output in cell.get("outputs", ()))
        picture = next((data["image/png"] for data in outputs if "image/png" in data), None)
        if picture is not None:
            (folder / f"{path.stem}.png").write_bytes(base64.b64decode("".join(picture)))


CARD = """
:::{{grid-item-card}} {title}
{picture}
:link: notebooks/{name}
:link-type: doc

{text}
:::"""
NOTEBOOKS = """
::::{{grid}} 1 2 2 3
:gutter: 3
{cards}
::::

```{{toctree}}
:hidden:

{names}
```"""


def list_notebooks(app, docname, source):
    """Add a card for each notebook to their page: title, first paragraph, first picture."""
    paths = sorted((Path(app.srcdir) / "notebooks").glob("*.ipynb"))
    if docname != "notebooks" or not paths:
        return
    cards = []
    for path in paths:
        title, _, text = "".join(json.loads(path.read_text())["cells"][0]["source"]).partition("\n")
        text = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text.strip().partition("\n\n")[0])  # the card is a link itself
        picture = f":img-top: notebooks/{path.stem}.png" if path.with_suffix(".png").exists() else ":class-card: plain"
        cards.append(CARD.format(title=title.lstrip("# "), picture=picture, name=path.stem, text=text))
    names = "\n".join(f"notebooks/{path.stem}" for path in paths)
    source[0] += NOTEBOOKS.format(cards="\n".join(cards), names=names)


def list_modules(app, docname, source):
    """Add a table of each folder's files to the page of all modules: names and first lines of their docstrings."""
    if docname != "modules":
        return
    package = ROOT / "scalable_bandits"
    lines = ["# All modules", "", "The layers from top to bottom: [architecture](architecture.md).", ""]
    for folder in sorted({path.parent for path in package.rglob("*.py")}):
        name = folder.relative_to(ROOT).as_posix()
        lines += [f"## `{name}/`", "", "| file | what it is |", "| --- | --- |"]
        for path in sorted(folder.glob("*.py")):
            first = (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n")[0].replace("|", "\\|")
            lines.append(f"| `{path.name}` | {first} |")
        lines.append("")
    source[0] = "\n".join(lines)


def list_policies(app, docname, source):
    """Name every policy on its page."""
    if docname != "api/policies":
        return
    found = vars(import_module("scalable_bandits.policies"))
    names = [name for name, kind in found.items() if hasattr(kind, "ask") and name != "Policy"]
    line = ".. autoclass:: scalable_bandits.EVERY_POLICY\n"
    source[0] = source[0].replace(line, "".join(line.replace("EVERY_POLICY", name) for name in names))


RUN = ("tuning", "choosing", "research", "integrations")  # pages whose Python runs, and whose outputs are shown
HEADER = """---
file_format: mystnb
kernelspec: {name: python3}
mystnb: {execution_mode: force}
---
"""
FIRST_CELL = """```{code-cell}
:tags: [remove-cell]
%config InlineBackend.figure_formats = ["svg"]
import xarray
xarray.set_options(display_expand_attrs=False)  # the specification of a run is long
from rich.console import Console
Console.is_jupyter = property(lambda console: False, lambda console, found: None)  # no progress
shown = get_ipython().display_formatter.ipython_display_formatter
for drawn in ("matplotlib.axes._axes.Axes", "matplotlib.legend.Legend"):  # the picture says it all
    shown.for_type(drawn, lambda drawn: None)
shown.for_type_by_name("numpy", "ndarray", lambda array: None if array.dtype == object else print(repr(array)))
```

"""


def run_blocks(app, docname, source):
    """Make a notebook of a page that runs: it stays plain Markdown where it is read without being built."""
    if docname in RUN:
        text = source[0].replace("```python\n", FIRST_CELL + "```python\n", 1)
        source[0] = HEADER + text.replace("```python\n", "```{code-cell}\n")


TREES = {}  # by depth of a page


def share_trees(app, pagename, templatename, context, doctree):
    """Let pages of source code, which are in no table of contents, have one navigation tree for each depth.

    To make one takes a tenth of a second, and there are more of these pages than of all others.
    """
    if pagename.startswith("_modules/"):
        depth, made = pagename.count("/"), context["toctree"]

        def tree(**options):
            if depth not in TREES:
                TREES[depth] = made(**options)
            return TREES[depth]

        context["toctree"] = tree


def check_search(app, exception):
    """Fail the build if its search does not find a public name."""
    if exception is not None or app.builder.name != "html":
        return
    index = (Path(app.outdir) / "searchindex.js").read_text().removeprefix("Search.setIndex(").removesuffix(")")
    objects = json.loads(index)["objects"]
    found = {f"{holder}.{entry[-1]}" for holder, entries in objects.items() for entry in entries}
    missing = [name for name in import_module("scalable_bandits").__all__ if f"scalable_bandits.{name}" not in found]
    if missing:
        raise ExtensionError(f"no page of docs/api/ has {', '.join(missing)}")


def setup(app):
    """Connect them."""
    TypeAliasForwardRef.__repr__ = lambda alias: alias.name  # within a union or a tuple, too
    app.connect("autodoc-process-signature", without_private)
    app.connect("autodoc-process-docstring", say_fields)
    app.connect("autodoc-process-docstring", escape_sizes)
    app.connect("builder-inited", copy_notebooks)
    app.connect("source-read", from_repository)
    app.connect("source-read", list_notebooks)
    app.connect("source-read", list_modules)
    app.connect("source-read", list_policies)
    app.connect("source-read", run_blocks)
    app.connect("html-page-context", share_trees, priority=400)  # before the theme asks for one
    app.connect("build-finished", check_search)
