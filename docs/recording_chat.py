#!/usr/bin/env python3
"""Records a chat with the program in a terminal and draws it as `docs/chat.svg`.

Usage, from the top of the repository after `cargo demo` and `cargo plugins`, with pyte (`pip install pyte`), which plays the
terminal: python3 docs/recording_chat.py

Each picture of the animation is a screen that the program has drawn. Keys are typed at the pace of a person; where the
program waits for one, the picture stays as long as a reader needs. Who asks for reduced motion sees the last screen.
"""

import fcntl
import os
import pathlib
import pty
import select
import shutil
import struct
import sys
import tempfile
import termios
import time
from xml.sax.saxutils import escape

import pyte

COLUMNS, ROWS = 100, 34
CONFIG = "examples/16-chat"
CHAR, LINE, MARGIN = 8.43, 19, 16
# Seconds: between two keys, until a screen counts as drawn, and how long each kind of screen is shown.
KEY, SETTLED, PATIENCE = 0.055, 0.35, 60
READ, END = 2.6, 6.0
NAMES = {
    "black": "#45475a", "red": "#f38ba8", "green": "#a6e3a1", "brown": "#f9e2af", "yellow": "#f9e2af", "blue": "#89b4fa",
    "magenta": "#cba6f7", "cyan": "#94e2d5", "white": "#cdd6f4", "brightblack": "#7f849c", "brightwhite": "#ffffff",
}  # fmt: skip
PLAIN, GROUND = "#cdd6f4", "#1e1e2e"


class Chat:
    """The program in a terminal of its own, and the screens that it has drawn with the time for which each is shown."""

    def __init__(self, folder):
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self.stream = pyte.ByteStream(self.screen)
        self.frames = []
        program = os.path.abspath("target/debug/shelly-host")
        pid, self.terminal = pty.fork()
        if pid == 0:
            os.chdir(folder)
            os.environ.update(TERM="xterm-256color", COLORTERM="truecolor", SHELLY_NOTIFY="off", COLORFGBG="15;0", HOME=folder)
            os.execv(program, ["shelly-host", "chat", "--config", "shelly.yaml", "--trust"])
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))

    def show(self, seconds):
        """Keeps the screen as it is for some time."""
        rows = tuple(tuple(runs(self.screen.buffer[row], self.cursor_in(row))) for row in range(ROWS))
        if self.frames and self.frames[-1][0] == rows:
            self.frames[-1][1] += seconds
        else:
            self.frames.append([rows, seconds])

    def cursor_in(self, row):
        cursor = self.screen.cursor
        return cursor.x if cursor.y == row and not cursor.hidden else None

    def read(self, seconds):
        """Takes what the program draws within this time. Returns whether there was something."""
        if not select.select([self.terminal], [], [], seconds)[0]:
            return False
        try:
            self.stream.feed(os.read(self.terminal, 1 << 16))
        except OSError:
            return False
        return True

    def wait_for(self, text):
        """Shows what is drawn until the screen has this text and rests."""
        began = time.monotonic()
        while text not in "\n".join(self.screen.display):
            if time.monotonic() - began > PATIENCE:
                sys.exit(f"the screen never had {text!r}:\n" + "\n".join(self.screen.display))
            start = time.monotonic()
            if self.read(0.1) and self.frames:
                self.show(max(0.08, time.monotonic() - start))
        # While an agent works, something is drawn all the time.
        began = time.monotonic()
        while self.read(SETTLED) and time.monotonic() - began < SETTLED:
            pass
        self.show(0.3)

    def type(self, text):
        for key in text:
            os.write(self.terminal, key.encode())
            began = time.monotonic()
            while time.monotonic() - began < KEY:
                self.read(max(0, KEY - (time.monotonic() - began)))
            self.show(KEY)


def runs(row, cursor):
    """The pieces of one row: column, text, and its colours; blanks without a background are left out."""
    column = 0
    while column < COLUMNS:
        char = row[column]
        style = look(char, column == cursor)
        start, text = column, ""
        while column < COLUMNS and look(row[column], column == cursor) == style:
            text += row[column].data
            column += 1
        if text.strip() or style[1]:
            yield start, column - start, text, style


