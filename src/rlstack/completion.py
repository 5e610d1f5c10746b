"""`rlstack completion`: scripts that complete verbs, options and names in a shell, without starting Python."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass
from typing import Literal

import tyro

Words = dict[str, list[str]]


@dataclass(frozen=True)
class Completion:
    """Print a script with which a shell completes verbs, options, and names of recipes, robots and policies.

    bash: source <(rlstack completion bash). zsh: likewise, behind compinit. fish: rlstack completion fish | source.
    The lists are those of now: print it again when you have added robots or tasks.
    """

    shell: tyro.conf.Positional[Literal["bash", "zsh", "fish"]]
    """Which shell."""

    def run(self) -> int:
        """Print the script."""
        options, values, positional = completions()
        print(_fish(options, values, positional) if self.shell == "fish" else _bash(options, values, positional))
        return 0


def completions() -> tuple[Words, Words, Words]:
    """Return the options of each verb, the values of options, and the words that may follow a verb."""
    from rlstack.cli import VERBS
    from rlstack.interfaces.backend import BACKENDS
    from rlstack.kinds import kind_names
    from rlstack.policies.released import released_policies
    from rlstack.resources import list_resources
    from rlstack.robots.spec import robot_names
    from rlstack.tasks import TASKS

    recipes, policies = sorted(list_resources("policies", ".yaml")), sorted(released_policies())
    options = {verb: _options(entry.action) for verb, entry in VERBS.items()}
    options["train"] += ["--out", "--resume", "--robot", "--seed", "--show-task", "--steps", "--task"]
    options["export"] += ["--format", "--out"]
    values = {
        "--robot": robot_names(),
        "--backend": BACKENDS.names(),
        "--backends": BACKENDS.names(),
        "--policy": policies,
        "--task": TASKS.names(),
        "--kind": kind_names(),
    }
    positional = {
        **dict.fromkeys(("train", "fly", "up train"), recipes),
        **dict.fromkeys(("verify", "show", "drill"), policies),
        **dict.fromkeys(("model", "rviz"), robot_names()),
        "demo record": [name for name in TASKS.names() if name.startswith("arm_")],
        "completion": ["bash", "zsh", "fish"],
    }
    return options, values, positional


def _options(action: object) -> list[str]:
    named = fields(action) if is_dataclass(action) else ()
    return [f"--{field.name.strip('_').replace('_', '-')}" for field in named] + ["--help"]


_BASH = """\
# Completion of rlstack.{zsh}
_rlstack() {{
  local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}"
  local verb="${{COMP_WORDS[1]}}" words="" options=""
  if [ "$COMP_CWORD" -le 1 ]; then
    COMPREPLY=($(compgen -W "{first} --help --version" -- "$cur"))
    return
  fi
  if [ "$COMP_CWORD" -gt 2 ]; then
    case "$verb ${{COMP_WORDS[2]}}" in
      {pairs}) verb="$verb ${{COMP_WORDS[2]}}" ;;
    esac
  fi
  case "$verb" in
{verbs}
  esac
  case "$prev" in
{values}
  esac
  case "$cur" in
    -*) words="$options" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o bashdefault -o default -F _rlstack rlstack"""


def _bash(options: Words, values: Words, positional: Words) -> str:
    """Return the script for bash, which zsh reads, too, by its bashcompinit; files are what bash adds by itself."""
    groups = _groups(options)
    lines = []
    for verb in dict.fromkeys([*options, *groups]):
        words = [*groups.get(verb, []), *positional.get(verb, [])]
        lines.append(f'    "{verb}") options="{_joined(options.get(verb, []))}"; words="{_joined(words)}" ;;')
    return _BASH.format(
        zsh='\nif [ -n "$ZSH_VERSION" ]; then autoload -U +X bashcompinit && bashcompinit; fi',
        first=_joined(verb.partition(" ")[0] for verb in options),
        pairs="|".join(f'"{verb}"' for verb in options if " " in verb),
        verbs="\n".join(lines),
        values="\n".join(f'    {option}) words="{_joined(names)}" ;;' for option, names in values.items()),
    )


def _fish(options: Words, values: Words, positional: Words) -> str:
    """Return the script for fish."""
    groups = _groups(options)
    first = list(dict.fromkeys(verb.partition(" ")[0] for verb in options))
    lines = ["# Completion of rlstack.", f"complete -c rlstack -n __fish_use_subcommand -f -a '{_joined(first)}'"]
    for group, words in groups.items():
        seen = f"__fish_seen_subcommand_from {group}; and not __fish_seen_subcommand_from {_joined(words)}"
        lines.append(f"complete -c rlstack -n '{seen}' -f -a '{_joined(words)}'")
    for verb, given in options.items():
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in verb.split())
        if verb in positional:
            lines.append(f"complete -c rlstack -n '{seen}' -a '{_joined(positional[verb])}'")
        for option in given:
            names = f" -x -a '{_joined(values[option])}'" if option in values else ""
            lines.append(f"complete -c rlstack -n '{seen}' -l {option.removeprefix('--')}{names}")
    return "\n".join(lines)


def _groups(options: Words) -> Words:
    """Return the second words of verbs by the first one."""
    groups: Words = {}
    for verb in options:
        group, space, second = verb.partition(" ")
        if space:
            groups.setdefault(group, []).append(second)
    return groups


def _joined(words: Iterable[str]) -> str:
    return " ".join(dict.fromkeys(words))
