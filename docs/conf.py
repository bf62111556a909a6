"""Sphinx: the pages of this folder, and the reference from the docstrings."""

import ast
import inspect
import re
from importlib import import_module, metadata
from pathlib import Path

project = "scalable_bandits"
author = copyright = "The scalable_bandits developers"
release = version = metadata.version("scalable_bandits")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.viewcode", "numpydoc"]
exclude_patterns = ["_build", "*.head.md"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_default_options = {"members": True, "show-inheritance": True, "member-order": "bysource"}
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
autodoc_type_aliases = {  # by the names they are written with, for what numpy writes them out as
    name: name for name in ("ArrayLike", "Available", "Floats", "Indices", "Mask", "Mean")
}
python_display_short_literal_types = True
numpydoc_show_class_members = False  # autodoc lists them
numpydoc_xref_param_type = False
default_role = "code"

html_theme = "furo"
html_title = f"scalable_bandits {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]


def without_private(app, what, name, obj, options, signature, returned):
    """Leave attrs' private fields and defaults that are objects out of a class's signature."""
    if what == "class" and signature and inspect.isclass(obj) and hasattr(obj, "__attrs_attrs__"):
        shown = [
            parameter.replace(annotation=inspect.Parameter.empty)
            for parameter in inspect.signature(obj).parameters.values()
            if not parameter.name.startswith("_")
        ]
        return str(inspect.Signature(shown)).replace("NOTHING", "..."), returned
    return None


def by_alias(app, what, name, obj, options, signature, returned):
    """An alias within a union or a tuple by its name: Sphinx writes ``TypeAliasForwardRef('Floats')``."""
    return tuple(text and re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", text) for text in (signature, returned))


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


def from_repository(app, docname, source):
    """Pages that live elsewhere in the repository, with links between them mended."""
    if docname not in PAGES:
        return
    here = (ROOT / PAGES[docname]).parent

    def mended(link):
        target, _, anchor = link[1].partition("#")
        if "://" in target or not target:
            return link[0]
        path = (here / target).resolve().relative_to(ROOT).as_posix()
        page = next((page for page, file in PAGES.items() if file == path), None)
        if page is not None:
            return f"]({page}.md{'#' + anchor if anchor else ''})"
        if path.startswith("docs/"):
            return f"]({path.removeprefix('docs/')}{'#' + anchor if anchor else ''})"
        return f"](path:../{path})"

    source[0] = re.sub(r"\]\(([^)\s]+)\)", mended, (ROOT / PAGES[docname]).read_text())


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


def setup(app):
    """Connect them."""
    app.connect("autodoc-process-signature", without_private)
    app.connect("autodoc-process-signature", by_alias, priority=600)  # of what the one before leaves alone
    app.connect("autodoc-process-docstring", say_fields)
    app.connect("autodoc-process-docstring", escape_sizes)
    app.connect("source-read", from_repository)
    app.connect("source-read", list_modules)
    app.connect("source-read", list_policies)
