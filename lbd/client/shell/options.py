"""The command line of `lbsh`, which is the shell's own; reads only what lbsh must know. Pure."""

WITH_VALUE = ("--rcfile", "--init-file", "--emulate")  # of bash and zsh
# Options that do not change what a simple command does.
HARMLESS = frozenset("ceu")


class Invocation:
    """What a shell would do when invoked with these arguments."""

    def __init__(self) -> None:
        self.letters: set[str] = set()  # short options that are on
        self.words: list[str] = []  # long options
        self.text: str | None = None  # of -c
        self.script: str | None = None

    @property
    def is_direct(self) -> bool:
        """Returns whether there is only `-c`, with nothing that changes what a simple command
        does."""
        return self.text is not None and not self.words and self.letters <= HARMLESS

    @property
    def reads_input(self) -> bool:
        """Returns True without -c or a script: commands come from standard input."""
        return self.text is None and (self.script is None or "s" in self.letters)

    @property
    def is_login(self) -> bool:
        return "l" in self.letters or "--login" in self.words


def read_invocation(arguments: list[str]) -> Invocation:
    """Never fails: errors are left to the real shell to report."""
    found = Invocation()
    rest = list(arguments)
    takes_text = False
    while rest and rest[0][:1] in ("-", "+") and rest[0] != "+":
        word = rest.pop(0)
        if word in ("-", "--"):
            break
        if word.startswith("--"):
            found.words.append(word)
            if word in WITH_VALUE:
                del rest[:1]
            continue
        takes_text |= word[0] == "-" and "c" in word
        if word[0] == "-":
            found.letters.update(word[1:])
        else:
            found.letters.difference_update(word[1:])
            found.words.append(word)
        if word[-1] in "oO":  # they take a value: `set -o` and bash's `shopt`
            del rest[:1]
    if takes_text:
        found.text = rest[0] if rest else None
    elif rest and "s" not in found.letters:
        found.script = rest[0]
    return found
