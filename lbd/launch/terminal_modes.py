"""A terminal's modes and size as they travel: decimal text. And what raw mode makes of modes. Pure.

Imported by `lbrun` too, when it has a terminal, so nothing heavy.
"""

import termios

Attributes = list[int | list[bytes | int]]  # as termios.tcgetattr gives them
Size = tuple[int, int, int, int]  # rows, columns, and both in pixels

NUMBERS = 6  # input, output, control, local flags; two speeds
LARGEST = 1 << 32
LARGEST_SIDE = 1 << 16
# What input a raw terminal no longer looks at, and what it no longer does with it.
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
    """Raises ValueError on anything but what `pack_modes` makes."""
    numbers = [int(word) for word in text.split()]
    flags, codes = numbers[:NUMBERS], numbers[NUMBERS:]
    if len(codes) != termios.NCCS or not all(0 <= number < LARGEST for number in flags):
        raise ValueError("malformed terminal modes")
    attributes: Attributes = [*flags, [bytes((code,)) for code in codes]]
    if not flags[3] & termios.ICANON:  # tcsetattr takes these two as numbers then
        characters = attributes[NUMBERS]
        assert isinstance(characters, list)
        characters[termios.VMIN], characters[termios.VTIME] = (
            codes[termios.VMIN],
            codes[termios.VTIME],
        )
    return attributes


def raw_modes(attributes: Attributes, *, lines: bool = False) -> Attributes:
    """Every byte as it is typed and as it is printed: whatever it means, it means elsewhere.

    `lines`: but what is printed is treated as before, so that others may print lines meanwhile.
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
    """Whether input and local flags agree: what tells raw mode from any other."""
    return all(one[at] == other[at] for at in (0, 3))


def ends_lines(attributes: Attributes) -> bool:
    """Whether a terminal makes a new line of a line feed, as all do unless told otherwise."""
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
