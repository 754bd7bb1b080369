"""Pages about operators and names of torch, for editors, terminals and programs."""

from .builder import page_of
from .data import page_json
from .markdown import markdown
from .page import Fact, OperatorPage, Section
from .schema_page import page_of_schema
from .text import page_text

__all__ = [
    "Fact",
    "OperatorPage",
    "Section",
    "markdown",
    "page_json",
    "page_of",
    "page_of_schema",
    "page_text",
]
