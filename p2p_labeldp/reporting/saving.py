"""Matplotlib figures as files: each is written under a temporary name and moved, and equal figures are equal bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.systems import put_in_place

SUFFIXES: dict[str, dict[str, None]] = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""The formats, and which of their metadata would differ from run to run."""


def checked_plot(path: Path) -> Path:
    """The path of a figure, before anything is computed for it."""
    if path.suffix not in SUFFIXES:
        raise RequestError(f"--out {path}: the plot's name must end in {', '.join(SUFFIXES)}")
    return path


def save(figure: Any, path: Path) -> None:
    """In the format that the file's suffix names."""
    try:
        _save(figure, path, 130)
    except OSError as error:
        raise RequestError(f"{path}: cannot be written: {error.strerror}") from None


def save_both(figure: Any, stem: Path, *, dpi: int) -> list[Path]:
    """STEM.png and STEM.svg, of a sweep that has run."""
    paths = [stem.with_name(stem.name + suffix) for suffix in (".png", ".svg")]
    for path in paths:
        try:
            _save(figure, path, dpi)
        except OSError as error:
            raise RunError(f"{path}: cannot be written: {error.strerror}") from None
    return paths


def _save(figure: Any, path: Path, dpi: int) -> None:
    import matplotlib

    path.parent.mkdir(parents=True, exist_ok=True)
    with put_in_place(path) as temporary, matplotlib.rc_context({"svg.hashsalt": "p2p-labeldp"}):
        figure.savefig(temporary, format=path.suffix[1:], dpi=dpi, metadata=SUFFIXES[path.suffix])
