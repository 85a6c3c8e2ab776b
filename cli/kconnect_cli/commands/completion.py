"""`connect completion bash|zsh|fish`: the script that makes the shell complete commands and live names."""

from __future__ import annotations

from typing import Annotated

import typer

from kconnect_cli.exits import UsageProblem
from kconnect_cli.screen.output import write_text

# The shells pass words as typed: quotes and backslashes are removed before names are looked up.
# bash: a candidate is quoted, unless a quote is already open; one that ends in = gets no space after it
_BASH = r"""# connect completion for bash: source <(connect completion bash)
_connect_plain() {
    case $1 in
        \"*) REPLY=${1#\"}; REPLY=${REPLY%\"} ;;
        \'*) REPLY=${1#\'}; REPLY=${REPLY%\'} ;;
        *) REPLY=${1//\\/} ;;
    esac
}
_connect_completion() {
    local line word typed REPLY cur="${COMP_WORDS[COMP_CWORD]}"
    local -a words=()
    COMPREPLY=()
    [[ $cur == "=" ]] && cur=""
    for typed in "${COMP_WORDS[@]:1:COMP_CWORD-1}" "$cur"; do
        _connect_plain "$typed"
        words+=("$REPLY")
    done
    while IFS= read -r line; do
        word=${line%%$'\t'*}
        if [[ $word == ":files" ]]; then
            compopt -o filenames
            COMPREPLY+=($(compgen -f -- "$cur"))
        elif [[ $cur == [\"\']* ]]; then
            COMPREPLY+=("$word")
        else
            COMPREPLY+=("$(printf '%q' "$word")")
        fi
    done < <(command connect complete -- "${words[@]}" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace; fi
}
complete -F _connect_completion connect kconnect
"""

_ZSH = r"""#compdef connect kconnect
# connect completion for zsh: source <(connect completion zsh), or save it as _connect in a folder of $fpath
_connect() {
    local line word help last=${words[CURRENT]}
    local -a found files
    case $last in
        [\"\']*) last=${last#?} ;;
        *) last=${(Q)last} ;;
    esac
    while IFS= read -r line; do
        word=${line%%$'\t'*}
        help=${line#*$'\t'}
        word=${word//\\/\\\\}
        if [[ $word == ":files" ]]; then
            files=(1)
        else
            found+=("${word//:/\\:}:${help}")
        fi
    done < <(command connect complete -- "${(@Q)words[2,CURRENT-1]}" "$last" 2>/dev/null)
    (( $#found )) && _describe 'connect' found
    (( $#files )) && _files
}
if [[ ${funcstack[1]} == _connect ]]; then
    _connect "$@"
else
    compdef _connect connect kconnect
fi
"""

_FISH = r"""# connect completion for fish: connect completion fish | source
function __connect_complete
    set -l typed (commandline -opc)
    set -l last (commandline -ct | string replace -r '^["\']' '' | string unescape)
    for line in (command connect complete -- $typed[2..-1] "$last" 2>/dev/null)
        if string match -q -- ':files*' $line
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
complete -c connect -f -a '(__connect_complete)'
complete -c kconnect -f -a '(__connect_complete)'
"""

_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def completion(
    shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish", help="Your shell.", show_default=False)],
) -> None:
    """Print the script that completes commands, options and live names.

    bash: source <(connect completion bash)   zsh: source <(connect completion zsh)
    fish: connect completion fish | source
    """
    if shell not in _SCRIPTS:
        raise UsageProblem(f"No completion for {shell}", hint="Completions: bash, zsh, fish.")
    write_text(_SCRIPTS[shell])
