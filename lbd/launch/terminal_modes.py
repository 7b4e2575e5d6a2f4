"""A terminal's modes and size as decimal text, and the modes of a raw terminal. Pure.

`lbrun` imports this file when it has a terminal, so it stays light.
"""

import termios

Attributes = list[int | list[bytes | int]]  # from termios.tcgetattr
Size = tuple[int, int, int, int]  # rows, columns, width and height in pixels

NUMBERS = 6  # input, output, control, local flags; two speeds
LARGEST = 1 << 32
LARGEST_SIDE = 1 << 16
# The input processing and local modes that a raw terminal turns off.
RAW_INPUT_OFF = (
    termios.IGNBRK | termios.BRKINT | termios.PARMRK | termios.ISTRIP | termios.INLCR
    | termios.IGNCR | termios.ICRNL | termios.IXON | termios.IXANY | termios.IXOFF
)  # fmt: skip
RAW_LOCAL_OFF = (
    termios.ECHO | termios.ECHOE | termios.ECHOK | termios.ECHONL | termios.ICANON | termios.ISIG
    | termios.IEXTEN
)  # fmt: skip


def pack_modes(attributes: Attributes) -> bytes:
    """Packs six numbers, followed by every control character."""
    flags, characters = attributes[:NUMBERS], attributes[NUMBERS]
    assert isinstance(characters, list)
    codes = [item if isinstance(item, int) else item[0] for item in characters]
    return " ".join(str(number) for number in [*flags, *codes]).encode()


def read_modes(text: bytes) -> Attributes:
    """Raises ValueError on anything `pack_modes` does not produce."""
    numbers = [int(word) for word in text.split()]
    flags, codes = numbers[:NUMBERS], numbers[NUMBERS:]
    if len(codes) != termios.NCCS or not all(0 <= number < LARGEST for number in flags):
        raise ValueError("malformed terminal modes")
    attributes: Attributes = [*flags, [bytes((code,)) for code in codes]]
    if not flags[3] & termios.ICANON:  # tcsetattr then wants numbers for these two
        characters = attributes[NUMBERS]
        assert isinstance(characters, list)
        characters[termios.VMIN], characters[termios.VTIME] = (
            codes[termios.VMIN],
            codes[termios.VTIME],
        )
    return attributes


def raw_modes(attributes: Attributes, *, lines: bool = False) -> Attributes:
    """Returns modes that pass each byte through unchanged in both directions: its meaning is up to
    the other end.

    `lines`: keep output processing, so that other programs can print lines meanwhile.
    """
    input_flags, output_flags, control, local, in_speed, out_speed, characters = attributes
    assert isinstance(input_flags, int)
    assert isinstance(output_flags, int)
    assert isinstance(local, int)
    assert isinstance(characters, list)
    codes = list(characters)
    codes[termios.VMIN], codes[termios.VTIME] = 1, 0
    return [
        input_flags & ~RAW_INPUT_OFF,
        output_flags if lines else output_flags & ~termios.OPOST,
        control,
        local & ~RAW_LOCAL_OFF,
        in_speed,
        out_speed,
        codes,
    ]


def same_flags(one: Attributes, other: Attributes) -> bool:
    """Returns whether input and local flags agree, which distinguish raw mode."""
    return all(one[at] == other[at] for at in (0, 3))


def ends_lines(attributes: Attributes) -> bool:
    """Returns whether the terminal maps line feed to a new line, as it does unless told
    otherwise."""
    needed, output_flags = termios.OPOST | termios.ONLCR, attributes[1]
    return isinstance(output_flags, int) and output_flags & needed == needed


def pack_size(size: Size) -> bytes:
    return b"%d %d %d %d" % size


def read_size(text: bytes) -> Size:
    """Raises ValueError."""
    rows, columns, width, height = (int(word) for word in text.split())
    if not all(0 <= side < LARGEST_SIDE for side in (rows, columns, width, height)):
        raise ValueError("a malformed terminal size")
    return rows, columns, width, height
