#!/usr/bin/env python3
"""Writes into a folder what `go build -overlay` takes, so that a reactor can be made a component: overlay.py GO FOLDER.

Go's runtime takes it that nobody else makes its memory larger. What joins WASI's first version with the second does so, for a
stack and a state of its own, in the first call of WASI that a program makes; the runtime would later hand the same pages out.
With this it makes one call before it looks how much memory there is, and takes all that is there by then as used.
"""

import json
import pathlib
import subprocess
import sys

COUNTS = "\tinitBloc()\n\tblocMax = uintptr(currentMemory()) * physPageSize"
FIRST = "\tvar first [1]byte\n\treadRandom(first[:])\n"


def overlay(go, folder):
    """The file that `-overlay` names."""
    root = subprocess.run([go, "env", "GOROOT"], capture_output=True, text=True, check=True).stdout.strip()
    source = pathlib.Path(root, "src/runtime/os_wasm.go")
    text = source.read_text()
    if text.count(COUNTS) != 1:
        sys.exit(f"error: {source} is not what this was written for: see whether its runtime still has to be helped")
    line = text[text.index(COUNTS) + len(COUNTS) :].split("\n")[0]
    text = text.replace(COUNTS + line, FIRST + COUNTS + line + "\n\tbloc = blocMax")
    folder = pathlib.Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "os_wasm.go").write_text(text)
    (folder / "overlay.json").write_text(json.dumps({"Replace": {str(source): str(folder / "os_wasm.go")}}))
    return folder / "overlay.json"


if __name__ == "__main__":
    print(overlay(*sys.argv[1:]))
