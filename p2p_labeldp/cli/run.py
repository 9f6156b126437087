"""``p2p-labeldp run``: run a scenario, print what happened, leave a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.table import Table

from p2p_labeldp.cli.output import (
    DataDir,
    Json,
    ScenarioArgument,
    Seed,
    Settings,
    console,
    find_scenario,
    print_json,
    progress_bar,
)
from p2p_labeldp.cli.report import Report, leave_report
from p2p_labeldp.errors import RequestError

_ENGINES = ("actors", "vectorized")
_HOSTINGS = ("user", "cluster")


def command(
    scenario: ScenarioArgument,
    engine: Annotated[str, typer.Option(help="actors (real messages) or vectorized (numpy arrays).")] = "actors",
    hosting: Annotated[str, typer.Option(help="One task per user, or per cluster.")] = "user",
    seed: Seed = None,
    data_dir: DataDir = None,
    settings: Settings = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; runs/NAME if not given.")] = None,
    dask: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Split the vectorized engine's run over this Dask scheduler's workers."),
    ] = None,
    report: Report = True,
    as_json: Json = False,
) -> None:
    """Run a scenario, print a summary and write the run folder."""
    for option, value, allowed in (("--engine", engine, _ENGINES), ("--hosting", hosting, _HOSTINGS)):
        if value not in allowed:
            raise RequestError(f"{option} {value} is not allowed; it must be one of {', '.join(allowed)}")
    chosen = find_scenario(scenario, settings, seed)
    from p2p_labeldp.experiments.run import run
    from p2p_labeldp.runs.folder import free_name

    place = out if out is not None else free_name(Path("runs") / Path(scenario).stem)
    with progress_bar() as progress:
        finished = run(
            chosen, engine=engine, hosting=hosting, data_dir=data_dir, out=place, progress=progress, dask=dask
        )
        if report:
            leave_report(place, progress)
    if as_json:
        print_json(finished.summary)
    else:
        console.print(summary_table(finished.summary))
        if finished.summary["attacks"]:
            console.print()
            console.print(attack_table(finished.summary["attacks"]))


def summary_table(summary: dict[str, Any]) -> Table:
    """A run in a dozen lines."""
    from p2p_labeldp.reporting.words import rounded_up

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    sizes = summary["cluster_sizes"]
    table.add_row("users", f"{summary['users']:,} with {summary['labels']} labels")
    merged = f"; {summary['merged_clusters']} too small, merged" if summary["merged_clusters"] else ""
    span = f"of {sizes['smallest']:,} to {sizes['largest']:,} users, median {sizes['median']:,.0f}{merged}"
    table.add_row("clusters", f"{summary['clusters']:,} {span}")
    if summary["phi"] is not None:
        table.add_row("heterogeneity", f"phi = {summary['phi']:.4f}")
    if summary["psi"] is not None:
        table.add_row("distortion", f"psi = {summary['psi']:.4f}")
    if summary["messages"]:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in summary["messages_by_kind"].items())
        table.add_row("messages", f"{summary['messages']:,}: {kinds}")
    abstained = sum(outcome["abstained"] for outcome in summary["outcomes_by_round"])
    table.add_row("reports", f"{summary['reports']:,}" + (f"; {abstained:,} abstained" if abstained else ""))
    if summary["missing"]:
        shown = ", ".join(map(str, summary["missing"][:10]))
        more = ", ..." if len(summary["missing"]) > 10 else ""
        table.add_row("missing", f"{len(summary['missing']):,} users: {shown}{more}")
    if summary.get("missing_hosts"):
        table.add_row("", "hosts that stayed away: " + ", ".join(summary["missing_hosts"]))
    if summary.get("faults"):
        table.add_row("faults", ", ".join(f"{fault['rule']} {fault['fired']:,} times" for fault in summary["faults"]))
        delivery = summary["delivery"]
        again = f"{delivery['sent_again']:,} messages sent again, {delivery['lost_for_good']:,} lost for good"
        copies = f"{delivery['duplicates_dropped']:,} copies dropped"
        table.add_row("", f"{again}, {copies}; over after {summary['virtual_seconds']:.3g} virtual seconds")
    private = "none: " + summary["accuracy_reason"] if summary["accuracy"] is None else f"{summary['accuracy']:.4f}"
    table.add_row("accuracy", f"{private} on the noisy labels")
    if summary["nonprivate_accuracy"] is not None:
        table.add_row("", f"{summary['nonprivate_accuracy']:.4f} without privacy")
        table.add_row("", f"{summary['majority_accuracy']:.4f} by always guessing the commonest label")
    if summary["mechanism"] != "peer_to_peer":
        table.add_row("trust", f"{summary['mechanism']}: {summary['trust']}")
    watchers = {
        "model": "who sees the model",
        "learner": "the learner",
        "coalition": "her with one colluder",
        "keeper": "who keeps the labels",
        "users_host": "a users host",
        "network": "a network observer",
    }
    for view, who in watchers.items():
        if view not in summary["privacy"]:
            continue
        found = summary["privacy"][view]
        epsilon = found["epsilon"] if isinstance(found["epsilon"], str) else rounded_up(found["epsilon"], 4)
        bound = "" if found["method"] == "exact" else "at most "
        line = f"epsilon {bound}{epsilon} against {who} at delta {rounded_up(found['delta'])}"
        table.add_row("privacy" if view == "learner" else "", line)
        if view == "learner" and found.get("cluster_size", 0) is None and "reason" in found:
            table.add_row("", found["reason"])
    table.add_row("noisy data set", summary["noisy_sha256"][:16])
    coins = f"seed {summary['seed']}" if summary["coins"] == "seeded" else "the operating system's coins"
    how = f"the {summary['engine']} engine" if "hosts" not in summary else f"{summary['hosts']} hosts over TLS"
    if "workers" in summary:
        how += f" over {len(summary['workers'])} Dask worker" + ("s" if len(summary["workers"]) > 1 else "")
    table.add_row("seconds", f"{summary['seconds']:.2f} with {how}, {coins}")
    table.add_row("run folder", str(summary["out"]))
    for number, warning in enumerate(summary.get("warnings", [])):
        table.add_row("" if number else "warnings", warning)
    return table


FEWEST_ACCUSED = 5


def attack_table(rows: list[dict[str, Any]]) -> Group:
    """What every adversary achieved, beside what is proved to be the most; what a table has no room for, below."""
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("adversary", style="bold", no_wrap=True)
    table.add_column("view", no_wrap=True)
    for name in ("advantage", "bound", "at 0.1 %", "bound", "at 1 %", "bound"):
        table.add_column(name, justify="right", no_wrap=True)
    measured = [row for row in rows if "advantage" in row]
    for row in measured:
        cells = [f"{row['advantage'][0]:.3f}", _bound(row["bound"])]
        for rate in row["true_rates"]:
            # Half of the trials are innocent, and half of those are left to measure on: a handful must be accused.
            told = row["trials"] / 4 * rate["false_rate"] >= FEWEST_ACCUSED
            cells += [f"{rate['value']:.3f}" if told else "-", _bound(rate["bound"])]
        table.add_row(row["kind"], row["view"], *cells)
    return Group(*([table] if measured else []), *(f"{row['kind']}: {_attack_note(row)}" for row in rows))


def _attack_note(row: dict[str, Any]) -> str:
    if "advantage" in row:
        _, low, high = row["advantage"]
        simple = ", ".join(f"{name} {found:.3f}" for name, found in row["others"].items())
        found = f"{low:.3f} to {high:.3f} by {row['attack']} ({simple}), "
        found += f"{row['trials']:,} trials of a cluster of {row['cluster_size']}"
        return found + (f"; {row['note']}" if "note" in row else "")
    if "share" in row:
        shares = [row[name] for name in ("honest_share", "share")]
        said = " to ".join("nothing" if share is None else f"{share:.3f}" for share in shares)
        what = "their labels'" if row["pushed_label"] is None else f"label {row['pushed_label']}'s"
        accuracy = row["honest_accuracy"]
        learned = "" if accuracy is None else f"; without them accuracy is {accuracy:.4f}"
        return f"{row['members']} users move {what} share of their clusters from {said}{learned}"
    return str(row["note"])


def _bound(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"
