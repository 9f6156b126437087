"""The command line: one module per command, and the rules they share.

Exit status: 0 done; 1 a check failed; 2 the request was wrong, said in one line; 3 the run broke or was
interrupted. ``--json`` prints one JSON object on standard output and nothing else; everything meant for
a person's eye while work goes on is on standard error.
"""

from __future__ import annotations

import importlib
import inspect
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

import typer
from typer.main import get_command

from p2p_labeldp.cli import certs
from p2p_labeldp.cli.added_options import with_plugins
from p2p_labeldp.errors import CheckError, RequestError, RunError
from p2p_labeldp.stderr import say_last
from p2p_labeldp.systems import ignore_interrupts, interrupt

_INTERRUPTED = 130  # what Typer makes of an interrupt that no command has dealt with
COMMANDS = (
    "run", "account", "calibrate", "threats", "compare", "sweep", "audit", "report", "trace", "schema", "predict",
    "divide", "deploy", "node", "attacks", "next", "scenarios", "new",
)  # fmt: skip
"""In the order of the list; each is a module of this room with a ``command``."""
_WITHOUT = ("account", "calibrate", "schema", "divide")  # they read no scenario

app = typer.Typer(
    name="p2p-labeldp",
    help="Peer-to-peer label privacy with real actors, and exactly what each party could learn.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"max_content_width": 120},
)
for _name in COMMANDS:
    _command = importlib.import_module(f"p2p_labeldp.cli.{_name}").command
    # Whole sentences in the list of commands, however narrow it is.
    _short = (inspect.getdoc(_command) or "").partition("\n\n")[0]
    app.command(_name, short_help=_short)(_command if _name in _WITHOUT else with_plugins(_command))
app.add_typer(certs.app, name="certs", short_help=certs.app.info.help)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version as version_of

        print(f"p2p-labeldp {version_of('p2p-labeldp')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    # A callback keeps Typer from turning a lone command into the whole program.
    pass


@cache
def _program() -> Any:
    return get_command(app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    try:
        status = _program().main(
            args=None if arguments is None else list(arguments), prog_name="p2p-labeldp", standalone_mode=False
        )
        sys.stdout.flush()
        if status == _INTERRUPTED:
            raise KeyboardInterrupt
        return status if isinstance(status, int) else 0
    except typer.TyperException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # its message is the whole help
            return _without_command(error)
        return _say(2, error.format_message() or "name a command; `p2p-labeldp --help` lists them")
    except typer.Exit as error:
        return error.exit_code
    except RequestError as error:
        return _say(2, str(error))
    except CheckError as error:
        return _say(1, str(error))
    except RunError as error:
        return _say(3, str(error))
    except (KeyboardInterrupt, typer.Abort):
        return _say(3, "interrupted")
    except BrokenPipeError:
        return _without_reader()
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # what Typer makes of it
            return _without_reader()
        raise
    except Exception as error:
        traceback.print_exc()
        return _say(3, f"internal error, please report it: {type(error).__name__}: {error}")


def _without_command(error: Any) -> int:
    """Help for someone who has typed the program's name alone; one line for a command that wants another one."""
    if error.ctx.parent is not None:
        return _say(2, f"{error.ctx.command_path}: name a command; `{error.ctx.command_path} --help` lists them")
    print(error.format_message(), file=sys.stderr)
    return 2


def _without_reader() -> int:
    """The reader has gone, as `head` does; keep Python from complaining again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ is not None else 1)
    return 0


def _say(status: int, message: str) -> int:
    say_last("p2p-labeldp: " + " ".join(message.split()))
    return status


def script() -> None:
    """The console script. To be asked to stop is to be interrupted."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # A shell in the background has it ignored. Ctrl-C stays without effect, but SIGTERM must find someone who
        # handles an interrupt: trio does so only where it finds Python's own handler.
        ignore_interrupts()
    signal.signal(signal.SIGTERM, interrupt)
    sys.exit(main())
