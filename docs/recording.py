#!/usr/bin/env python3
"""Records a run of the program in a terminal and draws it as `docs/recording.svg`.

Usage, from the top of the repository after `cargo demo` and `cargo plugins`: python3 docs/recording.py

The picture shows what the program printed, character by character. Lines appear one after the other, slower than in the
run, which takes some milliseconds; who asks for reduced motion sees all of them at once.
"""

import fcntl
import os
import pty
import re
import struct
import sys
import termios
from xml.sax.saxutils import escape

COLUMNS = 112
COMMAND = "shelly-host run --config examples/02-delegation/shelly.yaml --plugins target/plugins \\"
TASK = "How many words are in README.md, and how many lines are in Cargo.toml?"
ARGUMENTS = ["run", "--config", "examples/02-delegation/shelly.yaml", "--plugins", "target/plugins", "--no-session", TASK]

CHAR, LINE, MARGIN = 8.43, 20, 18
# Seconds before the first line of output, and between two.
BEGIN, PAUSE = 1.2, 0.35
COLOURS = {31: "#f38ba8", 32: "#a6e3a1", 33: "#f9e2af", 34: "#89b4fa", 35: "#cba6f7", 36: "#94e2d5"}


def record():
    """Runs the program in a terminal of its own and returns what it printed."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color")
        os.execv("target/debug/shelly-host", ["shelly-host", *ARGUMENTS])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    printed = b""
    while True:
        try:
            piece = os.read(terminal, 1 << 16)
        except OSError:
            break
        if not piece:
            break
        printed += piece
    if os.waitpid(pid, 0)[1] != 0:
        sys.exit("the run failed:\n" + printed.decode())
    return printed.decode()


def spans(line):
    """Splits a line into (style, text) by its colour codes; other control sequences are an error."""
    style, found = {}, []
    for code, text in re.findall(r"\x1b\[([0-9;]*)m|([^\x1b]+|\x1b)", line):
        if text == "\x1b":
            sys.exit(f"a control sequence that is not drawn: {line!r}")
        if text:
            found.append((dict(style), text))
            continue
        for number in (int(number or 0) for number in code.split(";")):
            if number == 0:
                style = {}
            elif number == 1:
                style["font-weight"] = "bold"
            elif number == 2:
                style["fill-opacity"] = "0.6"
            elif number in COLOURS:
                style["fill"] = COLOURS[number]
    return found


def wrapped(line):
    """Breaks a line as the terminal does, and keeps the style of each piece."""
    rows, used = [[]], 0
    for style, text in spans(line):
        while text:
            if used == COLUMNS:
                rows.append([])
                used = 0
            piece, text = text[: COLUMNS - used], text[COLUMNS - used :]
            rows[-1].append((style, piece))
            used += len(piece)
    return rows


def draw(rows):
    width = round(2 * MARGIN + COLUMNS * CHAR)
    height = 2 * MARGIN + len(rows) * LINE
    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img"'
        ' aria-label="A recording of shelly-host run: a lead agent delegates two tasks to two readers, and answers">',
        "<style>text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#cdd6f4;white-space:pre}"
        ".l{animation:show .01s linear both}@keyframes show{from{opacity:0}to{opacity:1}}"
        "@media (prefers-reduced-motion:reduce){.l{animation:none}}</style>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#1e1e2e"/>',
    ]
    for at, (row, seconds) in enumerate(rows):
        y = MARGIN + at * LINE + 14
        parts, column = [], 0
        for style, text in row:
            css = ";".join(f"{key}:{value}" for key, value in style.items())
            x = MARGIN + column * CHAR
            attributes = f' style="{css}"' if css else ""
            if text.strip():
                parts.append(f'<tspan x="{x:.1f}"{attributes}>{escape(text)}</tspan>')
            column += len(text)
        moment = f' class="l" style="animation-delay:{seconds:.2f}s"' if seconds else ""
        svg.append(f'<text y="{y}" xml:space="preserve"{moment}>{"".join(parts)}</text>')
    return "\n".join([*svg, "</svg>", ""])


def main():
    rows = [(row, 0) for line in (f"$ {COMMAND}", f'    "{TASK}"') for row in wrapped(line)]
    for at, line in enumerate(record().replace("\r\n", "\n").rstrip("\n").split("\n")):
        rows += [(row, BEGIN + at * PAUSE) for row in wrapped(line)]
    with open("docs/recording.svg", "w", encoding="utf-8") as file:
        file.write(draw(rows))


if __name__ == "__main__":
    main()