def look(char, is_cursor):
    fore, back = colour(char.fg), colour(char.bg)
    if char.reverse or is_cursor:
        fore, back = back or GROUND, fore or PLAIN
    return fore, back, char.bold, char.italics, char.underscore


def colour(name):
    return None if name == "default" else NAMES.get(name, f"#{name}")


def drawn(row):
    """One row as SVG."""
    parts = []
    for column, width, text, (fore, back, bold, italic, underlined) in row:
        x = MARGIN + column * CHAR
        if back:
            parts.append(f'<rect x="{x:.1f}" y="0" width="{width * CHAR:.1f}" height="{LINE}" fill="{back}"/>')
        if not text.strip():
            continue
        css = [f"fill:{fore}"] if fore else []
        css += ["font-weight:bold"] * bold + ["font-style:italic"] * italic + ["text-decoration:underline"] * underlined
        style = f' style="{";".join(css)}"' if css else ""
        parts.append(f'<text x="{x:.1f}" y="14" textLength="{len(text.rstrip()) * CHAR:.1f}"{style}>{escape(text.rstrip())}</text>')
    return "".join(parts)


def draw(frames):
    width, height = round(2 * MARGIN + COLUMNS * CHAR), 2 * MARGIN + ROWS * LINE
    total = sum(seconds for _, seconds in frames)
    names, pictures, steps, at = {}, [], [], 0.0
    for number, (rows, seconds) in enumerate(frames):
        uses = []
        for row, content in enumerate(rows):
            if content:
                name = names.setdefault(drawn(content), f"r{len(names)}")
                uses.append(f'<use href="#{name}" y="{MARGIN + row * LINE}"/>')
        pictures.append(f'<g transform="translate(0 {number * height})">{"".join(uses)}</g>')
        steps.append(f"{100 * at / total:.3f}%{{transform:translateY({-number * height}px)}}")
        at += seconds
    last = f"translateY({-(len(frames) - 1) * height}px)"
    defs = "".join(f'<g id="{name}">{content}</g>' for content, name in names.items())
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img"'
        ' aria-label="A recording of shelly-host chat: an agent finds a mistake, proposes a change, and asks before it is made">',
        "<style>text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
        f"fill:{PLAIN};white-space:pre}}"
        f".f{{animation:play {total:.1f}s steps(1) infinite}}@keyframes play{{{''.join(steps)}100%{{transform:{last}}}}}"
        f"@media (prefers-reduced-motion:reduce){{.f{{animation:none;transform:{last}}}}}</style>",
        f"<defs>{defs}</defs>",
        f'<rect width="{width}" height="{height}" rx="8" fill="{GROUND}"/>',
        f'<svg width="{width}" height="{height}"><g class="f">{"".join(pictures)}</g></svg>',
        "</svg>",
        "",
    ])  # fmt: skip


def main():
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(CONFIG, folder, dirs_exist_ok=True)
        config = pathlib.Path(folder, "shelly.yaml")
        config.write_text(config.read_text().replace("../../target/plugins", os.path.abspath("target/plugins")))
        chat = Chat(folder)
        chat.wait_for("/help shows keys")
        chat.show(1.0)
        chat.type("Why is the discount on a receipt wrong?")
        chat.show(0.4)
        chat.type("\r")
        chat.wait_for("apply the changes?")
        chat.show(READ)
        chat.type("y")
        chat.show(0.4)
        chat.type("\r")
        chat.wait_for("whole cents")
        chat.show(END)
        os.write(chat.terminal, b"\x04")
        # The folder is removed when the program has left it, which ends the terminal.
        while chat.read(PATIENCE):
            pass
    with open("docs/chat.svg", "w", encoding="utf-8") as file:
        file.write(draw(chat.frames))


if __name__ == "__main__":
    main()
