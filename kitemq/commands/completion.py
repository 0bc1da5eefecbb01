"""`kitemq completion`: a script by which a shell completes commands and options."""

import click
from click.shell_completion import get_completion_class

from kitemq.commands.command import ClientCommand, CommandOptions, argument
from kitemq.commands.output import Exit, Output

VARIABLE = "_KITEMQ_COMPLETE"  # the script calls `kitemq` with it in the environment


class CompletionOptions(CommandOptions):
    shell: str


@click.command(cls=ClientCommand)
@argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(options: CompletionOptions, output: Output) -> int:
    """Print a script that completes commands and options in a shell.

    In bash or zsh: source <(kitemq completion bash), there or in ~/.bashrc. In fish:
    kitemq completion fish > ~/.config/fish/completions/kitemq.fish
    """
    kind = get_completion_class(options.shell)
    assert kind is not None
    click.echo(kind(click.Group("kitemq"), {}, "kitemq", VARIABLE).source())
    return Exit.OK
