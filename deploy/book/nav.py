"""The order of the book's parts and pages. A page that is not named here comes last."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig

PARTS = {
    "tutorial": "Tutorial",
    "how-to": "How to",
    "reference": "Reference",
    "explanation": "Explanation",
    "research": "Research",
}
FIRST = (
    "index", "1-lab", "2-first-build", "3-queue", "4-two-real-hosts",
    "install", "enable-the-queue", "builds", "queue", "troubleshoot",
    "lbrun", "lbsh", "lbctl", "lbd", "settings", "json",
    "architecture", "placement", "promises", "trust", "security",
)  # fmt: skip


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    docs = Path(config.docs_dir)
    config.nav = ["index.md"]
    for folder, title in PARTS.items():
        pages = sorted((docs / folder).glob("*.md"), key=order)
        config.nav.append({title: [str(page.relative_to(docs)) for page in pages]})
    return config


def order(page: Path) -> tuple[int, str]:
    return (FIRST.index(page.stem) if page.stem in FIRST else len(FIRST), page.stem)
