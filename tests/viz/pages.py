"""Reading pages as a browser would: tags in order, text as it is shown."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "img", "col", "br", "link"}
HEADINGS = {"h1", "h2", "h3"}


class Reader(HTMLParser):
    """Collects tags, attributes, headings and text; fails on a tag closed out of turn."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.headings: list[tuple[str, str]] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert not self.open, f"never closed: {self.open}"
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag in HEADINGS:
            self.headings.append((tag, ""))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))  # such as <line/> in a drawing

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            return
        self.text += data
        if self.open and self.open[-1] in HEADINGS:
            tag, text = self.headings[-1]
            self.headings[-1] = tag, text + data

    def named(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def classed(self, name: str) -> list[str]:
        return [tag for tag, attributes in self.tags if name in attributes.get("class", "").split()]
