"""``p2p-labeldp predict``: labels and probabilities for new rows, by the model of a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from p2p_labeldp.cli.output import Json, print_json
from p2p_labeldp.errors import RequestError
from p2p_labeldp.systems import put_in_place


def command(
    model: Annotated[Path, typer.Argument(metavar="RUN_OR_MODEL", help="A run folder, or a model.npz.")],
    rows: Annotated[Path, typer.Argument(metavar="FILE.csv", help="New rows, with the columns of the model's schema.")],
    out: Annotated[
        Path | None, typer.Option(help="Write the predictions to this CSV file, not to the terminal.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Predict the label of every row, with the probability of each class.

    If the file has the label's column too, the accuracy is printed.
    """
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        raise RequestError(f"--out {out}: must name a file in a folder that is there")
    from p2p_labeldp.learning.saved import load_model, predicted, write_predictions

    loaded = load_model(model)
    labels, chances, accuracy = predicted(loaded, rows)
    classes = loaded.stored.schema.classes
    if out is not None:
        try:
            with put_in_place(out) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
                write_predictions(file, classes, labels, chances)
        except OSError as error:
            raise RequestError(f"--out {out}: cannot be written: {error.strerror}") from None
    if as_json:
        found = {"rows": len(labels), "classes": list(classes), "accuracy": accuracy, "out": str(out) if out else None}
        if out is None:
            found |= {"labels": labels.tolist(), "probabilities": chances.tolist()}
        print_json(found)
        return
    if out is None:
        write_predictions(sys.stdout, classes, labels, chances)
    if accuracy is not None:
        print(f"accuracy {accuracy:.4f} on {len(labels)} rows", file=sys.stderr)
