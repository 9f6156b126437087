"""Pages as HTML: one self-contained file that asks for nothing, written under a temporary name and moved.

Texts come from scenarios and data files, which may have come from anywhere. Jinja escapes all of them, and the page's
own policy lets a browser run only the script and the style that are written here, by their digests.
"""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

from p2p_labeldp.audit.folder import PRIVATE, TRACE, find
from p2p_labeldp.errors import RequestError
from p2p_labeldp.reporting.blocks import Page
from p2p_labeldp.reporting.styles import style_sheet

REPORT = "report.html"
SWEEP = "sweep.jsonl"
"""What a folder has that is a sweep's."""
_TEMPLATES = Path(__file__).parent / "templates"


def write_report(folder: Path, out: Path | None = None, *, show_true_labels: bool = False) -> Path:
    """Make the report of a run folder or a sweep folder; ``out`` is report.html in it unless named.

    ``show_true_labels``: of real people too, whom they asked and whether they flipped; such a page is kept in the
    folder's private part unless ``out`` says otherwise.
    """
    page = page_of_folder(folder, show_true_labels)
    kept = folder / PRIVATE if page.banner and (folder / PRIVATE).is_dir() else folder
    path = kept / REPORT if out is None else out
    write_page(path, render(page), like=find(folder, TRACE) if page.banner else folder / TRACE)
    return path


def page_of_folder(folder: Path, show_true_labels: bool = False) -> Page:
    """The page of such a folder."""
    if is_sweep(folder):
        from p2p_labeldp.reporting.sweep_page import sweep_page

        if show_true_labels:
            raise RequestError(f"{folder}: --show-true-labels is for runs; a sweep holds no one's label")
        return sweep_page(folder)
    from p2p_labeldp.reporting.report import run_page

    return run_page(folder, show_true_labels=show_true_labels)


def is_sweep(folder: Path) -> bool:
    return (folder / SWEEP).exists()


def render(page: Page) -> str:
    """The page as HTML; equal pages are equal texts."""
    return fill("page.html.j2", style_of_reports(), asset("script.js"), page=page)


def style_of_reports() -> str:
    return style_sheet() + asset("style.css")


def asset(name: str) -> str:
    """A style sheet or a script, the same on every system."""
    return (_TEMPLATES / name).read_text(encoding="utf-8").replace("\r\n", "\n")


def fill(template: str, style: str, script: str, *, beside: tuple[str, ...] = (), also: str = "", **values: Any) -> str:
    """A template with a style and a script, which are all that a browser may use.

    But for those ``beside`` them, which are not in it, and for what ``also`` says.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    others = "".join(f" '{_digest(text)}'" for text in beside)
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'{others}; script-src '{_digest(script)}'{others}; "
        f"img-src data:; base-uri 'none'; form-action 'none'{also}"
    )
    html = environment.get_template(template).render(
        style=Markup(style), script=Markup(script), policy=policy, **values
    )
    # A lone surrogate, which JSON can hold, cannot be written.
    return html.encode("utf-8", "replace").decode("utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def write_page(path: Path, html: str, like: Path) -> None:
    """Put a page in place; what was there before stays until then.

    Whoever may read ``like``, a trace, may read the page, which shows messages of it. Without one, whoever may read
    new files.
    """
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", newline="\n", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            temporary = Path(file.name)
            file.write(html)
        temporary.chmod(like.stat().st_mode & 0o666 if like.exists() else 0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        raise RequestError(f"{path}: cannot be written: {error.strerror}") from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
