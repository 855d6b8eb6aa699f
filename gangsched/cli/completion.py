"""``gangsched completion SHELL``: a script that completes commands, options and their values."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator

from gangsched.cli import answers

_BASH = """\
_gangsched() {{
  local words="" line="${{COMP_WORDS[1]}} ${{COMP_WORDS[COMP_CWORD-1]}}"
  if ((COMP_CWORD == 1)); then line="first"; fi
  case "$line" in
    first) words="{commands}" ;;
{values}
    *) case "${{COMP_WORDS[1]}}" in
{offered}
    esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _gangsched gangsched py-gang-scheduler
"""
_ZSH = "#compdef gangsched\nautoload -U +X bashcompinit && bashcompinit\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    parser.epilog = (
        "It goes into a file. bash: ~/.local/share/bash-completion/completions/gangsched; zsh: _gangsched in a folder"
        " of $fpath; fish: ~/.config/fish/completions/gangsched.fish. To try it: source <(gangsched completion bash)."
    )


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    found = dict(_commands())
    print(_fish(found) if args.shell == "fish" else (_ZSH if args.shell == "zsh" else "") + _bash(found), end="")
    return answers.OK


def _commands() -> Iterator[tuple[str, list[argparse.Action]]]:
    """The options and arguments of each command, without those for help."""
    from gangsched.cli.main import COMMANDS  # noqa: PLC0415 - it imports this module by name

    for command in COMMANDS:
        parser = argparse.ArgumentParser()
        importlib.import_module(command.module).add_arguments(parser)
        yield command.name, [action for action in parser._actions if action.dest != "help"]  # noqa: SLF001


def _choices(action: argparse.Action) -> str:
    return " ".join(map(str, action.choices or ()))


def _bash(found: dict[str, list[argparse.Action]]) -> str:
    offered, values, free = [], [], []
    for name, actions in found.items():
        words = " ".join(" ".join(action.option_strings) or _choices(action) for action in actions)
        offered.append(f'      {name}) words="{words}" ;;')
        for action in actions:
            before = "|".join(f'"{name} {option}"' for option in action.option_strings)
            if before and action.choices:
                values.append(f'    {before}) words="{_choices(action)}" ;;')
            elif before and action.nargs != 0:
                free.append(before)
    values.append(f"    {'|'.join(free)}) ;;")  # a file, or what only the user knows
    return _BASH.format(commands=" ".join(found), values="\n".join(values), offered="\n".join(offered))


def _fish(found: dict[str, list[argparse.Action]]) -> str:
    lines = [f"complete -c gangsched -f -n __fish_use_subcommand -a '{' '.join(found)}'"]
    for name, actions in found.items():
        seen = f"complete -c gangsched -n '__fish_seen_subcommand_from {name}'"
        for action in actions:
            words = [f"-l {o[2:]}" if o.startswith("--") else f"-s {o[1:]}" for o in action.option_strings]
            if action.choices:
                words.append(f"{'-x ' if action.option_strings else '-f '}-a '{_choices(action)}'")
            elif action.option_strings and action.nargs != 0:
                words.append("-r")
            if words:
                lines.append(" ".join([seen, *words]))
    return "\n".join(lines) + "\n"
