"""Recognises command strings so simple that they need no shell. Pure.

A string is simple if dash and bash would both make one command of it, with exactly the words
returned here, and find that command on PATH. All doubtful strings go to the real shell. The
commands that lbsh.c starts directly must be a subset of these; in addition it prints the words of a
plain `echo`.
"""

# Characters without a meaning to a shell anywhere in a word.
PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+,:@%=")
# The first word could also be a keyword, builtin, function or assignment.
NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.+/")
PRINTABLE = frozenset(map(chr, range(32, 127)))
IN_DOUBLE = PRINTABLE - frozenset('"$`\\!')

KEYWORDS = "if then else elif fi do done case esac while until for in function select time coproc"
BUILTINS = """
    . : alias bg bind break builtin caller cd chdir command compgen complete compopt continue
    declare dirs disown echo enable eval exec exit export false fc fg getopts hash help history
    jobs kill let local logout mapfile newgrp popd printf pushd pwd read readarray readonly return
    set setvar shift shopt source suspend test times trap true type typeset ulimit umask unalias
    unset wait
    """
RESERVED = frozenset((KEYWORDS + BUILTINS).split())
# They show the changes a shell makes to the environment.
TELL_TALES = frozenset(("env", "printenv"))


def simple_command(text: str) -> list[str] | None:
    """Returns the words of one simple command, None if it needs a shell."""
    words = split(text)
    if not words or not is_program(words[0]):
        return None
    # Quotes would hide a word from the shell's check for keywords, but nobody writes that.
    if not text.lstrip(" \t").startswith(words[0]):
        return None
    return words


def is_program(word: str) -> bool:
    if not word or not NAME.issuperset(word) or not (word[0].isalnum() or word[0] in "_./"):
        return False
    return word not in RESERVED and word not in TELL_TALES


def split(text: str) -> list[str] | None:
    """Splits words and quotes; returns None for anything that a shell would expand or act on."""
    words: list[str] = []
    word = ""
    inside = False  # a word has begun, perhaps only with ''
    at, end = 0, len(text)
    while at < end:
        char = text[at]
        at += 1
        if char in " \t":
            if inside:
                words.append(word)
            word, inside = "", False
            continue
        inside = True
        if char in PLAIN:
            word += char
        elif char == "\\":
            if at == end or text[at] not in PRINTABLE:
                return None
            word += text[at]
            at += 1
        elif char in "'\"":
            close = text.find(char, at)
            quoted = text[at:close]
            if close < 0 or not (IN_DOUBLE if char == '"' else PRINTABLE).issuperset(quoted):
                return None
            word += quoted
            at = close + 1
        else:
            return None
    return [*words, word] if inside else words
