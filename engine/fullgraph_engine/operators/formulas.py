"""Convert the LaTeX formulas of torch's docstrings to one line of plain characters."""

# ruff: noqa: RUF001

from __future__ import annotations

import re

_TEXT_COMMANDS = re.compile(
    r"\\(?:text|textbf|textit|texttt|mathrm|mathbf|mathit|mathcal|mathbin|operatorname)\b\s*"
)
_DROPPED = re.compile(r"\\(?:left|right|[bB]igg?[lrm]?|displaystyle|limits|bf|rm)(?![A-Za-z])\.?")
_SPACE = re.compile(r"\\(?:q?quad\b|[,;:! ])|~")
_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[^\\]", re.S)
_SIMPLE = re.compile(r"[\w.∞αβγδεθλμνπρστφωΓΔΘΛΣΦΩ]*|\w+\([^()]*\)")
_SIMPLE_EXPONENT = re.compile(r"-?\w*|[^\w\s]|\([^()]*\)")

_SYMBOLS = {
    "times": "×",
    "cdot": "·",
    "ast": "*",
    "leq": "≤",
    "le": "≤",
    "geq": "≥",
    "ge": "≥",
    "lt": "<",
    "gt": ">",
    "ll": "≪",
    "gg": "≫",
    "neq": "≠",
    "ne": "≠",
    "approx": "≈",
    "equiv": "≡",
    "sim": "~",
    "in": "∈",
    "notin": "∉",
    "subset": "⊂",
    "cup": "∪",
    "cap": "∩",
    "land": "∧",
    "lor": "∨",
    "lnot": "¬",
    "neg": "¬",
    "oplus": "⊕",
    "otimes": "⊗",
    "odot": "⊙",
    "circ": "∘",
    "pm": "±",
    "div": "÷",
    "sum": "Σ",
    "prod": "Π",
    "int": "∫",
    "partial": "∂",
    "nabla": "∇",
    "infty": "∞",
    "ldots": "…",
    "dots": "…",
    "cdots": "…",
    "vdots": "…",
    "rightarrow": "→",
    "to": "→",
    "mapsto": "↦",
    "leftarrow": "←",
    "implies": "⇒",
    "Vert": "‖",
    "lVert": "‖",
    "rVert": "‖",
    "|": "‖",
    "vert": "|",
    "lvert": "|",
    "rvert": "|",
    "mid": "|",
    "ell": "l",
    "prime": "'",
    "forall": "∀",
    "exists": "∃",
    "langle": "⟨",
    "rangle": "⟩",
    "alpha": "α",
    "beta": "β",
    "gamma": "γ",
    "delta": "δ",
    "epsilon": "ε",
    "varepsilon": "ε",
    "eta": "η",
    "theta": "θ",
    "kappa": "κ",
    "lambda": "λ",
    "mu": "μ",
    "nu": "ν",
    "xi": "ξ",
    "pi": "π",
    "rho": "ρ",
    "sigma": "σ",
    "tau": "τ",
    "phi": "φ",
    "varphi": "φ",
    "chi": "χ",
    "psi": "ψ",
    "omega": "ω",
    "Gamma": "Γ",
    "Delta": "Δ",
    "Theta": "Θ",
    "Lambda": "Λ",
    "Pi": "Π",
    "Sigma": "Σ",
    "Phi": "Φ",
    "Psi": "Ψ",
    "Omega": "Ω",
    "star": "*",
    "top": "T",
    "lbrace": "{",
    "rbrace": "}",
    "_": "_",
    "{": "{",
    "}": "}",
    "%": "%",
    "#": "#",
    "&": "&",
    "$": "$",
}
_FUNCTIONS = re.compile(
    "log|ln|exp|(?:arc)?(?:sin|cos|tan)|(?:sin|cos|tan)h|max|min|sup|inf|lim|arg|det|dim|gcd|b?mod|"
    "Re|Im|erfc?|sinc"
)
_LETTERS = {"R": "ℝ", "C": "ℂ", "Z": "ℤ", "N": "ℕ", "K": "𝕂", "E": "𝔼", "F": "𝔽"}
_ROUNDING = {"lceil": "ceil(", "lfloor": "floor(", "rceil": ")", "rfloor": ")"}
_ACCENTS = re.compile("hat|bar|tilde|vec|(?:over|under)line|wide(?:hat|tilde)|boldsymbol|bm")


def plain_formula(latex: str) -> str:
    r"""Convert a LaTeX formula to plain characters; empty if it has an unsupported command.

    For example, ``\left\lceil \frac{a}{b} \right\rceil`` becomes ``ceil(a / b)``.
    """
    if "\\begin" in latex:
        return ""
    # Docstrings without the `r` prefix write two backslashes for one.
    text = re.sub(r"\\\\(?=[A-Za-z])", r"\\", latex)
    text = _SPACE.sub(" ", _DROPPED.sub("", text))
    try:
        found = _LatexConverter(_TOKEN.findall(text)).convert_until()
    except _UnsupportedLatex:
        return ""
    found = re.sub(r"([(\[]) +", r"\1", re.sub(r" +([)\],])", r"\1", found))
    return " ".join(found.split())


class _UnsupportedLatex(Exception):
    """Raised for a LaTeX command that cannot be written in plain characters."""


class _LatexConverter:
    """Converts LaTeX tokens to plain characters, from left to right."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._position = 0

    def convert_until(self, end: str = "") -> str:
        """Convert the tokens from the current position up to the token ``end``; all if it is empty.

        Raises:
            _UnsupportedLatex: ``end`` is missing, or a command cannot be converted.
        """
        parts: list[str] = []
        while self._position < len(self._tokens):
            if end and self._tokens[self._position] == end:
                self._position += 1
                return "".join(parts)
            parts.append(self._convert_token())
        if end:
            raise _UnsupportedLatex
        return "".join(parts)

    def _convert_token(self) -> str:
        token = self._tokens[self._position]
        self._position += 1
        if token == "{":
            return self.convert_until("}")
        if token == "}":
            raise _UnsupportedLatex
        if token in "^_":
            inner = self._convert_argument()
            return token + (inner if _SIMPLE_EXPONENT.fullmatch(inner) else f"({inner})")
        if not token.startswith("\\"):
            return token
        return self._convert_command(token[1:])

    def _convert_command(self, name: str) -> str:
        if _TEXT_COMMANDS.fullmatch(f"\\{name}"):
            return self._convert_argument()
        if name in ("frac", "dfrac", "tfrac"):
            over, under = self._convert_argument(), self._convert_argument()
            return f"{_parenthesize_compound(over)} / {_parenthesize_compound(under)}"
        if name == "sqrt":
            return f"sqrt({self._convert_argument()})"
        if name == "mathbb":
            letter = self._convert_argument()
            return _LETTERS.get(letter, letter)
        if _ACCENTS.fullmatch(name):
            return self._convert_argument()
        if name in _ROUNDING:
            return _ROUNDING[name]
        if _FUNCTIONS.fullmatch(name):
            return f" {name}" if name in ("mod", "bmod") else name
        if name in _SYMBOLS:
            return _SYMBOLS[name]
        raise _UnsupportedLatex

    def _convert_argument(self) -> str:
        while self._position < len(self._tokens) and self._tokens[self._position].isspace():
            self._position += 1
        if self._position == len(self._tokens):
            raise _UnsupportedLatex
        return self._convert_token().strip()


def _parenthesize_compound(text: str) -> str:
    return text if _SIMPLE.fullmatch(text) else f"({text})"
