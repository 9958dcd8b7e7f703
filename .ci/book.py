#!/usr/bin/env python3
"""The part of the book that mdBook does not know: links to files of the repository that are outside of `docs/`.

As a preprocessor (see `book.toml`) it makes pages of the files that a page of `docs/` includes as a whole, such as
`{{#include ../examples/README.md}}`, and lets links to these files lead to those pages. A link to any other file of the
repository becomes its text and the path, since the book is not in the repository once it is built.

`book.py check FOLDER` looks at the built book instead: every link within it must lead to a file, and to a heading in it.
"""

import html.parser
import json
import os
import re
import sys
import urllib.parse

INCLUDE = re.compile(r"\A\s*\{\{#include (\S+)\}\}\s*\Z")
# A link or picture: its mark, its text, and its target.
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
# Text in which nothing is a link: blocks of code, and code in a paragraph, which may go over the end of a line.
CODE = re.compile(r"(```.*?```|`(?:[^`\n]|\n(?!\s*\n))+`)", re.DOTALL)


def chapters(book):
    """Yields all chapters of the book, nested ones too."""
    items = list(book.get("items", book.get("sections", [])))
    while items:
        item = items.pop(0)
        if isinstance(item, dict) and "Chapter" in item:
            yield item["Chapter"]
            items[:0] = item["Chapter"]["sub_items"]


def rewrite(text, folder, page, pages):
    """Returns the text with links that work in the book. Paths are relative to the root of the repository: `folder` is where
    the text is from, `page` the page on which it stands, and `pages` has the page of each file that is one."""

    def link(match):
        mark, words, target = match.groups()
        path, _, anchor = target.partition("#")
        if not path or "://" in target or path.startswith("mailto:"):
            return match.group(0)
        file = os.path.normpath(os.path.join(folder, path))
        there = pages.get(file, file)
        if there.startswith("docs" + os.sep):
            to = os.path.relpath(there, os.path.dirname(page))
            return f"{mark}[{words}]({to}{'#' + anchor if anchor else ''})"
        # The name of a file is the best text for it already.
        is_named = words.strip("`").rstrip("/") in (file, os.path.basename(file))
        return f"`{words.strip('`')}`" if is_named else f"{words} (`{file}`)"

    # The text of a link may have code in it, so code is put aside for this time and not split off.
    kept = []

    def put_aside(match):
        kept.append(match.group(0))
        return f"\0{len(kept) - 1}\0"

    def put_back(match):
        return kept[int(match.group(1))]

    aside = CODE.sub(put_aside, text)
    linked = LINK.sub(lambda match: link_with_code(match, link, put_back), aside)
    return re.sub("\0(\\d+)\0", put_back, linked)


def link_with_code(match, link, put_back):
    whole = re.sub("\0(\\d+)\0", put_back, match.group(0))
    found = LINK.fullmatch(whole)
    return link(found) if found else whole


def preprocess():
    context, book = json.load(sys.stdin)
    root, docs = context["root"], context["config"]["book"].get("src", "docs")
    included = {}
    for chapter in chapters(book):
        if chapter.get("path") and (found := INCLUDE.match(chapter["content"])):
            included[os.path.normpath(os.path.join(docs, found[1]))] = os.path.join(docs, chapter["path"])
    for chapter in chapters(book):
        if not chapter.get("path"):
            continue
        page = os.path.join(docs, chapter["path"])
        source = next((file for file, there in included.items() if there == page), page)
        text = chapter["content"]
        if source != page:
            with open(os.path.join(root, source), encoding="utf-8") as file:
                text = file.read()
        chapter["content"] = rewrite(text, os.path.dirname(source), page, included)
    json.dump(book, sys.stdout)


class Page(html.parser.HTMLParser):
    """The anchors and links of a page."""

    def __init__(self):
        super().__init__()
        self.anchors, self.links = set(), []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.anchors |= {attributes[name] for name in ("id", "name") if attributes.get(name)}
        self.links += [attributes[name] for name in ("href", "src") if attributes.get(name)]


def check(folder):
    pages = {}
    for place, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".html"):
                path = os.path.join(place, name)
                pages[path] = Page()
                with open(path, encoding="utf-8") as file:
                    pages[path].feed(file.read())
    count, broken = 0, []
    for path, page in sorted(pages.items()):
        # All pages on one, and the page for addresses that do not exist: their links are made for other places.
        if os.path.basename(path) in ("print.html", "404.html", "toc.html"):
            continue
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            file = os.path.normpath(os.path.join(os.path.dirname(path), urllib.parse.unquote(parts.path)))
            file = path if not parts.path else file
            anchor = urllib.parse.unquote(parts.fragment)
            if not os.path.exists(file):
                broken.append(f"{path}: `{link}` leads nowhere")
            elif anchor and file in pages and anchor not in pages[file].anchors:
                broken.append(f"{path}: `{link}` names no heading")
    print(*broken, f"{len(pages)} pages with {count} links, {len(broken)} of them broken", sep="\n")
    return bool(broken) or not count


if __name__ == "__main__":
    if sys.argv[1:2] == ["supports"]:
        sys.exit(0)
    if sys.argv[1:2] == ["check"]:
        sys.exit(check(sys.argv[2]))
    preprocess()
