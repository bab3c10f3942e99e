"""`punctual completion`: prints a script for shell completion of commands, options and their values."""

from argparse import Action
from collections.abc import Iterator
from typing import Final

from punctual.cli.exits import Exit
from punctual.cli.main import PROG, parser_of
from punctual.cli.parser import Options, Parser
from punctual.cli.registry import COMMANDS
from punctual.cli.terminal import write

#: Arguments that name files, and the script's placeholder for file names.
_FILES: Final = ("FILE", "PATH")
_FILE: Final = "<file>"
_BASH: Final = """\
# Completion for {prog}; in ~/.bashrc: eval "$({prog} completion bash)"
_{prog}() {{
    local IFS=$' \\t\\n' offered=""
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} command=${{COMP_WORDS[1]}}
    COMPREPLY=()
    # bash takes --format=json for three words
    if [[ $cur == "=" ]]; then cur=""; elif [[ $prev == "=" ]]; then prev=${{COMP_WORDS[COMP_CWORD-2]}}; fi
    if (( COMP_CWORD == 1 )); then command="" prev=""; fi
    case $command:$prev:$cur in
{cases}
    esac
    case $offered in
        "") ;;
        "{file}") IFS=$'\\n'; COMPREPLY=($(compgen -f -- "$cur")) ;;
        *) COMPREPLY=($(compgen -W "$offered" -- "$cur")) ;;
    esac
}}
complete -F _{prog} {prog}"""
_ZSH: Final = """\
# Completion for {prog}; in ~/.zshrc, after compinit: eval "$({prog} completion zsh)"
autoload -U +X bashcompinit && bashcompinit"""


def add_arguments(parser: Parser) -> None:
    """Add the argument for the shell."""
    about = f'shell; add to ~/.bashrc: eval "$({PROG} completion bash)", or to ~/.zshrc, after compinit, with zsh'
    parser.add_argument("shell", choices=("bash", "zsh"), metavar="{bash,zsh}", help=about)


def run(options: Options) -> Exit:
    """Write the script."""
    lines = _BASH.format(prog=PROG, file=_FILE, cases="\n".join(_cases()))
    if options.shell == "zsh":  # bash completions work in zsh, too
        lines = "\n".join([_ZSH.format(prog=PROG), *lines.splitlines()[1:]])
    write(lines)
    return Exit.DONE


def _cases() -> Iterator[str]:
    """Yield a case of the script for each command and previous word, specific cases before general ones."""
    names = " ".join(command.name for command in COMMANDS)
    yield _case(":*", f"worker doctor {names} --help --version")
    for command in COMMANDS:
        actions = parser_of(command).actions
        flags = " ".join(option for action in actions for option in action.option_strings)
        after: dict[str, list[str]] = {}
        for action in actions:
            if action.option_strings and action.nargs is None:
                after.setdefault(_values(action), []).extend(action.option_strings)
        for values, options in after.items():
            yield _case("|".join(f"{command.name}:{option}:*" for option in options), values)
        first = next((_values(action) for action in actions if not action.option_strings), "")
        if first:
            yield _case(f"{command.name}:*:-*", flags)
        yield _case(f"{command.name}:*", first or flags)


def _case(pattern: str, words: str) -> str:
    return f'        {pattern}) offered="{words}" ;;'


def _values(action: Action) -> str:
    """Return the values of an argument, _FILE for a file name, or an empty text if they are unknown."""
    if action.choices is not None:
        return " ".join(map(str, action.choices))
    return _FILE if action.metavar in _FILES else ""
