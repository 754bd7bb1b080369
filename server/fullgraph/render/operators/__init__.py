"""Pages about operators and names of torch, for editors, terminals and programs."""

from .builder import page_of
from .data import page_json
from .markdown import page_markdown
from .page import OperatorFact, OperatorPage, PageSection
from .schema_page import page_of_schema
from .text import page_text

__all__ = [
    "OperatorFact",
    "OperatorPage",
    "PageSection",
    "page_json",
    "page_markdown",
    "page_of",
    "page_of_schema",
    "page_text",
]
