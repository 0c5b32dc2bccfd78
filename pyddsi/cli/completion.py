"""
`pyddsi completion`: what makes a shell complete commands and options.

The scripts are made from the commands' own parsers, and hold all of it: pressing Tab starts no Python. What an option
takes is told from its metavar: a FILE or FOLDER is completed as a path, choices as words, anything else not at all.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from pyddsi.cli import _arguments as read

DESCRIPTION = """\
Print what makes a shell complete the commands of pyddsi and their options.
"""

EXAMPLES = """\
examples:
  source <(pyddsi completion bash)                                      in ~/.bashrc
  source <(pyddsi completion zsh)                                       in ~/.zshrc, below compinit
  pyddsi completion fish > ~/.config/fish/completions/pyddsi.fish
"""

PATHS = {"FILE", "FOLDER"}


def add(parser: read.Parser) -> None:
    """Its argument."""
    parser.add_argument("shell", choices=sorted(SHELLS), help="for which shell")


@dataclass(frozen=True, slots=True)
class _Option:
    """An option or argument of a command. `names` is empty for an argument."""

    names: tuple[str, ...]
    text: str
    takes: bool
    path: bool
    choices: tuple[str, ...]
    repeated: bool


def _options(command: str) -> Iterator[_Option]:
    from pyddsi.cli import parser  # noqa: PLC0415 - it imports this

    chosen = parser([command]).chosen
    assert chosen is not None  # noqa: S101 - the command is one of ours
    for action in chosen._actions:  # noqa: SLF001 - of our parent
        if action.help != argparse.SUPPRESS:
            yield _Option(
                tuple(action.option_strings),
                " ".join((action.help or "").replace("%%", "%").split()),
                action.nargs != 0,
                action.metavar in PATHS,
                tuple(map(str, action.choices or ())),
                isinstance(action, argparse._AppendAction) or action.nargs in {"*", "+"},  # noqa: SLF001
            )


def _commands() -> dict[str, str]:
    from pyddsi.cli import COMMANDS  # noqa: PLC0415 - it imports this

    return COMMANDS


# ---- bash --------------------------------------------------------------------------------------------------------


def _bash() -> str:
    words, values, arguments = [], [], []
    for command in _commands():
        options = list(_options(command))
        names = " ".join(name for option in options for name in option.names)
        words.append(f"        {command}) words={shlex.quote(names)} ;;")
        for option in options:
            what = "paths" if option.path else shlex.quote(" ".join(option.choices) or "none")
            if not option.names and (option.path or option.choices):
                arguments.append(f"        {command}) what={what} ;;")
            elif option.names and option.takes:
                pattern = "|".join(shlex.quote(f"{command} {name}") for name in option.names)
                values.append(f"        {pattern}) what={what} ;;")
    return BASH.format(
        commands=" ".join(_commands()),
        words="\n".join(words),
        values="\n".join(values),
        arguments="\n".join(arguments),
    )


BASH = """\
# bash completion of pyddsi
_pyddsi() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} command=${{COMP_WORDS[1]}}
    local words="" what=""
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W {commands!r} -- "$current")
        return
    fi
    case "$command $before" in
{values}
    esac
    if [[ -z $what && $current != -* ]]; then
        case $command in
{arguments}
        esac
    fi
    if [[ $what == paths ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
    fi
    if [[ -z $what ]]; then
        case $command in
{words}
        esac
    elif [[ $what != none ]]; then
        words=$what
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}}
complete -F _pyddsi pyddsi
"""


# ---- zsh ---------------------------------------------------------------------------------------------------------


def _zsh_quoted(text: str) -> str:
    """Text inside the brackets and colons of an argument of _arguments."""
    for letter in "\\[]:":
        text = text.replace(letter, f"\\{letter}")
    return text


def _zsh_option(option: _Option) -> Iterator[str]:
    action = "_files" if option.path else f"({' '.join(option.choices)})" if option.choices else " "
    value = f":value:{action}" if option.takes else ""
    if not option.names:
        yield f"{'*' if option.repeated else ''}:argument:{action}"
    for name in option.names:
        yield f"{'*' if option.repeated else ''}{name}[{_zsh_quoted(option.text)}]{value}"


def _zsh() -> str:
    described = [shlex.quote(f"{name}:{_zsh_quoted(text)}") for name, text in _commands().items()]
    cases = []
    for command in _commands():
        words = [shlex.quote(word) for option in _options(command) for word in _zsh_option(option)]
        cases.append(f"        {command}) _arguments " + " ".join(words) + " ;;")
    return ZSH.format(described="\n        ".join(described), cases="\n".join(cases))


ZSH = """\
#compdef pyddsi
_pyddsi() {{
    local -a commands=(
        {described}
    )
    if ((CURRENT == 2)); then
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words
    ((CURRENT--))
    case $command in
{cases}
    esac
}}
if [[ $funcstack[1] == _pyddsi ]]; then
    _pyddsi "$@"
else
    compdef _pyddsi pyddsi
fi
"""


# ---- fish --------------------------------------------------------------------------------------------------------


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _fish_option(command: str, option: _Option) -> str:
    line = f"complete -c pyddsi -n '__fish_seen_subcommand_from {command}'"
    for name in option.names:
        line += f" -l {name[2:]}" if name.startswith("--") else f" -s {name[1:]}"
    if option.path:
        line += " -r -F"
    elif option.names and option.takes:
        line += " -x"
    if option.choices:
        line += f" -a {_fish_quoted(' '.join(option.choices))}"
    return f"{line} -d {_fish_quoted(option.text)}"


def _fish() -> str:
    lines = ["# fish completion of pyddsi", "complete -c pyddsi -f"]
    for command, text in _commands().items():
        start = "complete -c pyddsi -n __fish_use_subcommand"
        lines.append(f"{start} -a {command} -d {_fish_quoted(text)}")
        lines += [
            _fish_option(command, option)
            for option in _options(command)
            if option.names or option.path or option.choices
        ]
    return "\n".join(lines) + "\n"


SHELLS = {"bash": _bash, "fish": _fish, "zsh": _zsh}


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    print(SHELLS[options.shell](), end="")
    return 0
